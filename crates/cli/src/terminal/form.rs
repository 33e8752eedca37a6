//! A form of an elicitation: its fields, and what an answer to one of them means. Pure, so that it can be
//! tested without a terminal.

use crate::schema::{ObjectSchema, plain};
use serde_json::{Map, Value};

/// One field to fill in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// The property.
    pub(crate) name: String,
    /// Its title, or its name.
    pub(crate) title: String,
    /// Its description, empty when there is none.
    pub(crate) description: String,
    /// Must be filled in.
    pub(crate) required: bool,
    /// What is given when nothing is typed.
    pub(crate) default: Option<Value>,
    /// What can be chosen: value and title.
    pub(crate) choices: Vec<(Value, String)>,
    /// More than one can be chosen.
    pub(crate) many: bool,
    /// Its types in words.
    pub(crate) kind: String,
    schema: Value,
}

/// All fields of a form.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    schema: ObjectSchema,
    /// In the order of the schema.
    pub(crate) fields: Vec<Field>,
}

impl Form {
    /// Reads a `requestedSchema`.
    pub(crate) fn read(raw: &str) -> Form {
        let schema = ObjectSchema::read(raw);
        let fields = schema.properties().map(|(name, property)| field(&schema, name, property)).collect();
        Form { schema, fields }
    }

    /// The value that an answer gives to a field; none leaves the field out.
    ///
    /// # Errors
    /// What would have been right, in a sentence.
    pub(crate) fn answer(&self, field: &Field, text: &str) -> Result<Option<Value>, String> {
        if text.trim().is_empty() {
            return match (&field.default, field.required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, true) => Err("this field is required".into()),
                (None, false) => Ok(None),
            };
        }
        let value = if field.many {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            Value::Array(words.map(|word| chosen(field, word)).collect::<Result<_, _>>()?)
        } else if !field.choices.is_empty() {
            chosen(field, text.trim())?
        } else {
            self.schema.typed(&field.schema, yes_or_no(&field.schema, text))?
        };
        check(&field.schema, &value)?;
        Ok(Some(value))
    }

    /// The object of all answers.
    pub(crate) fn content(answers: Vec<(String, Value)>) -> Value {
        Value::Object(answers.into_iter().collect::<Map<String, Value>>())
    }
}

fn field(schema: &ObjectSchema, name: &str, property: &Value) -> Field {
    let text = |key: &str| property.get(key).and_then(Value::as_str).map(crate::output::printable);
    let many = property.get("type").and_then(Value::as_str) == Some("array");
    let choices = choices(if many { property.get("items").unwrap_or(&Value::Null) } else { property });
    Field {
        name: name.to_owned(),
        title: text("title").unwrap_or_else(|| name.to_owned()),
        description: text("description").unwrap_or_default(),
        required: schema.is_required(name),
        default: property.get("default").cloned(),
        many: many && !choices.is_empty(),
        choices,
        kind: text("format").unwrap_or_else(|| schema.words(property)),
        schema: property.clone(),
    }
}

/// The forms of an enumeration: `enum` with `enumNames`, or titled constants under `oneOf` or `anyOf`.
fn choices(schema: &Value) -> Vec<(Value, String)> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        let title = |at: usize| list("enumNames")?.get(at)?.as_str().map(str::to_owned);
        let titled =
            values.iter().enumerate().map(|(at, v)| (v.clone(), title(at).unwrap_or_else(|| plain(v))));
        return titled.collect();
    }
    let constants = list("oneOf").or_else(|| list("anyOf")).into_iter().flatten().filter_map(|branch| {
        let value = branch.get("const")?.clone();
        let title = branch.get("title").and_then(Value::as_str).map_or_else(|| plain(&value), str::to_owned);
        Some((value, title))
    });
    constants.collect()
}

