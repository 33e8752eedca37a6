//! What an answer without success means: the status first, then its headers, then its body.

use super::body;
use bytes::Bytes;
use callboard_core::port::CloseReason;
use callboard_core::settings::ExpiredRule;
use callboard_protocol::{Decoded, Frame, RemoteError, ReplyBody, decode, json, text};
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use std::time::{Duration, SystemTime};

/// Longest excerpt of a body in an error, in characters.
const EXCERPT_CHARS_MAX: usize = 4_096;

/// The JSON-RPC code that `session.expired_rule = "status-and-code"` asks for.
const SESSION_EXPIRED_CODE: i64 = -32_001;

/// Turns an answer without success into the reason that the request failed for. `session` is there if the
/// request carried our session id, and tells what then means that it has expired.
pub(crate) async fn refusal(
    response: Response,
    session: Option<ExpiredRule>,
    body_bytes_max: usize,
) -> CloseReason {
    let status = response.status();
    let challenge = || header_text(response.headers(), &WWW_AUTHENTICATE);
    match status {
        StatusCode::UNAUTHORIZED => {
            return CloseReason::AuthRequired { status: status.as_u16(), challenge: challenge() };
        }
        StatusCode::FORBIDDEN if challenge().contains("insufficient_scope") => {
            return CloseReason::InsufficientScope { challenge: challenge() };
        }
        StatusCode::NOT_FOUND | StatusCode::GONE if session == Some(ExpiredRule::Status) => {
            return CloseReason::SessionExpired { status: status.as_u16() };
        }
        _ => {}
    }
    let retry_after = retry_after(response.headers());
    let body = body::read_start(response, body_bytes_max).await;
    let rpc = rpc_error(&body);
    if session == Some(ExpiredRule::StatusAndCode)
        && status == StatusCode::NOT_FOUND
        && rpc.as_ref().is_some_and(|rpc| rpc.code == SESSION_EXPIRED_CODE)
    {
        return CloseReason::SessionExpired { status: status.as_u16() };
    }
    CloseReason::Status { status: status.as_u16(), body: clean_text(&body), rpc, retry_after }
}

/// Text of a peer fit for an error: no control characters, no markup of terminals, bounded.
pub(crate) fn clean_text(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(4 * EXCERPT_CHARS_MAX)];
    let text = String::from_utf8_lossy(start);
    let is_layout = |c: char| c == '\n' || c == '\t';
    let shown: String = text.chars().filter(|c| is_layout(*c) || !c.is_control()).collect();
    text::cut(shown.trim(), EXCERPT_CHARS_MAX).0.to_owned()
}

/// All values of a header, joined as the HTTP texts say.
fn header_text(headers: &HeaderMap, name: &HeaderName) -> String {
    let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    values.collect::<Vec<_>>().join(", ")
}

/// The JSON-RPC error that a body is. Other JSON with an `error` member (OAuth's, say) is not one.
fn rpc_error(body: &Bytes) -> Option<RemoteError> {
    let Decoded::One(Frame::Reply(reply)) = decode(body) else { return None };
    let ReplyBody::Error(raw) = reply.body else { return None };
    let error = json::is_object(json::text(&raw)).then(|| RemoteError::from_raw(&raw))?;
    (error.code != 0).then_some(error)
}

/// `Retry-After` in seconds or as a date, which counts from the answer's own `Date` so that the clocks of
/// the two machines need not agree.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // What does not fit is longer than anybody waits, and no reason to go on at once.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = |text: &str| httpdate::parse_http_date(text.trim()).ok();
    let then = date(value)?;
    let now = headers.get(DATE).and_then(|value| date(value.to_str().ok()?)).unwrap_or_else(SystemTime::now);
    Some(then.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_forms() {
        for (value, want) in [
            ("30", Some(Duration::from_secs(30))),
            ("Wed, 21 Oct 2015 07:28:07 GMT", Some(Duration::from_secs(7))),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(Duration::ZERO)),
            ("99999999999999999999", Some(Duration::from_secs(u64::MAX))),
            ("soon", None),
            ("", None),
            ("-5", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(DATE, "Wed, 21 Oct 2015 07:28:00 GMT".parse().expect("a header"));
            headers.insert(RETRY_AFTER, value.parse().expect("a header"));
            assert_eq!(retry_after(&headers), want, "{value}");
        }
    }

    #[test]
    fn only_a_json_rpc_error_is_one() {
        for (body, code) in [
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no"}}"#, Some(-32022)),
            (r#"{"error":"insufficient_scope"}"#, None),
            (r#"{"error":{"message":"no"}}"#, None),
            ("<html>", None),
            ("", None),
        ] {
            let error = rpc_error(&Bytes::from_static(body.as_bytes()));
            assert_eq!(error.map(|error| error.code), code, "{body}");
        }
    }

    #[test]
    fn no_control_character_of_a_body_reaches_an_error() {
        assert_eq!(clean_text(b" a\x1b[31m\0b\r\nc\xff "), "a[31mb\nc\u{fffd}");
    }
}
