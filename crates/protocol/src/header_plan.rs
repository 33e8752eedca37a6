//! Which arguments of a tool go into `Mcp-Param-*` headers (`x-mcp-header`, 2026-07-28,
//! `server/tools` and `basic/transports/streamable-http`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The mirrored arguments of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderPlan {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    header: String,
    path: Vec<String>,
}

/// Why a schema's annotations make its tool unusable over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("x-mcp-header {name} {problem}")]
pub struct HeaderPlanError {
    /// The annotation's value, as JSON.
    pub name: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// The annotation's key in a schema.
const KEY: &str = "x-mcp-header";
/// Largest integer that a header may carry: 2^53 - 1.
const INTEGER_MAX: i64 = (1 << 53) - 1;
/// Deepest schema that is looked at.
const DEPTH_MAX: usize = 64;
/// Keywords whose values are data, not schemas.
const DATA_KEYWORDS: [&str; 4] = ["const", "default", "enum", "examples"];

impl HeaderPlan {
    /// Reads the annotations of a raw input schema.
    ///
    /// # Errors
    /// When one of them is not allowed by the text; such a tool must not be offered over HTTP.
    pub fn of_schema(schema: &str) -> Result<HeaderPlan, HeaderPlanError> {
        if memchr::memmem::find(schema.as_bytes(), KEY.as_bytes()).is_none() {
            return Ok(HeaderPlan::default());
        }
        let Ok(schema) = serde_json::from_str::<Value>(schema) else { return Ok(HeaderPlan::default()) };
        let mut plan = HeaderPlan::default();
        walk(&schema, Some(&mut Vec::new()), &mut plan, 0)?;
        let mut seen = BTreeSet::new();
        for entry in &plan.entries {
            if !seen.insert(entry.header.to_ascii_lowercase()) {
                return Err(HeaderPlanError { name: entry.header.clone(), problem: "stands twice" });
            }
        }
        Ok(plan)
    }

