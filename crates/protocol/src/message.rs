//! Results and parameters that the runtime itself reads; all other payloads stay raw.

use crate::json::{boxed, string};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Name and version of a peer or of the client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Version.
    #[serde(default)]
    pub version: String,
}

/// What a peer said of itself in its handshake, or in `server/discover`.
#[derive(Debug, Clone, Default)]
pub struct PeerInfo {
    /// Name and version; never a base for decisions.
    pub implementation: Implementation,
    /// The raw capabilities.
    pub capabilities: Option<Bytes>,
    /// Instructions for the model.
    pub instructions: Option<String>,
}

/// Which features a peer declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerFeatures {
    /// `tools`.
    pub tools: bool,
    /// `resources`.
    pub resources: bool,
    /// `resources.subscribe`.
    pub resources_subscribe: bool,
    /// `prompts`.
    pub prompts: bool,
    /// `completions`.
    pub completions: bool,
    /// `logging`.
    pub logging: bool,
    /// Any `listChanged`.
    pub list_changed: bool,
}

impl PeerInfo {
    /// The declared features; a member that is present counts, whatever its shape.
    pub fn features(&self) -> PeerFeatures {
        let raw = self.capabilities.as_deref().unwrap_or(b"{}");
        let value: serde_json::Value = serde_json::from_slice(raw).unwrap_or_default();
        let has = |key: &str| value.get(key).is_some_and(|v| !v.is_null());
        let flag = |key: &str, flag: &str| {
            value.get(key).and_then(|v| v.get(flag)).and_then(|v| v.as_bool()) == Some(true)
        };
        PeerFeatures {
            tools: has("tools"),
            resources: has("resources"),
            resources_subscribe: flag("resources", "subscribe"),
            prompts: has("prompts"),
            completions: has("completions"),
            logging: has("logging"),
            list_changed: ["tools", "resources", "prompts"].iter().any(|key| flag(key, "listChanged")),
        }
    }
}

#[derive(Deserialize)]
struct Handshake<'a> {
    #[serde(borrow, default, rename = "protocolVersion")]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "supportedVersions")]
    supported_versions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "serverInfo")]
    server_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "ttlMs")]
    ttl_ms: Option<&'a RawValue>,
}

/// A result of `initialize`.
#[derive(Debug, Clone)]
pub struct InitializeResult {
    /// The revision the server answered, as it wrote it.
    pub protocol_version: String,
    /// What the server said of itself.
    pub peer: PeerInfo,
}

impl InitializeResult {
    /// Reads a raw result.
    ///
    /// # Errors
    /// A sentence when it is not an object or names no version.
    pub fn read(raw: &Bytes) -> Result<InitializeResult, String> {
        let shape = handshake(raw)?;
        let version = shape.protocol_version.and_then(|v| string(v.get()));
        let protocol_version = version.ok_or("the initialize result names no protocolVersion")?.into_owned();
        Ok(InitializeResult { protocol_version, peer: peer(&shape, raw) })
    }
}

/// A result of `server/discover`.
#[derive(Debug, Clone)]
pub struct DiscoverResult {
    /// The revisions the server offers; the one proof that this is a discover result.
    pub supported_versions: Vec<String>,
    /// What the server said of itself.
    pub peer: PeerInfo,
    /// How long the answer may be reused, in milliseconds.
    pub ttl_ms: u64,
}

impl DiscoverResult {
    /// Reads a raw result; `None` when it is no discover result.
    pub fn read(raw: &Bytes) -> Option<DiscoverResult> {
        let shape = handshake(raw).ok()?;
        let supported_versions: Vec<String> = serde_json::from_str(shape.supported_versions?.get()).ok()?;
        let ttl_ms = shape.ttl_ms.and_then(|t| t.get().parse::<f64>().ok()).map_or(0, |t| t.max(0.0) as u64);
        Some(DiscoverResult { supported_versions, peer: peer(&shape, raw), ttl_ms })
    }
}

fn handshake(raw: &Bytes) -> Result<Handshake<'_>, String> {
    let text = crate::json::text(raw);
    if !crate::json::is_object(text) {
        return Err("the result is not an object".into());
    }
    serde_json::from_str(text).map_err(|error| format!("the result does not decode: {error}"))
}

