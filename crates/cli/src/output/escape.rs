//! Text of a server on its way to a terminal: nothing in it moves the cursor, changes colours or turns the
//! direction of reading.

use serde_json::Value;
use std::fmt::Write;

/// Characters that a terminal or a reader would obey instead of showing: controls (C0, DEL, C1), and those that
/// turn the direction of text (UAX #9).
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
    let line = value.to_string();
    if !line.chars().any(is_obeyed) {
        return line;
    }
    let mut shown = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        match is_obeyed(c) {
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
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn a_line_of_json_means_the_same() {
        let value = json!({ "text": "\u{1b}[2J \u{9b}31m \u{202e}x é" });
        let line = json_line(&value);
        assert!(!line.chars().any(is_obeyed), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), value);
    }
}