    /// True when nothing is mirrored.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The headers for these arguments: full header names and safe values. Absent and `null` arguments have none.
    pub fn headers(&self, arguments: &str) -> Vec<(String, String)> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let Ok(arguments) = serde_json::from_str::<Value>(arguments) else { return Vec::new() };
        let values = self.entries.iter().filter_map(|entry| {
            let value = entry.path.iter().try_fold(&arguments, |value, key| value.get(key))?;
            let text = match value {
                Value::String(text) => Cow::Borrowed(text.as_str()),
                Value::Bool(flag) => Cow::Borrowed(if *flag { "true" } else { "false" }),
                Value::Number(number) => Cow::Owned(integer(number)?),
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            Some((format!("Mcp-Param-{}", entry.header), header_value(&text)))
        });
        values.collect()
    }
}

fn integer(number: &serde_json::Number) -> Option<String> {
    let whole = number.as_i64().or_else(|| number.as_f64().filter(|f| f.fract() == 0.0).map(|f| f as i64))?;
    (-INTEGER_MAX..=INTEGER_MAX).contains(&whole).then(|| whole.to_string())
}

/// The text as a header value: as it is when safe, else in the base64 form `=?base64?…?=`.
pub fn header_value(text: &str) -> String {
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    let safe = text.bytes().all(|b| (0x20..0x7f).contains(&b))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !looks_encoded;
    if safe { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

fn walk(
    schema: &Value,
    path: Option<&mut Vec<String>>,
    plan: &mut HeaderPlan,
    depth: usize,
) -> Result<(), HeaderPlanError> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    match schema {
        Value::Array(items) => items.iter().try_for_each(|item| walk(item, None, plan, depth + 1)),
        Value::Object(members) => {
            let mut path = path;
            if let Some(name) = members.get(KEY) {
                plan.entries.push(entry(name, members.get("type"), path.as_deref())?);
            }
            for (key, value) in members {
                match (key.as_str(), value) {
                    (KEY, _) => {}
                    (keyword, _) if DATA_KEYWORDS.contains(&keyword) => {}
                    ("properties", Value::Object(properties)) => {
                        for (name, property) in properties {
                            match path.as_deref_mut() {
                                Some(path) => {
                                    path.push(name.clone());
                                    walk(property, Some(path), plan, depth + 1)?;
                                    path.pop();
                                }
                                None => walk(property, None, plan, depth + 1)?,
                            }
                        }
                    }
                    (
                        "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                        Value::Object(schemas),
                    ) => {
                        schemas.values().try_for_each(|schema| walk(schema, None, plan, depth + 1))?;
                    }
                    _ => walk(value, None, plan, depth + 1)?,
                }
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn entry(name: &Value, kind: Option<&Value>, path: Option<&Vec<String>>) -> Result<Entry, HeaderPlanError> {
    let wrong = |problem| Err(HeaderPlanError { name: name.to_string(), problem });
    let Some(header) = name.as_str() else { return wrong("is not a string") };
    if header.is_empty() || !header.bytes().all(is_token_byte) {
        return wrong("is not a header token");
    }
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return wrong("stands where properties alone do not lead");
    };
    if !matches!(kind.and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return wrong("stands on something else than a string, an integer or a boolean");
    }
    Ok(Entry { header: header.to_owned(), path: path.clone() })
}

/// RFC 9110, section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(schema: &str, arguments: &str) -> Vec<(String, String)> {
        HeaderPlan::of_schema(schema).expect("plan").headers(arguments)
    }

    #[test]
    fn values_are_mirrored_and_made_safe() {
        let schema = r#"{"type":"object","properties":{
            "a":{"type":"string","x-mcp-header":"Region"},
            "n":{"type":"integer","x-mcp-header":"Count"},
            "b":{"type":"boolean","x-mcp-header":"Method"},
            "o":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}}}}"#;
        for (arguments, want) in [
            (
                r#"{"a":"eu","n":7,"b":true}"#,
                vec![("Mcp-Param-Region", "eu"), ("Mcp-Param-Count", "7"), ("Mcp-Param-Method", "true")],
            ),
            (r#"{"a":null}"#, vec![]),
            (r#"{"a":""}"#, vec![("Mcp-Param-Region", "")]),
            (r#"{"a":"é"}"#, vec![("Mcp-Param-Region", "=?base64?w6k=?=")]),
            (r#"{"a":" x"}"#, vec![("Mcp-Param-Region", "=?base64?IHg=?=")]),
            (r#"{"a":"a\tb"}"#, vec![("Mcp-Param-Region", "=?base64?YQli?=")]),
            (r#"{"a":"=?base64?x?="}"#, vec![("Mcp-Param-Region", "=?base64?PT9iYXNlNjQ/eD89?=")]),
            (r#"{"o":{"deep":"d"}}"#, vec![("Mcp-Param-Deep", "d")]),
            (r#"{"n":9007199254740993}"#, vec![]),
        ] {
            let got = headers(schema, arguments);
            let got: Vec<(&str, &str)> = got.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(got, want, "{arguments}");
        }
    }

    #[test]
    fn bad_annotations_are_refused() {
        for property in [
            r#"{"type":"string","x-mcp-header":""}"#,
            r#"{"type":"string","x-mcp-header":"a b"}"#,
            r#"{"type":"string","x-mcp-header":"a\r\nb"}"#,
            r#"{"type":"string","x-mcp-header":7}"#,
            r#"{"type":"number","x-mcp-header":"N"}"#,
            r#"{"type":"object","x-mcp-header":"N"}"#,
            r#"{"type":"array","x-mcp-header":"N"}"#,
            r#"{"type":"array","items":{"type":"string","x-mcp-header":"N"}}"#,
            r#"{"anyOf":[{"type":"string","x-mcp-header":"N"}]}"#,
            r#"{"x-mcp-header":"N"}"#,
        ] {
            let schema = format!(r#"{{"type":"object","properties":{{"p":{property}}}}}"#);
            assert!(HeaderPlan::of_schema(&schema).is_err(), "{property}");
        }
        let twice = r#"{"properties":{"a":{"type":"string","x-mcp-header":"N"},"b":{"type":"string","x-mcp-header":"n"}}}"#;
        assert!(HeaderPlan::of_schema(twice).is_err());
        let data = r#"{"properties":{"a":{"type":"object","default":{"x-mcp-header":7}}}}"#;
        assert!(HeaderPlan::of_schema(data).is_ok_and(|plan| plan.is_empty()));
    }
}