fn peer(shape: &Handshake<'_>, raw: &Bytes) -> PeerInfo {
    let in_meta = || {
        let meta: serde_json::Value = serde_json::from_str(shape.meta?.get()).ok()?;
        serde_json::from_value(meta.get(crate::meta::SERVER_INFO)?.clone()).ok()
    };
    let implementation = shape.server_info.and_then(|info| serde_json::from_str(info.get()).ok());
    PeerInfo {
        implementation: implementation.or_else(in_meta).unwrap_or_default(),
        capabilities: shape.capabilities.map(|c| Bytes::copy_from_slice(slice(raw, c))),
        instructions: shape.instructions.and_then(|i| string(i.get())).map(|i| i.into_owned()),
    }
}

fn slice<'a>(_raw: &'a Bytes, part: &'a RawValue) -> &'a [u8] {
    part.get().as_bytes()
}

/// The kinds a 2026-07-28 result can be of.
#[derive(Debug, Clone)]
pub enum ResultKind {
    /// The result itself.
    Complete,
    /// The server needs input before it can go on.
    InputRequired(InputRequired),
    /// A kind that no text allows here.
    Unknown(String),
}

/// A request for input inside a result (`patterns/mrtr`).
#[derive(Debug, Clone, Default)]
pub struct InputRequired {
    /// Key, method and raw params of each input, in the server's order.
    pub requests: Vec<(String, String, Option<Box<RawValue>>)>,
    /// The raw state to be echoed byte for byte.
    pub state: Option<Box<RawValue>>,
}

impl ResultKind {
    /// Reads the kind of a raw result; an absent `resultType` is a complete result.
    pub fn of(raw: &str) -> ResultKind {
        if memchr::memmem::find(raw.as_bytes(), b"\"resultType\"").is_none() {
            return ResultKind::Complete;
        }
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(borrow, default, rename = "resultType")]
            result_type: Option<&'a RawValue>,
            #[serde(borrow, default, rename = "inputRequests")]
            requests: Option<&'a RawValue>,
            #[serde(borrow, default, rename = "requestState")]
            state: Option<&'a RawValue>,
        }
        let Ok(shape) = serde_json::from_str::<Shape<'_>>(raw) else { return ResultKind::Complete };
        let Some(result_type) = shape.result_type else { return ResultKind::Complete };
        match string(result_type.get()).as_deref() {
            Some("complete") => ResultKind::Complete,
            Some("input_required") => {
                let requests = shape.requests.map(input_requests).unwrap_or_default();
                ResultKind::InputRequired(InputRequired {
                    requests,
                    state: shape.state.map(|s| boxed(s.get())),
                })
            }
            _ => ResultKind::Unknown(crate::text::cut(result_type.get(), 40).0.to_owned()),
        }
    }
}

fn input_requests(raw: &RawValue) -> Vec<(String, String, Option<Box<RawValue>>)> {
    #[derive(Deserialize)]
    struct Input {
        #[serde(default)]
        method: String,
        #[serde(default)]
        params: Option<Box<RawValue>>,
    }
    let map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(raw.get()).unwrap_or_default();
    let inputs = map.into_iter().filter_map(|(key, value)| {
        let input: Input = serde_json::from_str(&value.to_string()).ok()?;
        Some((key, input.method, input.params))
    });
    inputs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discover_result_is_known_by_its_versions_alone() {
        assert!(DiscoverResult::read(&Bytes::from_static(b"{}")).is_none());
        assert!(DiscoverResult::read(&Bytes::from_static(br#"{"protocolVersion":"2025-11-25"}"#)).is_none());
        let raw = Bytes::from_static(
            br#"{"supportedVersions":["2026-07-28"],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"1"}}}"#,
        );
        let found = DiscoverResult::read(&raw).expect("discover result");
        assert_eq!((found.peer.implementation.name.as_str(), found.ttl_ms), ("n", 0));
    }

    #[test]
    fn kinds_of_results() {
        assert!(matches!(ResultKind::of("{}"), ResultKind::Complete));
        assert!(matches!(ResultKind::of(r#"{"resultType":"complete"}"#), ResultKind::Complete));
        assert!(matches!(ResultKind::of(r#"{"resultType":"surprise"}"#), ResultKind::Unknown(_)));
        let raw = r#"{"resultType":"input_required","requestState":"s\u0041","inputRequests":{"k":{"method":"roots/list"}}}"#;
        let ResultKind::InputRequired(input) = ResultKind::of(raw) else { panic!("no input") };
        assert_eq!(input.requests[0].1, "roots/list");
        assert_eq!(input.state.expect("state").get(), r#""s\u0041""#);
    }
}
