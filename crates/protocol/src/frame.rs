//! One decoding of a line, body or event into an envelope with raw payloads.

use crate::id::Id;
use crate::json::slice_of;
use crate::scan::string_end;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A JSON-RPC message whose payload is still raw JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// An answer to one of our requests.
    Reply(Reply),
    /// A request of the peer.
    Request(Request),
    /// A notification of the peer.
    Notification(Notification),
}

/// An answer and the id it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Whose answer it is.
    pub id: Id,
    /// What was answered.
    pub body: ReplyBody,
}

impl Frame {
    /// Bytes of its result, error or params; what else is on the wire with them does not count.
    pub fn payload_len(&self) -> usize {
        match self {
            Frame::Reply(reply) => reply.body.len(),
            Frame::Request(Request { params, .. }) | Frame::Notification(Notification { params, .. }) => {
                params.as_ref().map_or(0, Bytes::len)
            }
        }
    }
}

/// What a peer answered, raw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyBody {
    /// The raw `result`.
    Result(Bytes),
    /// The raw `error`.
    Error(Bytes),
    /// An answer that names a call but cannot be used; it still ends that call.
    Invalid(String),
}

impl ReplyBody {
    /// Bytes of the answer; none of one that cannot be used.
    pub fn len(&self) -> usize {
        match self {
            ReplyBody::Result(raw) | ReplyBody::Error(raw) => raw.len(),
            ReplyBody::Invalid(_) => 0,
        }
    }

    /// There is nothing that can be used.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A request of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The id as raw JSON, to be echoed as it came.
    pub id: Bytes,
    /// The method name.
    pub method: String,
    /// The raw `params`.
    pub params: Option<Bytes>,
}

/// A notification of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The method name.
    pub method: String,
    /// The raw `params`.
    pub params: Option<Bytes>,
}

/// Text that is no message, with the call it most likely belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The call that this text was meant to answer, when it can be told.
    pub id: Option<u64>,
    /// Why it is no message.
    pub reason: String,
}

/// What one line, body or event turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// One message.
    One(Frame),
    /// A batch (2025-03-26), element by element.
    Batch(Vec<Result<Frame, Malformed>>),
    /// No message.
    Malformed(Malformed),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Decodes one line, body or event. Never panics; payloads share the memory of `text`.
///
/// Tolerated: a byte order mark, white space around, a missing `jsonrpc`, `"error": null` beside a result,
/// ids echoed as strings, unknown members. A `result` beside a non-null `error` ends the call it names.
pub fn decode(text: &Bytes) -> Decoded {
    decode_with(text, |part| slice_of(text, part))
}

/// As [`decode`], but payloads are copies: cheaper for short text, and the buffer is free again.
pub fn decode_copied(text: &[u8]) -> Decoded {
    decode_with(text, |part| Bytes::copy_from_slice(part.as_bytes()))
}

fn decode_with(text: &[u8], take: impl Fn(&str) -> Bytes) -> Decoded {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    match crate::json::first_byte(text) {
        Some(b'[') => decode_batch(text, take),
        Some(b'{') => match decode_object(text, take) {
            Ok(frame) => Decoded::One(frame),
            Err(malformed) => Decoded::Malformed(malformed),
        },
        _ => Decoded::Malformed(Malformed { id: None, reason: "not a JSON object".into() }),
    }
}

fn decode_batch(text: &[u8], take: impl Fn(&str) -> Bytes) -> Decoded {
    match serde_json::from_slice::<Batch<'_>>(text) {
        Ok(Batch(items)) => {
            Decoded::Batch(items.iter().map(|item| decode_object(item.get().as_bytes(), &take)).collect())
        }
        Err(error) => Decoded::Malformed(Malformed { id: None, reason: format!("bad batch: {error}") }),
    }
}

/// How many messages one batch may hold. Two bytes are enough for an item, which costs a hundred when it is
/// decoded; nobody batches more calls than may be in flight.
pub const BATCH_ITEMS_MAX: usize = 4_096;

/// The raw items of a batch, no more than may be.
struct Batch<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Batch<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BatchVisitor)
    }
}

struct BatchVisitor;

impl<'de> serde::de::Visitor<'de> for BatchVisitor {
    type Value = Batch<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at most {BATCH_ITEMS_MAX} messages")
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Batch<'de>, A::Error> {
        let mut batch = Vec::new();
        while let Some(item) = items.next_element()? {
            if batch.len() == BATCH_ITEMS_MAX {
                return Err(serde::de::Error::invalid_length(batch.len() + 1, &self));
            }
            batch.push(item);
        }
        Ok(Batch(batch))
    }
}

