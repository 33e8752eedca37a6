//! How requests are written in each era: one trait, two dialects.

mod legacy;
mod modern;
mod trace;

pub use legacy::LegacyDialect;
pub use modern::ModernDialect;
pub(crate) use trace::meta_members;

use crate::handler::Handlers;
use callboard_protocol::message::Implementation;
use callboard_protocol::{Era, ProtocolVersion};
use std::borrow::Cow;

/// One request, before its era gives it form.
#[derive(Debug, Clone, Default)]
pub struct Outline<'a> {
    /// The method.
    pub method: &'a str,
    /// The raw `params` object; empty for none.
    pub params: Cow<'a, str>,
    /// What `Mcp-Name` says: the tool, the prompt, the URI.
    pub name: Option<&'a str>,
    /// Mirrored arguments.
    pub param_headers: Vec<(String, String)>,
    /// Ask for progress under this request's own id.
    pub wants_progress: bool,
    /// More members of `_meta`: raw JSON members without braces.
    pub meta: Cow<'a, str>,
}

/// How a withdrawn request is called off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withdrawal {
    /// By this notification.
    Notify(Vec<u8>),
    /// By closing its response stream, and nothing else.
    CloseStream,
}

/// The wire form of one era.
pub trait Dialect: Send + Sync + 'static {
    /// The revision spoken.
    fn version(&self) -> ProtocolVersion;

    /// Appends the request as one line of JSON, without a line end.
    fn write_request(&self, out: &mut Vec<u8>, id: u64, outline: &Outline<'_>);

    /// The headers that mirror the request over HTTP.
    fn headers(&self, outline: &Outline<'_>) -> Vec<(String, String)>;

    /// How to call off a request of ours; `over_http` when it is an exchange of its own.
    fn withdrawal(&self, id: u64, reason: &str, over_http: bool) -> Withdrawal;

    /// The era.
    fn era(&self) -> Era {
        self.version().era()
    }
}

/// What the client says of itself.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    /// Name and version.
    pub info: Implementation,
}

impl Default for ClientIdentity {
    fn default() -> ClientIdentity {
        let info = Implementation { name: "callboard".into(), version: env!("CARGO_PKG_VERSION").into() };
        ClientIdentity { info }
    }
}

