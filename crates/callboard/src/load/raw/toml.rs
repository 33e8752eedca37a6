//! TOML, with the keys in the case and order of the file.

use super::{Lines, Parsed, Raw, RawKind, RawMap};
use crate::load::finding::FileError;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// The parser's own words are short; this bounds what a future version may say.
const MESSAGE_CHARS_MAX: usize = 200;

pub(super) fn parse(text: &str) -> Result<Parsed, FileError> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        FileError::Syntax {
            language: "TOML",
            line: lines.line(offset),
            column: lines.column(offset),
            // The rest of the parser's own display quotes the line, which may hold a secret.
            what: error
                .message()
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(MESSAGE_CHARS_MAX)
                .collect(),
        }
    })?;
    let root = Raw { line: 1, kind: RawKind::Map(members(table.get_ref(), &lines)) };
    Ok(Parsed { root, duplicates: Vec::new() })
}

fn members(table: &DeTable<'_>, lines: &Lines<'_>) -> RawMap {
    let mut sorted: Vec<_> = table.iter().collect();
    sorted.sort_by_key(|(key, _)| key.span().start);
    sorted
        .into_iter()
        .map(|(key, item)| (key.get_ref().clone().into_owned(), value(item, key.span().start, lines)))
        .collect()
}

fn value(item: &Spanned<DeValue<'_>>, offset: usize, lines: &Lines<'_>) -> Raw {
    let kind = match item.get_ref() {
        DeValue::String(text) => RawKind::Text(text.clone().into_owned()),
        DeValue::Integer(number) => RawKind::Number(decimal(number)),
        DeValue::Float(number) => RawKind::Number(number.as_str().to_owned()),
        DeValue::Boolean(truth) => RawKind::Bool(*truth),
        DeValue::Datetime(date) => RawKind::Date(date.to_string()),
        DeValue::Array(items) => {
            RawKind::List(items.iter().map(|item| value(item, item.span().start, lines)).collect())
        }
        DeValue::Table(table) => RawKind::Map(members(table, lines)),
    };
    Raw { line: lines.line(offset), kind }
}

/// The number in base ten; one that no integer type holds stays as written and is refused where it is used.
fn decimal(number: &DeInteger<'_>) -> String {
    i128::from_str_radix(number.as_str(), number.radix())
        .map_or_else(|_| number.to_string(), |value| value.to_string())
}
