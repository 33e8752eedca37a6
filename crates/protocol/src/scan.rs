//! Taking large JSON apart at its first level, without looking into the parts.
//!
//! Strings are skipped at the speed of memory and nesting is only counted, so that a message of many
//! megabytes is split at a small part of the price of a full parse. What comes out is not checked: whoever
//! reads a part as a type finds out whether it is JSON. A bad item of a list so harms itself alone.

/// The text is not what it should be at its first level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the JSON breaks off or is out of shape at byte {at}")]
pub struct ScanError {
    /// Where, in bytes from the start.
    pub at: usize,
}

/// The members of a JSON object: raw key (with its quotes) and raw value.
pub fn members(text: &str) -> Members<'_> {
    Members { parts: Parts::new(text, b'{', b'}') }
}

/// The elements of a JSON array, raw.
pub fn elements(text: &str) -> Elements<'_> {
    Elements { parts: Parts::new(text, b'[', b']') }
}

/// See [`members`].
pub struct Members<'a> {
    parts: Parts<'a>,
}

/// See [`elements`].
pub struct Elements<'a> {
    parts: Parts<'a>,
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(&'a str, &'a str), ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.parts.next_with(|parts| {
            let key = parts.value().filter(|key| key.starts_with('"'))?;
            parts.blanks();
            parts.eat(b':')?;
            parts.blanks();
            Some((key, parts.value()?))
        })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<&'a str, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.parts.next_with(Parts::value)
    }
}

struct Parts<'a> {
    text: &'a str,
    at: usize,
    close: u8,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start(u8),
    Between,
    Done,
}

impl<'a> Parts<'a> {
    fn new(text: &'a str, open: u8, close: u8) -> Parts<'a> {
        Parts { text, at: 0, close, state: State::Start(open) }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.byte() == Some(byte)).then(|| self.at += 1)
    }

    /// Consumes one value of any kind.
    fn value(&mut self) -> Option<&'a str> {
        let end = value_end(self.text.as_bytes(), self.at)?;
        let value = self.text.get(self.at..end)?;
        self.at = end;
        Some(value)
    }

    fn next_with<T>(&mut self, part: impl FnOnce(&mut Self) -> Option<T>) -> Option<Result<T, ScanError>> {
        match self.step(part) {
            Ok(part) => part.map(Ok),
            Err(error) => {
                self.state = State::Done;
                Some(Err(error))
            }
        }
    }

    fn step<T>(&mut self, part: impl FnOnce(&mut Self) -> Option<T>) -> Result<Option<T>, ScanError> {
        self.blanks();
        let fail = |at| ScanError { at };
        match self.state {
            State::Done => return Ok(None),
            State::Start(open) => {
                self.eat(open).ok_or(fail(self.at))?;
                self.blanks();
                if self.eat(self.close).is_some() {
                    return self.end();
                }
            }
            State::Between => {
                if self.eat(self.close).is_some() {
                    return self.end();
                }
                self.eat(b',').ok_or(fail(self.at))?;
                self.blanks();
            }
        }
        self.state = State::Between;
        part(self).map(Some).ok_or(fail(self.at))
    }

    fn end<T>(&mut self) -> Result<Option<T>, ScanError> {
        self.state = State::Done;
        self.blanks();
        if self.at == self.text.len() { Ok(None) } else { Err(ScanError { at: self.at }) }
    }
}

/// The position after the value that starts at `at`.
fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => nested_end(text, at),
        b',' | b':' | b'}' | b']' => None,
        _ => {
            let rest = &text[at..];
            let len = rest
                .iter()
                .position(|b| matches!(b, b',' | b'}' | b']' | b':' | b'"' | b' ' | b'\t' | b'\n' | b'\r'));
            Some(at + len.unwrap_or(rest.len()))
        }
    }
}

/// The position after the string that starts at `at`, if it ends.
pub(crate) fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at + 1;
    loop {
        end += memchr::memchr2(b'"', b'\\', text.get(end..)?)?;
        if text[end] == b'"' {
            return Some(end + 1);
        }
        end += 2;
    }
}

fn nested_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match text.get(at)? {
            b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn broken_text_is_an_error_and_ends_the_walk() {
        for text in [
            "",
            "{",
            "{\"a\"",
            "{\"a\":}",
            "{\"a\":1",
            "{\"a\":1}x",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{1:2}",
            "[\"a]",
            "[{]",
        ] {
            let bad = if text.starts_with('[') {
                elements(text).any(|e| e.is_err())
            } else {
                members(text).any(|m| m.is_err())
            };
            assert!(bad, "{text}");
        }
        assert_eq!(elements("[1,]").filter(Result::is_err).count(), 1);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn parts_are_those_of_a_full_parse(value in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.expect("serialises");
            let parse = |raw: &str| serde_json::from_str::<Value>(raw).expect("a part is JSON");
            match &value {
                Value::Object(map) => {
                    let found: Vec<(Value, Value)> =
                        members(&text).map(|m| m.expect("whole")).map(|(k, v)| (parse(k), parse(v))).collect();
                    let want: Vec<(Value, Value)> = map.iter().map(|(k, v)| (k.as_str().into(), v.clone())).collect();
                    prop_assert_eq!(found, want);
                }
                Value::Array(items) => {
                    let found: Vec<Value> = elements(&text).map(|e| parse(e.expect("whole"))).collect();
                    prop_assert_eq!(&found, items);
                }
                _ => {}
            }
        }

        #[test]
        fn no_text_panics(text in r#"[{}\[\]:,"\\a-z0-9 é]{0,60}"#) {
            let _ = members(&text).count();
            let _ = elements(&text).count();
        }
    }
}
