//! JSON-RPC errors as a peer sent them.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// Error codes with a meaning (JSON-RPC 2.0; MCP `basic/index`, §error codes).
pub mod code {
    /// Not JSON.
    pub const PARSE: i64 = -32700;
    /// JSON, but no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Bad parameters; an unknown tool, too.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The peer failed.
    pub const INTERNAL: i64 = -32603;
    /// Resource not found, up to 2025-11-25.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Mirrored headers differ from the body (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client did not declare (2026-07-28).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The peer does not speak the requested revision (2026-07-28).
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// URL elicitations must be done first (2025-11-25).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// The person refused a sampling request (2024-11-05 to 2025-11-25).
    pub const USER_REJECTED: i64 = -1;
}

/// An error object of a peer, read leniently: it is an error even without a message or a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    /// The code, 0 when the peer gave none.
    pub code: i64,
    /// The message, bounded to [`RemoteError::MESSAGE_CHARS_MAX`] characters.
    pub message: String,
    /// The raw `data` member.
    pub data: Option<Bytes>,
}

impl RemoteError {
    /// Longest message that is kept, in characters.
    pub const MESSAGE_CHARS_MAX: usize = 2_000;

    /// The code says that the peer did not begin to perform the request: it could not read it, does not know it,
    /// or was not given what it needs. Any other error may come from the midst of the work.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self.code,
            code::PARSE
                | code::INVALID_REQUEST
                | code::METHOD_NOT_FOUND
                | code::INVALID_PARAMS
                | code::HEADER_MISMATCH
                | code::MISSING_CAPABILITY
                | code::UNSUPPORTED_VERSION
        )
    }

    /// Reads the raw JSON of an `error` member, whatever its shape.
    pub fn from_raw(raw: &Bytes) -> RemoteError {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(borrow, default)]
            code: Option<&'a RawValue>,
            #[serde(borrow, default)]
            message: Option<&'a RawValue>,
            #[serde(borrow, default)]
            data: Option<&'a RawValue>,
        }
        let text = crate::json::text(raw);
        let shape =
            if crate::json::is_object(text) { serde_json::from_str::<Shape<'_>>(text).ok() } else { None };
        let Some(shape) = shape else {
            let message = crate::json::string(text).map_or_else(|| text.to_owned(), |m| m.into_owned());
            return RemoteError { code: 0, message: bounded(&message), data: None };
        };
        let code = shape.code.map(RawValue::get).unwrap_or("0");
        let code = code.parse().ok().or_else(|| code.parse::<f64>().ok().map(|c| c as i64)).unwrap_or(0);
        let message = match shape.message.map(RawValue::get) {
            Some(raw) => crate::json::string(raw).map_or_else(|| raw.to_owned(), |m| m.into_owned()),
            None => String::new(),
        };
        let data = shape.data.map(|data| crate::json::slice_of(raw, data.get()));
        RemoteError { code, message: bounded(&message), data }
    }

    /// The revisions a peer named in `data.supported` of an [`code::UNSUPPORTED_VERSION`] error.
    pub fn supported_versions(&self) -> Option<Vec<String>> {
        #[derive(Deserialize)]
        struct Data {
            supported: Vec<String>,
        }
        let data: Data = serde_json::from_slice(self.data.as_deref()?).ok()?;
        (!data.supported.is_empty()).then_some(data.supported)
    }
}

fn bounded(message: &str) -> String {
    crate::text::cut(message, RemoteError::MESSAGE_CHARS_MAX).0.to_owned()
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => write!(f, "error {} without a message", self.code),
            message => write!(f, "{message} (code {})", self.code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_shapes_are_errors_all_the_same() {
        for (raw, code, message) in [
            (r#"{"code":-32601,"message":"no"}"#, -32601, "no"),
            (r#"{"code":-32000}"#, -32000, ""),
            (r#"{"message":{"a":1}}"#, 0, r#"{"a":1}"#),
            (r#""gone""#, 0, "gone"),
            (r#"{"code":"x","message":"m"}"#, 0, "m"),
            ("[1]", 0, "[1]"),
        ] {
            let error = RemoteError::from_raw(&Bytes::from_static(raw.as_bytes()));
            assert_eq!((error.code, error.message.as_str()), (code, message), "{raw}");
        }
    }

    #[test]
    fn supported_versions_are_read_from_data() {
        let raw = Bytes::from_static(br#"{"code":-32022,"message":"v","data":{"supported":["2026-07-28"]}}"#);
        assert_eq!(RemoteError::from_raw(&raw).supported_versions(), Some(vec!["2026-07-28".to_owned()]));
        let raw = Bytes::from_static(br#"{"code":-32022,"message":"v","data":{"supported":7}}"#);
        assert_eq!(RemoteError::from_raw(&raw).supported_versions(), None);
    }
}
