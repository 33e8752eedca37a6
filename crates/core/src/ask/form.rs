//! Forms of elicitations: what a person left out is filled in from the schema's defaults.

use serde_json::{Map, Value};

/// The content with the default of every property that it lacks.
pub(crate) fn filled_with_defaults(schema: &str, content: &str) -> Value {
    let mut content: Map<String, Value> = serde_json::from_str(content).unwrap_or_default();
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let (None, Some(default)) = (content.get(name), property.get("default")) {
            content.insert(name.clone(), default.clone());
        }
    }
    Value::Object(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_fill_gaps_and_never_replace_an_answer() {
        let schema = r#"{"properties":{"a":{"default":"x"},"b":{"default":2},"c":{"type":"string"}}}"#;
        assert_eq!(filled_with_defaults(schema, r#"{"b":7}"#), json!({"b": 7, "a": "x"}));
        assert_eq!(filled_with_defaults("7", "{}"), json!({}));
    }
}