/// From this length on, in bytes, only the first level of a message is parsed here: its payload is parsed by
/// whoever reads it as a type, and parsing many megabytes twice costs more than all else.
const SCANNED_BYTES_MIN: usize = 16 * 1024;

/// The members of an envelope, raw; `null` reads as absent.
#[derive(Default)]
struct Members<'a> {
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
}

fn parsed(text: &[u8]) -> Result<Members<'_>, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    Ok(Members {
        id: envelope.id.map(RawValue::get),
        method: envelope.method.map(RawValue::get),
        params: envelope.params.map(RawValue::get),
        result: envelope.result.map(RawValue::get),
        error: envelope.error.map(RawValue::get),
    })
}

fn scanned(text: &[u8]) -> Result<Members<'_>, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let mut found = Members::default();
    for member in crate::scan::members(text) {
        let (key, value) = member.map_err(|error| error.to_string())?;
        let place = match key {
            "\"id\"" => &mut found.id,
            "\"method\"" => &mut found.method,
            "\"params\"" => &mut found.params,
            "\"result\"" => &mut found.result,
            "\"error\"" => &mut found.error,
            _ => continue,
        };
        if value != "null" && place.replace(value).is_some() {
            return Err(format!("{key} stands twice"));
        }
    }
    Ok(found)
}

fn decode_object(text: &[u8], take: impl Fn(&str) -> Bytes) -> Result<Frame, Malformed> {
    let envelope = match text.len() < SCANNED_BYTES_MIN {
        true => parsed(text),
        false => scanned(text),
    };
    let envelope =
        envelope.map_err(|error| Malformed { id: recover_id(text), reason: format!("bad JSON: {error}") })?;
    let params = || envelope.params.map(&take);
    if let Some(method) = envelope.method {
        let method = crate::json::string(method)
            .ok_or_else(|| Malformed { id: None, reason: "method is not a string".into() })?
            .into_owned();
        return Ok(match envelope.id {
            Some(id) => Frame::Request(Request { id: take(id), method, params: params() }),
            None => Frame::Notification(Notification { method, params: params() }),
        });
    }
    let id = envelope.id.map_or(Id::Null, Id::from_raw);
    let body = match (envelope.result, envelope.error) {
        (Some(_), Some(_)) => ReplyBody::Invalid("both a result and an error".into()),
        (None, Some(error)) => ReplyBody::Error(take(error)),
        (Some(result), None) => ReplyBody::Result(take(result)),
        (None, None) if id == Id::Null => {
            return Err(Malformed { id: None, reason: "neither a method nor an id".into() });
        }
        (None, None) if has_result(text) => ReplyBody::Result(Bytes::from_static(b"null")),
        (None, None) => ReplyBody::Invalid("neither a result nor an error".into()),
    };
    Ok(Frame::Reply(Reply { id, body }))
}

/// Is there a `result` member at all? Only asked when it read as absent, which `null` does too.
fn has_result(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Presence {
        #[serde(default, deserialize_with = "present")]
        result: bool,
    }
    fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
        serde::de::IgnoredAny::deserialize(d).map(|_| true)
    }
    serde_json::from_slice::<Presence>(text).is_ok_and(|p| p.result)
}

/// How far into a text the lenient search for an id looks, in bytes.
const RECOVER_BYTES_MAX: usize = 64 * 1024;

