//! JSON with comments and trailing commas, and nothing looser: what the file's own client refuses must not
//! pass here by accident.

use super::{Duplicate, Lines, Parsed, Raw, RawKind, RawMap};
use crate::load::finding::FileError;
use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn parse(text: &str) -> Result<Parsed, FileError> {
    let result =
        parse_to_ast(text, &CollectOptions::default(), &OPTIONS).map_err(|error| FileError::Syntax {
            language: "JSON",
            line: error.line_display(),
            column: error.column_display(),
            what: lower_first(&error.kind().to_string()),
        })?;
    let mut tree = Tree { lines: Lines::new(text), duplicates: Vec::new() };
    let root = match &result.value {
        Some(value) => tree.value(value, 0),
        None => Raw { line: 1, kind: RawKind::Map(RawMap::new()) },
    };
    Ok(Parsed { root, duplicates: tree.duplicates })
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

struct Tree<'a> {
    lines: Lines<'a>,
    duplicates: Vec<Duplicate>,
}

impl Tree<'_> {
    /// A value whose line is that of `offset`, where its key or it itself begins.
    fn value(&mut self, value: &Value<'_>, offset: usize) -> Raw {
        let kind = match value {
            Value::StringLit(text) => RawKind::Text(text.value.clone().into_owned()),
            Value::NumberLit(number) => RawKind::Number(number.value.to_owned()),
            Value::BooleanLit(literal) => RawKind::Bool(literal.value),
            Value::NullKeyword(_) => RawKind::Null,
            Value::Object(object) => RawKind::Map(self.object(object)),
            Value::Array(array) => {
                RawKind::List(array.elements.iter().map(|item| self.value(item, item.start())).collect())
            }
        };
        Raw { line: self.lines.line(offset), kind }
    }

    fn object(&mut self, object: &Object<'_>) -> RawMap {
        let mut map = RawMap::with_capacity(object.properties.len());
        for property in &object.properties {
            let key = property.name.as_str().to_owned();
            let value = self.value(&property.value, property.start());
            let line = value.line;
            if let Some(earlier) = map.insert(key.clone(), value) {
                self.duplicates.push(Duplicate { key, first_line: earlier.line, line });
            }
        }
        map
    }
}
