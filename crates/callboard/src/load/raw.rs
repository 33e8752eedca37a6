//! A configuration file as a tree with line numbers, whatever language it is written in.

mod json;
mod toml;

use super::finding::FileError;
use indexmap::IndexMap;
use std::path::Path;

/// The languages that files are written in; the extension decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// JSON with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

impl Language {
    /// The language of a path.
    pub(super) fn of(path: &Path) -> Language {
        match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
            true => Language::Toml,
            false => Language::Json,
        }
    }
}

/// A value and the line where it, or its key, stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Raw {
    pub(super) line: usize,
    pub(super) kind: RawKind,
}

/// Members of an object, in the order of the file.
pub(super) type RawMap = IndexMap<String, Raw>;

/// What a value is. Numbers and dates keep their text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RawKind {
    Null,
    Bool(bool),
    Number(String),
    Date(String),
    Text(String),
    List(Vec<Raw>),
    Map(RawMap),
}

impl Raw {
    /// The word for the value's type in messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self.kind {
            RawKind::Null => "null",
            RawKind::Bool(_) => "true or false",
            RawKind::Number(_) => "a number",
            RawKind::Date(_) => "a date",
            RawKind::Text(_) => "text",
            RawKind::List(_) => "a list",
            RawKind::Map(_) => "an object",
        }
    }

    pub(super) fn as_map(&self) -> Option<&RawMap> {
        match &self.kind {
            RawKind::Map(map) => Some(map),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.kind {
            RawKind::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A key that stands twice in one object; the later one counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Duplicate {
    pub(super) key: String,
    pub(super) first_line: usize,
    pub(super) line: usize,
}

/// A file that could be parsed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parsed {
    pub(super) root: Raw,
    pub(super) duplicates: Vec<Duplicate>,
}

/// Parses a file. A byte order mark is accepted, and an empty file is an empty object.
///
/// # Errors
/// When it is not UTF-8 or not of its language; the message never quotes the file.
pub(super) fn parse(bytes: &[u8], language: Language) -> Result<Parsed, FileError> {
    let text = std::str::from_utf8(bytes).map_err(|_| FileError::NotText)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match language {
        Language::Json => json::parse(text),
        Language::Toml => toml::parse(text),
    }
}

/// Turns byte offsets into lines and columns, both from 1.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Lines<'a> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Lines { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    fn column(&self, offset: usize) -> usize {
        let start = self.starts[self.line(offset) - 1];
        self.text.get(start..offset).map_or(1, |before| before.chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, language: Language, expected: &str) {
        let shown = match parse(text.as_bytes(), language) {
            Ok(parsed) => format!("{} {:?}", show(&parsed.root), parsed.duplicates.len()),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    /// Each value with its line in front.
    fn show(raw: &Raw) -> String {
        let value = match &raw.kind {
            RawKind::Null => "null".to_owned(),
            RawKind::Bool(value) => value.to_string(),
            RawKind::Number(text) | RawKind::Date(text) => text.clone(),
            RawKind::Text(text) => format!("{text:?}"),
            RawKind::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
            RawKind::Map(map) => {
                let members: Vec<String> =
                    map.iter().map(|(key, raw)| format!("{key} {}", show(raw))).collect();
                format!("{{{}}}", members.join(" "))
            }
        };
        format!("{}:{value}", raw.line)
    }

    #[test]
    fn both_languages_become_the_same_tree() {
        check(
            "\u{feff}{\n // c\n \"b\": [1,\n true,], /* x */ \"a\": \"http://x/#//y\", \"n\": null,}",
            Language::Json,
            r#"1:{b 3:[3:1 4:true] a 4:"http://x/#//y" n 4:null} 0"#,
        );
        check(
            "\u{feff}# c\nb = [0x10,\n true]\n[z.Name]\na = 'x'\n[c]\nd = 1.5\nt = 1979-05-27",
            Language::Toml,
            r#"1:{b 2:[2:16 3:true] z 4:{Name 4:{a 5:"x"}} c 6:{d 7:1.5 t 8:1979-05-27}} 0"#,
        );
    }

    #[test]
    fn an_empty_file_is_an_empty_object_and_a_key_may_stand_twice() {
        check("", Language::Json, "1:{} 0");
        check(" // nothing\n", Language::Json, "1:{} 0");
        check("", Language::Toml, "1:{} 0");
        check("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}", Language::Json, "1:{a 3:3 b 2:2} 1");
    }

    #[test]
    fn what_does_not_parse_says_where_and_quotes_nothing() {
        check(
            "{\"a\": {\"command\": \"x\"},}, oops",
            Language::Json,
            "is not valid JSON: line 1, column 25: text cannot contain more than one JSON value",
        );
        check(
            "{\n  \"a\": hunter2\n}",
            Language::Json,
            "is not valid JSON: line 2, column 8: unexpected word",
        );
        check(
            "{a: 1}",
            Language::Json,
            "is not valid JSON: line 1, column 2: expected string for object property",
        );
        check("{\"a\": 1 \"b\": 2}", Language::Json, "is not valid JSON: line 1, column 8: expected comma");
        check(
            "[a]\nb = hunter2",
            Language::Toml,
            "is not valid TOML: line 2, column 5: string values must be quoted, expected literal string",
        );
        check("a = 1\na = 2", Language::Toml, "is not valid TOML: line 2, column 1: duplicate key");
        assert_eq!(parse(b"\xff\xfe{", Language::Json), Err(FileError::NotText));
    }

    #[test]
    fn depth_has_a_limit() {
        for language in [Language::Json, Language::Toml] {
            let text = format!("a = {}", "[".repeat(100_000));
            assert!(matches!(parse(text.as_bytes(), language), Err(FileError::Syntax { .. })));
            assert!(parse("[".repeat(100_000).as_bytes(), language).is_err());
        }
    }
}
