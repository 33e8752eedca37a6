//! Texts that a person typed, turned into the types that a JSON schema asks for.

use serde_json::{Map, Value};

/// References are followed so far; a chain that is longer is a ring.
const REFERENCES_MAX: usize = 16;

/// The schema of an object: a tool's `inputSchema`, an elicitation's `requestedSchema`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectSchema {
    root: Value,
}

/// The JSON types that a schema allows for one value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Types {
    string: bool,
    integer: bool,
    number: bool,
    boolean: bool,
    array: bool,
    object: bool,
    null: bool,
}

impl Types {
    const ANY: Types = Types {
        string: true,
        integer: true,
        number: true,
        boolean: true,
        array: true,
        object: true,
        null: true,
    };

    fn add(&mut self, word: &str) {
        match word {
            "string" => self.string = true,
            "integer" => self.integer = true,
            "number" => self.number = true,
            "boolean" => self.boolean = true,
            "array" => self.array = true,
            "object" => self.object = true,
            "null" => self.null = true,
            _ => {}
        }
    }

    fn join(self, other: Types) -> Types {
        Types {
            string: self.string || other.string,
            integer: self.integer || other.integer,
            number: self.number || other.number,
            boolean: self.boolean || other.boolean,
            array: self.array || other.array,
            object: self.object || other.object,
            null: self.null || other.null,
        }
    }

    fn take(self, value: &Value) -> bool {
        match value {
            Value::String(_) => self.string,
            Value::Bool(_) => self.boolean,
            Value::Array(_) => self.array,
            Value::Object(_) => self.object,
            Value::Null => self.null,
            Value::Number(n) => self.number || self.integer && (n.is_i64() || n.is_u64()),
        }
    }

    fn words(self) -> String {
        let all = [
            (self.string, "string"),
            (self.integer, "integer"),
            (self.number, "number"),
            (self.boolean, "boolean"),
            (self.array, "array"),
            (self.object, "object"),
        ];
        let words: Vec<&str> = all.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
        if words.len() == all.len() { "any".to_owned() } else { words.join(" or ") }
    }
}

impl ObjectSchema {
    /// Reads a raw schema; what cannot be read allows everything.
    pub(crate) fn read(raw: &str) -> ObjectSchema {
        ObjectSchema { root: serde_json::from_str(raw).unwrap_or_default() }
    }

    /// The properties, in the order of the schema.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        let properties = self.resolve(&self.root).get("properties").and_then(Value::as_object);
        properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), self.resolve(schema)))
    }

    /// Must be given.
    pub(crate) fn is_required(&self, name: &str) -> bool {
        let required = self.resolve(&self.root).get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|required| required == name))
    }

    /// Nothing beside the properties is taken.
    fn is_closed(&self) -> bool {
        self.resolve(&self.root).get("additionalProperties") == Some(&Value::Bool(false))
    }

    /// `a (string, required), b (integer)`.
    pub(crate) fn signature(&self) -> String {
        let words = self.properties().map(|(name, schema)| {
            let types = self.words(schema);
            let required = if self.is_required(name) { ", required" } else { "" };
            format!("{name} ({types}{required})")
        });
        words.collect::<Vec<String>>().join(", ")
    }

    /// The types of one property in words, or its choices.
    pub(crate) fn words(&self, schema: &Value) -> String {
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return choices.iter().map(plain).collect::<Vec<String>>().join("|");
        }
        self.types(schema).words()
    }

    /// Makes one object of `key=value` words.
    ///
    /// # Errors
    /// A sentence that names the word.
    pub(crate) fn object_of(&self, pairs: &[String]) -> Result<Map<String, Value>, String> {
        let mut object = Map::new();
        for pair in pairs {
            let Some((key, text)) = pair.split_once('=') else {
                return Err(format!("{pair:?} is not key=value"));
            };
            let found = self.properties().find(|(name, _)| *name == key).map(|(_, schema)| schema);
            let value = match found {
                Some(schema) => self.typed(schema, text).map_err(|expected| format!("{key}: {expected}"))?,
                None if self.is_closed() => return Err(self.no_such_argument(key)),
                None => Value::String(text.to_owned()),
            };
            add(&mut object, key, value)?;
        }
        Ok(object)
    }

    fn no_such_argument(&self, key: &str) -> String {
        let near = crate::output::nearest(key, self.properties().map(|(name, _)| name));
        let near = near.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
        format!("there is no argument {key:?}{near}")
    }

    /// The value that a text means where this schema stands.
    ///
    /// # Errors
    /// What would have been right.
    pub(crate) fn typed(&self, schema: &Value, text: &str) -> Result<Value, String> {
        let schema = self.resolve(schema);
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            let chosen = choices.iter().find(|choice| plain(choice) == text);
            return chosen.cloned().ok_or_else(|| format!("{text:?} is not one of {}", self.words(schema)));
        }
        let types = self.types(schema);
        if types == (Types { string: true, ..Types::default() }) {
            return Ok(Value::String(text.to_owned()));
        }
        if let Some(value) = self.parsed(types, text) {
            return Ok(value);
        }
        if types.array && !types.string && !text.trim_start().starts_with('[') {
            let item = schema
                .get("items")
                .map_or(Ok(Value::String(text.to_owned())), |items| self.typed(items, text))?;
            return Ok(Value::Array(vec![item]));
        }
        match types.string {
            true => Ok(Value::String(text.to_owned())),
            false => Err(format!("{text:?} is not of type {}", types.words())),
        }
    }

    fn parsed(&self, types: Types, text: &str) -> Option<Value> {
        let value: Value = serde_json::from_str(text).ok()?;
        // A string is typed without quotes; quotes belong to the text.
        (types.take(&value) && !value.is_string()).then_some(value)
    }

    fn types(&self, schema: &Value) -> Types {
        self.types_within(schema, REFERENCES_MAX)
    }

    fn types_within(&self, schema: &Value, depth: usize) -> Types {
        let schema = self.resolve(schema);
        let mut types = Types::default();
        match schema.get("type") {
            Some(Value::String(word)) => types.add(word),
            Some(Value::Array(words)) => {
                words.iter().filter_map(Value::as_str).for_each(|word| types.add(word))
            }
            _ => {
                let branches =
                    ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
                for branch in branches.filter(|_| depth > 0) {
                    types = types.join(self.types_within(branch, depth - 1));
                }
            }
        }
        if types == Types::default() { Types::ANY } else { types }
    }

    /// Follows local references.
    fn resolve<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..REFERENCES_MAX {
            let target = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#'));
            match target.and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }
}

