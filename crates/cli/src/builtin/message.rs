//! JSON-RPC messages: what comes in, what goes out, and how a request can fail.

use serde_json::{Map, Value, json};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// The id of a request, in the JSON type in which it came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequestId {
    Number(i64),
    Text(String),
}

impl RequestId {
    /// Strings and integers are ids; null, fractions and everything else are not.
    pub(super) fn of(value: &Value) -> Option<Self> {
        value.as_i64().map(Self::Number).or_else(|| value.as_str().map(|text| Self::Text(text.to_owned())))
    }

    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Number(number) => json!(number),
            Self::Text(text) => json!(text),
        }
    }
}

/// A message from the client.
#[derive(Debug)]
pub(super) enum Incoming {
    Request {
        id: RequestId,
        method: String,
        params: Object,
    },
    Notification {
        method: String,
        params: Object,
    },
    /// What a server that asks nothing has no use for: an answer, or a notification that cannot be read.
    Ignored,
    Invalid {
        id: Option<RequestId>,
        fault: Fault,
    },
}

impl Incoming {
    /// Sorts one JSON value; batches are taken apart before.
    pub(super) fn of(message: Value) -> Self {
        let Value::Object(mut message) = message else {
            return Self::Invalid { id: None, fault: Fault::invalid_request("a message is an object") };
        };
        let has_id = message.contains_key("id");
        let id = message.get("id").and_then(RequestId::of);
        let invalid = |fact: &str| Self::Invalid { id: id.clone(), fault: Fault::invalid_request(fact) };
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return invalid("jsonrpc must be \"2.0\"");
        }
        let method = match message.remove("method") {
            Some(Value::String(method)) => method,
            None if message.contains_key("result") || message.contains_key("error") => return Self::Ignored,
            None | Some(_) => return invalid("method must be a string"),
        };
        let params = match message.remove("params") {
            Some(Value::Object(params)) => params,
            None | Some(Value::Null) => Object::new(),
            Some(_) if !has_id => return Self::Ignored,
            Some(_) => return Self::Invalid { id, fault: Fault::invalid_params("params must be an object") },
        };
        match id {
            Some(id) => Self::Request { id, method, params },
            None if has_id => invalid("an id is a string or an integer"),
            None => Self::Notification { method, params },
        }
    }
}

/// Why a request got no result: a JSON-RPC error.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) code: i32,
    message: String,
    data: Option<Value>,
}

impl Fault {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn parse_error() -> Self {
        Self::new(-32700, "Parse error")
    }

    pub(super) fn invalid_request(fact: &str) -> Self {
        Self::new(-32600, format!("Invalid request: {fact}"))
    }

    pub(super) fn method_not_found(method: &str) -> Self {
        Self::new(-32601, format!("Method not found: {method}"))
    }

    pub(super) fn invalid_params(fact: impl AsRef<str>) -> Self {
        Self::new(-32602, format!("Invalid params: {}", fact.as_ref()))
    }

    pub(super) fn internal(fact: impl AsRef<str>) -> Self {
        Self::new(-32603, format!("Internal error: {}", fact.as_ref()))
    }

    /// `resources/read` of something that is not there, in the code of the legacy revisions.
    pub(super) fn resource_not_found_legacy(uri: &str) -> Self {
        Self { data: Some(json!({ "uri": uri })), ..Self::new(-32002, "Resource not found") }
    }

    /// `resources/read` of something that is not there, in the code of 2026-07-28.
    pub(super) fn resource_not_found_modern(uri: &str) -> Self {
        Self { data: Some(json!({ "uri": uri })), ..Self::new(-32602, "Resource not found") }
    }

    /// A modern request in a revision that is not spoken in that way.
    pub(super) fn unsupported_version(supported: &[&str], requested: &str) -> Self {
        let data = json!({ "supported": supported, "requested": requested });
        Self { data: Some(data), ..Self::new(-32022, "Unsupported protocol version") }
    }

    fn into_json(self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = self.data {
            error["data"] = data;
        }
        error
    }
}

/// The answer to a request; an id that could not be read is null.
pub(super) fn answer(id: Option<&RequestId>, outcome: Result<Value, Fault>) -> Value {
    let id = id.map_or(Value::Null, RequestId::to_json);
    match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(fault) => json!({ "jsonrpc": "2.0", "id": id, "error": fault.into_json() }),
    }
}

/// A notification to the client; empty params are left out.
pub(super) fn notification(method: &str, params: Object) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "method": method });
    if !params.is_empty() {
        message["params"] = Value::Object(params);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_messages() {
        let check = |message: Value, expected: &str| {
            let kind = match Incoming::of(message.clone()) {
                Incoming::Request { .. } => "request".to_owned(),
                Incoming::Notification { .. } => "notification".to_owned(),
                Incoming::Ignored => "ignored".to_owned(),
                Incoming::Invalid { id, fault } => format!("{} {}", fault.code, id.is_some()),
            };
            assert_eq!(kind, expected, "{message}");
        };
        check(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), "request");
        check(json!({"jsonrpc": "2.0", "id": "a", "method": "ping", "params": null}), "request");
        check(json!({"jsonrpc": "2.0", "method": "x", "params": {}}), "notification");
        check(json!({"jsonrpc": "2.0", "id": 1, "result": {}}), "ignored");
        check(json!({"jsonrpc": "2.0", "id": null, "method": "ping"}), "-32600 false");
        check(json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}), "-32600 false");
        check(json!({"jsonrpc": "2.0", "id": 1}), "-32600 true");
        check(json!({"jsonrpc": "2.0", "id": 1, "method": 7}), "-32600 true");
        check(json!({"id": 1, "method": "ping"}), "-32600 true");
        check(json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}), "-32602 true");
        check(json!("ping"), "-32600 false");
    }
}
