//! Text of a server on its way to a terminal: nothing in it moves the cursor, changes colours or turns the
//! direction of reading.

use serde_json::Value;
use std::fmt::Write;

/// Characters that a terminal or a reader would obey instead of showing: controls (C0, DEL, C1), those that end a
/// line or a paragraph, and those that turn the direction of text (UAX #9).
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text of a server as it is shown to people: its lines stay, such characters are left out, a tab is two blanks.
pub(crate) fn printable(text: &str) -> String {
    let text = text.replace('\t', "  ");
    text.chars().filter(|c| !is_obeyed(*c) || *c == '\n').collect()
}

/// One line of text, with such characters written out: an escape is shown as `\x1b`. A tab is two blanks.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // Writing to a string does not fail.
        let _ = match c {
            '\t' => write!(shown, "  "),
            '\n' => write!(shown, "\\n"),
            '\r' => write!(shown, "\\r"),
            c if is_obeyed(c) && u32::from(c) < 0x100 => write!(shown, "\\x{:02x}", u32::from(c)),
            c if is_obeyed(c) => write!(shown, "\\u{{{:x}}}", u32::from(c)),
            c => write!(shown, "{c}"),
        };
    }
    shown
}

/// A value as one line of JSON, in which such characters stand as escapes; JSON itself asks that of C0 alone.
pub(crate) fn json_line(value: &Value) -> String {
    json_text(value.to_string())
}

/// The text of a JSON value, in which such characters stand as escapes. Those of ASCII are left alone: within a text
/// JSON itself escapes them, and elsewhere they are line ends and blanks.
pub(crate) fn json_text(text: String) -> String {
    let is_raw = |c: char| is_obeyed(c) && u32::from(c) >= 0x7f;
    if !text.chars().any(is_raw) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_raw(c) {
            true => drop(write!(shown, "\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_terminal_is_given_nothing_to_obey() {
        for (text, expected) in [
            ("plain é €", "plain é €"),
            ("\u{1b}[2J\u{7}", "\\x1b[2J\\x07"),
            ("a\tb\r\n", "a  b\\r\\n"),
            ("\u{9b}31m\u{7f}", "\\x9b31m\\x7f"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
            ("one\u{2028}two", "one\\u{2028}two"),
        ] {
            assert_eq!(escaped(text), expected);
        }
        assert_eq!(printable("\u{1b}[1ma\tb\n\u{9b}\u{202e}c\u{2028}"), "[1ma  b\nc");
    }

    #[test]
    fn a_line_of_json_means_the_same() {
        let value = json!({ "text": "\u{1b}[2J \u{9b}31m \u{202e}x é" });
        let line = json_line(&value);
        assert!(!line.chars().any(is_obeyed), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), value);
        let indented = json_text(serde_json::to_string_pretty(&value).expect("serialises"));
        assert!(indented.lines().count() == 3 && !indented.contains('\u{202e}'), "{indented}");
        assert_eq!(serde_json::from_str::<Value>(&indented).expect("JSON"), value);
    }
}