/// A key that is given again adds to a list.
fn add(object: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), String> {
    match (object.get_mut(key), value) {
        (None, value) => {
            object.insert(key.to_owned(), value);
            Ok(())
        }
        (Some(Value::Array(items)), Value::Array(more)) => {
            items.extend(more);
            Ok(())
        }
        (Some(_), _) => Err(format!("{key} is given twice")),
    }
}

/// A value as it is typed.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> ObjectSchema {
        ObjectSchema::read(
            r##"{"type":"object","properties":{
                "s":{"type":"string"},"n":{"type":"integer"},"x":{"type":"number"},"on":{"type":"boolean"},
                "tags":{"type":"array","items":{"type":"string"}},"o":{"type":"object"},"e":{"enum":["a",2]},
                "maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]},"ref":{"$ref":"#/$defs/n"},
                "ring":{"$ref":"#/properties/ring"},"any":{},"texts":{"type":["string","null"]}},
                "required":["s"],"additionalProperties":false,"$defs":{"n":{"type":"integer"}}}"##,
        )
    }

    fn object_of(pairs: &[&str]) -> Result<Value, String> {
        let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        schema().object_of(&pairs).map(Value::Object)
    }

    #[test]
    fn values_get_the_type_of_the_schema() {
        for (pair, want) in [
            ("s=3", json!({"s": "3"})),
            ("s=\"q\"", json!({"s": "\"q\""})),
            ("s=a=b", json!({"s": "a=b"})),
            ("n=3", json!({"n": 3})),
            ("x=3.5", json!({"x": 3.5})),
            ("on=true", json!({"on": true})),
            (r#"tags=["a","b"]"#, json!({"tags": ["a", "b"]})),
            ("tags=a", json!({"tags": ["a"]})),
            (r#"o={"k":1}"#, json!({"o": {"k": 1}})),
            ("e=2", json!({"e": 2})),
            ("maybe=7", json!({"maybe": 7})),
            ("maybe=null", json!({"maybe": null})),
            ("ref=4", json!({"ref": 4})),
            ("any=4", json!({"any": 4})),
            ("any=four", json!({"any": "four"})),
            ("texts=4", json!({"texts": "4"})),
            ("ring=x", json!({"ring": "x"})),
        ] {
            assert_eq!(object_of(&[pair]), Ok(want), "{pair}");
        }
        assert_eq!(object_of(&["tags=a", "tags=b"]), Ok(json!({"tags": ["a", "b"]})));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (pairs, want) in [
            (&["n=three"][..], "n: \"three\" is not of type integer"),
            (&["n=1.5"], "n: \"1.5\" is not of type integer"),
            (&["e=c"], "e: \"c\" is not one of a|2"),
            (&["tgas=a"], "there is no argument \"tgas\"; did you mean \"tags\"?"),
            (&["word"], "\"word\" is not key=value"),
            (&["n=1", "n=2"], "n is given twice"),
        ] {
            assert_eq!(object_of(pairs), Err(want.to_owned()), "{pairs:?}");
        }
    }

    #[test]
    fn without_a_schema_everything_is_text() {
        let object = ObjectSchema::read("null").object_of(&["a=1".to_owned()]);
        assert_eq!(object.map(Value::Object), Ok(json!({"a": "1"})));
    }

    #[test]
    fn signatures_are_short() {
        let schema = ObjectSchema::read(r#"{"properties":{"a":{"type":"string"},"b":{}},"required":["a"]}"#);
        assert_eq!(schema.signature(), "a (string, required), b (any)");
    }
}