/// The raw capabilities object for an era: only what the handlers really offer.
///
/// Legacy peers get `elicitation: {}` unless addresses are offered, too: old servers fail on more.
pub fn capabilities(handlers: &Handlers, era: Era) -> String {
    let mut members = Vec::new();
    if handlers.roots.is_some() {
        members.push(r#""roots":{}"#);
    }
    if handlers.sampling.is_some() {
        members.push(r#""sampling":{}"#);
    }
    if let Some(elicitation) = &handlers.elicitation {
        members.push(match (era, elicitation.offers_url()) {
            (Era::Legacy, false) => r#""elicitation":{}"#,
            (Era::Modern, false) => r#""elicitation":{"form":{}}"#,
            (Era::Legacy | Era::Modern, true) => r#""elicitation":{"form":{},"url":{}}"#,
        });
    }
    format!("{{{}}}", members.join(","))
}

/// A notification as one line of JSON.
pub fn notification(method: &str, params: &str) -> Vec<u8> {
    match params {
        "" => format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#).into_bytes(),
        params => {
            one_line(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#).into_bytes())
        }
    }
}

/// JSON text as one line: line ends between tokens become blanks (inside strings there are none).
pub(crate) fn one_line(mut json: Vec<u8>) -> Vec<u8> {
    blank_line_ends(&mut json);
    json
}

fn blank_line_ends(json: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &json[from..]) {
        json[from + at] = b' ';
        from += at + 1;
    }
}

/// Appends `{"jsonrpc":"2.0","id":ID,"method":"M","params":{…,"_meta":{META}}}`.
fn write(out: &mut Vec<u8>, id: u64, method: &str, params: &str, meta: &[&str], progress: bool) {
    let from = out.len();
    let mut digits = itoa::Buffer::new();
    let id = digits.format(id);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"method\":\"");
    out.extend_from_slice(method.as_bytes());
    out.push(b'"');
    let token = if progress { id } else { "" };
    let has_meta = progress || meta.iter().any(|part| !part.is_empty());
    match (params.trim(), has_meta) {
        ("", false) => {}
        (params, false) => {
            out.extend_from_slice(b",\"params\":");
            out.extend_from_slice(params.as_bytes());
        }
        (params, true) => {
            out.extend_from_slice(b",\"params\":{");
            let members = params.strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap_or("").trim();
            if !members.is_empty() {
                out.extend_from_slice(members.as_bytes());
                out.push(b',');
            }
            out.extend_from_slice(b"\"_meta\":{");
            let at = out.len();
            for part in meta.iter().filter(|part| !part.is_empty()) {
                if out.len() > at {
                    out.push(b',');
                }
                out.extend_from_slice(part.as_bytes());
            }
            if !token.is_empty() {
                if out.len() > at {
                    out.push(b',');
                }
                out.extend_from_slice(b"\"progressToken\":");
                out.extend_from_slice(token.as_bytes());
            }
            out.extend_from_slice(b"}}");
        }
    }
    out.push(b'}');
    blank_line_ends(&mut out[from..]);
}

/// Takes a caller's own `_meta` out of raw params, so that ours can be written beside it: the params without
/// it, and its raw members.
pub(crate) fn split_meta(params: &str) -> (Cow<'_, str>, Cow<'_, str>) {
    if !params.contains("\"_meta\"") {
        return (Cow::Borrowed(params), Cow::Borrowed(""));
    }
    let Ok(mut members) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(params) else {
        return (Cow::Borrowed(params), Cow::Borrowed(""));
    };
    let Some(serde_json::Value::Object(mut meta)) = members.remove("_meta") else {
        return (Cow::Borrowed(params), Cow::Borrowed(""));
    };
    meta.remove(callboard_protocol::meta::PROGRESS_TOKEN);
    let meta = serde_json::Value::Object(meta).to_string();
    let meta = meta[1..meta.len() - 1].to_owned();
    (Cow::Owned(serde_json::Value::Object(members).to_string()), Cow::Owned(meta))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(dialect: &dyn Dialect, outline: &Outline<'_>) -> String {
        let mut out = Vec::new();
        dialect.write_request(&mut out, 7, outline);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn requests_of_both_eras() {
        let legacy = LegacyDialect::new(ProtocolVersion::V2025_11_25);
        let bare = Outline { method: "ping", ..Outline::default() };
        assert_eq!(written(&legacy, &bare), r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
        let call = Outline {
            method: "tools/call",
            params: Cow::Borrowed("{\"name\":\"a\",\n\"arguments\":{}}"),
            wants_progress: true,
            ..Outline::default()
        };
        assert_eq!(
            written(&legacy, &call),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a", "arguments":{},"_meta":{"progressToken":7}}}"#
        );
        let identity = ClientIdentity { info: Implementation { name: "c".into(), version: "1".into() } };
        let modern = ModernDialect::new(ProtocolVersion::V2026_07_28, &identity, "{}");
        let text = written(&modern, &Outline { meta: Cow::Borrowed(r#""x/y":1"#), ..call });
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let meta = &value["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "c");
        assert_eq!((&meta["x/y"], &meta["progressToken"]), (&serde_json::json!(1), &serde_json::json!(7)));
    }

    #[test]
    fn a_callers_meta_is_kept_beside_ours() {
        let (params, meta) = split_meta(r#"{"uri":"x","_meta":{"a/b":1,"progressToken":9}}"#);
        assert_eq!((&*params, &*meta), (r#"{"uri":"x"}"#, r#""a/b":1"#));
        let (params, meta) = split_meta(r#"{"uri":"x"}"#);
        assert_eq!((&*params, &*meta), (r#"{"uri":"x"}"#, ""));
    }

    #[test]
    fn capabilities_say_only_what_is_offered() {
        assert_eq!(capabilities(&Handlers::default(), Era::Legacy), "{}");
        let handlers = Handlers { roots: Some(Vec::new()), ..Handlers::default() };
        assert_eq!(capabilities(&handlers, Era::Modern), r#"{"roots":{}}"#);
    }
}
