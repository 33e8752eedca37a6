//! JSON-RPC ids as peers send them.

use std::fmt;

/// The id of a response, brought to a common form.
///
/// Our own ids are unsigned integers; peers echo them as numbers, as strings of digits or as `7.0`, and
/// all of these name the same call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Id {
    /// An id that can be one of ours.
    Number(u64),
    /// Any other text.
    Text(Box<str>),
    /// `null`, or no id at all.
    Null,
}

impl Id {
    /// Reads the raw JSON text of an id.
    pub fn from_raw(raw: &str) -> Id {
        let raw = raw.trim();
        if let Some(number) = own_number(raw) {
            return Id::Number(number);
        }
        if raw == "null" || raw.is_empty() {
            return Id::Null;
        }
        if raw.starts_with('"') {
            let text = crate::json::string(raw).unwrap_or_default();
            return match own_number(&text) {
                Some(number) => Id::Number(number),
                None => Id::Text(text.into_owned().into_boxed_str()),
            };
        }
        Id::Text(raw.into())
    }

    /// The number, when this id can be one of ours.
    pub fn own(&self) -> Option<u64> {
        match self {
            Id::Number(number) => Some(*number),
            Id::Text(_) | Id::Null => None,
        }
    }
}

fn own_number(text: &str) -> Option<u64> {
    let digits = text.strip_suffix(".0").unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(number) => write!(f, "{number}"),
            Id::Text(text) => write!(f, "{text:?}"),
            Id::Null => f.write_str("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_our_number_is_that_number() {
        for raw in ["7", "\"7\"", "7.0", " 7 "] {
            assert_eq!(Id::from_raw(raw), Id::Number(7), "{raw}");
        }
        for raw in ["-7", "7.5", "\"a7\"", "1e3", "\"\""] {
            assert_eq!(Id::from_raw(raw).own(), None, "{raw}");
        }
        assert_eq!(Id::from_raw("null"), Id::Null);
    }
}
