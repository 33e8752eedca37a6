//! The arguments of a tool call, read one by one. What is wrong with them is told to the model.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::message::Object;
use super::page::Start;
use super::server::ToolError;

/// Longest cursor, in bytes: the longest path and a prefix.
const CURSOR_BYTES_MAX: usize = 8 * 1024;

/// The arguments of one call. Each is taken once; [`Arguments::end`] finds those that the tool does not know.
pub(super) struct Arguments {
    given: Object,
}

impl Arguments {
    pub(super) fn new(given: Object) -> Self {
        Self { given }
    }

    /// A text of at most `bytes_max` bytes that must be given.
    pub(super) fn text(&mut self, name: &str, bytes_max: usize) -> Result<String, ToolError> {
        self.text_if_given(name, bytes_max)?.ok_or_else(|| input(format!("{name} is required")))
    }

    /// A text of at most `bytes_max` bytes that may be left out.
    pub(super) fn text_if_given(
        &mut self,
        name: &str,
        bytes_max: usize,
    ) -> Result<Option<String>, ToolError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= bytes_max => Ok(Some(text)),
            Some(Value::String(_)) => Err(input(format!("{name} is longer than {bytes_max} bytes"))),
            Some(other) => Err(input(format!("{name} must be a string, not {}", kind(&other)))),
        }
    }

    /// An integer within the range that must be given.
    pub(super) fn integer(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<u64, ToolError> {
        self.integer_if_given(name, range)?.ok_or_else(|| input(format!("{name} is required")))
    }

    /// An integer within the range that may be left out.
    pub(super) fn integer_if_given(
        &mut self,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let whole = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0);
        match value.as_u64().or(whole.map(|number| number as u64)) {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            Some(_) | None => {
                Err(input(format!("{name} must be an integer from {} to {}", range.start(), range.end())))
            }
        }
    }

    /// How many items a page may have, from the argument `limit`.
    pub(super) fn limit(&mut self, count: usize, count_max: usize) -> Result<usize, ToolError> {
        let given = self.integer_if_given("limit", 1..=u64::try_from(count_max).unwrap_or(u64::MAX))?;
        Ok(given.and_then(|given| usize::try_from(given).ok()).unwrap_or(count))
    }

    /// Where a page starts, from the argument `cursor`.
    pub(super) fn start(&mut self) -> Result<Start, ToolError> {
        let Some(cursor) = self.text_if_given("cursor", CURSOR_BYTES_MAX)? else { return Ok(Start::first()) };
        Start::parse(&cursor).ok_or_else(|| input("cursor must come from next_cursor".to_owned()))
    }

    /// Refuses what is left over.
    pub(super) fn end(self) -> Result<(), ToolError> {
        match self.given.keys().next() {
            None => Ok(()),
            Some(name) => Err(input(format!("there is no argument {name}"))),
        }
    }

    /// Takes an argument; null counts as left out, since models write it so.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.given.remove(name).filter(|value| !value.is_null())
    }
}

fn input(fact: String) -> ToolError {
    ToolError::Input(fact)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(given: Value, expected: Result<(Option<String>, Option<u64>), &str>) {
        let mut arguments = Arguments::new(given.as_object().cloned().unwrap_or_default());
        let found = arguments
            .text_if_given("text", 4)
            .and_then(|text| Ok((text, arguments.integer_if_given("count", 1..=9)?)))
            .and_then(|found| arguments.end().map(|()| found));
        assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{given}");
    }

    #[test]
    fn arguments_are_checked_one_by_one() {
        check(json!({"text": "abcd", "count": 9}), Ok((Some("abcd".to_owned()), Some(9))));
        check(json!({"text": null, "count": 3.0}), Ok((None, Some(3))));
        check(json!({"text": "abcde"}), Err("text is longer than 4 bytes"));
        check(json!({"text": 1}), Err("text must be a string, not a number"));
        for count in [json!(0), json!(10), json!(-1), json!(1.5), json!("1"), json!(1e300)] {
            check(json!({"count": count}), Err("count must be an integer from 1 to 9"));
        }
        check(json!({"txet": "a"}), Err("there is no argument txet"));
    }
}