/// A choice by its number, its value or its title.
fn chosen(field: &Field, word: &str) -> Result<Value, String> {
    let by_word =
        |(value, title): &&(Value, String)| plain(value) == word || title.eq_ignore_ascii_case(word);
    let by_number = || field.choices.get(word.parse::<usize>().ok()?.checked_sub(1)?);
    let choice = field.choices.iter().find(by_word).or_else(by_number);
    choice.map(|(value, _)| value.clone()).ok_or_else(|| format!("{word:?} is none of the choices"))
}

fn yes_or_no<'a>(schema: &Value, text: &'a str) -> &'a str {
    if schema.get("type").and_then(Value::as_str) != Some("boolean") {
        return text;
    }
    match text.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" => "true",
        "n" | "no" | "false" => "false",
        _ => text,
    }
}

/// The limits that a flat schema may set.
fn check(schema: &Value, value: &Value) -> Result<(), String> {
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let within = |what: &str, n: f64, min: Option<f64>, max: Option<f64>| match (min, max) {
        (Some(min), _) if n < min => Err(format!("{what} must be at least {min}")),
        (_, Some(max)) if n > max => Err(format!("{what} must be at most {max}")),
        _ => Ok(()),
    };
    match value {
        Value::Number(n) => {
            let n = n.as_f64().unwrap_or_default();
            within("the number", n, limit("minimum"), limit("maximum"))
        }
        Value::String(text) => {
            let chars = text.chars().count() as f64;
            within("the number of characters", chars, limit("minLength"), limit("maxLength"))?;
            format_fits(schema.get("format").and_then(Value::as_str).unwrap_or_default(), text)
        }
        Value::Array(items) => {
            within("the number of choices", items.len() as f64, limit("minItems"), limit("maxItems"))
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => Ok(()),
    }
}

fn format_fits(format: &str, text: &str) -> Result<(), String> {
    let fits = match format {
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.')),
        "uri" => url::Url::parse(text).is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        _ => true,
    };
    if fits { Ok(()) } else { Err(format!("{text:?} is no {format}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form() -> Form {
        Form::read(
            r#"{"type":"object","required":["name","mail"],"properties":{
                "name":{"type":"string","title":"Your name","minLength":2},
                "mail":{"type":"string","format":"email"},
                "age":{"type":"integer","minimum":18,"default":30},
                "sure":{"type":"boolean"},
                "colour":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]},
                "size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]},
                "tags":{"type":"array","items":{"type":"string","enum":["a","b"]},"maxItems":1},
                "day":{"type":"string","format":"date"}}}"#,
        )
    }

    #[test]
    fn answers_become_values() {
        let form = form();
        for (name, text, want) in [
            ("name", "Jo", Ok(Some(json!("Jo")))),
            ("name", "J", Err("the number of characters must be at least 2")),
            ("name", "", Err("this field is required")),
            ("mail", "x", Err("\"x\" is no email")),
            ("mail", "a@b.c", Ok(Some(json!("a@b.c")))),
            ("age", "", Ok(Some(json!(30)))),
            ("age", "17", Err("the number must be at least 18")),
            ("age", "many", Err("\"many\" is not of type integer")),
            ("sure", "", Ok(None)),
            ("sure", "Yes", Ok(Some(json!(true)))),
            ("sure", "n", Ok(Some(json!(false)))),
            ("colour", "2", Ok(Some(json!("g")))),
            ("colour", "red", Ok(Some(json!("r")))),
            ("colour", "blue", Err("\"blue\" is none of the choices")),
            ("size", "l", Ok(Some(json!("l")))),
            ("tags", "a", Ok(Some(json!(["a"])))),
            ("tags", "a, 2", Err("the number of choices must be at most 1")),
            ("day", "2026-11-31", Err("\"2026-11-31\" is no date")),
        ] {
            let field = form.fields.iter().find(|field| field.name == name).expect("a field");
            assert_eq!(form.answer(field, text), want.map_err(str::to_owned), "{name}={text}");
        }
    }

    #[test]
    fn fields_come_in_order_and_with_their_titles() {
        let titles: Vec<String> = form().fields.into_iter().map(|field| field.title).collect();
        assert_eq!(titles[..3], ["Your name", "mail", "age"]);
    }
}