/// Finds the id of a reply in text that is not (yet) whole or valid JSON: `NaN` inside a result, a line
/// over its limit of which only the start is known. `None` when there is none, or when the text has a
/// `method` and so is no reply.
pub fn recover_id(text: &[u8]) -> Option<u64> {
    let text = &text[..text.len().min(RECOVER_BYTES_MAX)];
    let mut found = None;
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let Some(end) = string_end(text, at) else { return found };
                if depth == 1
                    && let Some(value) = value_after_colon(text, end)
                {
                    match &text[at..end] {
                        b"\"method\"" => return None,
                        b"\"id\"" => found = number_at(text, value),
                        _ => {}
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
        if found.is_some() && depth > 1 {
            // A payload follows: what matters of the envelope was before it.
            return found;
        }
    }
    found
}

fn value_after_colon(text: &[u8], mut at: usize) -> Option<usize> {
    while text.get(at)?.is_ascii_whitespace() {
        at += 1;
    }
    if *text.get(at)? != b':' {
        return None;
    }
    at += 1;
    while text.get(at)?.is_ascii_whitespace() {
        at += 1;
    }
    Some(at)
}

fn number_at(text: &[u8], at: usize) -> Option<u64> {
    let start = if text.get(at) == Some(&b'"') { at + 1 } else { at };
    let digits = text[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&text[start..start + digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(text: &'static str) -> Frame {
        match decode(&Bytes::from_static(text.as_bytes())) {
            Decoded::One(frame) => frame,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn reply(text: &'static str) -> (Id, ReplyBody) {
        match frame(text) {
            Frame::Reply(reply) => (reply.id, reply.body),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn result(text: &'static str) -> ReplyBody {
        ReplyBody::Result(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn lenient_replies() {
        for (text, id, body) in [
            (r#"{"jsonrpc":"2.0","id":3,"result":{"a":1}}"#, 3, result(r#"{"a":1}"#)),
            (r#"{"id":3,"error":null,"result":{}}"#, 3, result("{}")),
            (r#"{"id":"3","result":[]}"#, 3, result("[]")),
            (r#"{"id":3,"result":null}"#, 3, result("null")),
            ("\u{feff}{\"id\":3,\"result\":{}}", 3, result("{}")),
            (r#"{"id":3,"error":{"code":1}}"#, 3, ReplyBody::Error(Bytes::from_static(br#"{"code":1}"#))),
            (r#"{"id":3}"#, 3, ReplyBody::Invalid("neither a result nor an error".into())),
            (
                r#"{"id":3,"result":{},"error":{}}"#,
                3,
                ReplyBody::Invalid("both a result and an error".into()),
            ),
        ] {
            assert_eq!(reply(text), (Id::Number(id), body), "{text}");
        }
    }

    #[test]
    fn requests_keep_their_id_raw() {
        let Frame::Request(request) = frame(r#"{"id":"a\u0041","method":"ping"}"#) else {
            panic!("no request")
        };
        assert_eq!((&request.id[..], request.method.as_str()), (&br#""a\u0041""#[..], "ping"));
    }

    #[test]
    fn what_is_no_message_says_whose_it_was() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":12,"result":{"x":NaN}}"#, Some(12)),
            (r#"{"result":{"id":4,"x":NaN},"id":12}"#, Some(12)),
            (r#"{"id":"12","result":"#, Some(12)),
            (r#"{"id":12,"result":"cut"#, Some(12)),
            (r#"{"id":12,"method":"x","params":NaN}"#, None),
            ("hello", None),
            ("[1,", None),
            ("7", None),
        ] {
            let Decoded::Malformed(malformed) = decode(&Bytes::from_static(text.as_bytes())) else {
                panic!("{text} decoded")
            };
            assert_eq!(malformed.id, id, "{text}");
        }
    }

    #[test]
    fn a_batch_decodes_element_by_element() {
        let text = Bytes::from_static(br#"[{"id":1,"result":{}},7,{"method":"n"}]"#);
        let Decoded::Batch(items) = decode(&text) else { panic!("no batch") };
        assert!(items[0].is_ok() && items[1].is_err() && items[2].is_ok());
    }

    #[test]
    fn a_batch_is_bounded() {
        let batch = |items: usize| Bytes::from(format!("[{}]", vec!["7"; items].join(",")));
        assert!(
            matches!(decode(&batch(BATCH_ITEMS_MAX)), Decoded::Batch(items) if items.len() == BATCH_ITEMS_MAX)
        );
        let Decoded::Malformed(malformed) = decode(&batch(BATCH_ITEMS_MAX + 1)) else { panic!("decoded") };
        assert!(malformed.reason.contains("at most 4096 messages"), "{}", malformed.reason);
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&Bytes::from(bytes.clone()));
            let _ = recover_id(&bytes);
        }

        #[test]
        fn json_like_input_never_panics(text in r#"[{}\[\]:,"\\a-z0-9 .]{0,80}"#) {
            let _ = decode(&Bytes::from(text.clone()));
            let _ = recover_id(text.as_bytes());
        }

        #[test]
        fn an_id_is_found_in_any_prefix_that_holds_it(id in any::<u64>(), tail in "[a-z{}\\[\\]]{0,40}") {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"t":"{tail}"#);
            prop_assert_eq!(recover_id(text.as_bytes()), Some(id));
        }
    }
}
