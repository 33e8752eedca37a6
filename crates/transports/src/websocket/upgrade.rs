//! The opening handshake (RFC 6455 §4.1).

use super::tunnel;
use crate::address::Address;
use crate::client::{Versions, shared};
use crate::http::headers::Headers;
use crate::http::{classify, status};
use crate::network::Network;
use callboard_core::port::{CloseReason, DialRequest, HttpSpec};
use reqwest::header::{
    CONNECTION, HeaderMap, HeaderValue, LOCATION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{Response, StatusCode, Upgraded, Url};
use std::sync::Arc;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The subprotocol that the field's servers take.
const SUBPROTOCOL: HeaderValue = HeaderValue::from_static("mcp");

/// Connects and makes a WebSocket of the connection.
///
/// # Errors
/// Why the server did not agree, or could not be asked.
pub(super) async fn upgrade(
    request: DialRequest,
    spec: &HttpSpec,
    network: &Arc<Network>,
) -> Result<Upgraded, CloseReason> {
    let url = Address::parse(&spec.url, spec.kind)?.url;
    let is_https = url.scheme() == "https";
    let client = shared(&url, request.settings.http_dial_timeout, network, Versions::Http1)?;
    // User info in the URL becomes a header, as the library does for requests that it builds itself.
    let mut asking = client.get(url).build().map_err(|error| classify::of_send(error, is_https))?;
    let headers = Headers::new(asking.headers().clone(), spec, request.authenticator)?;
    let key = generate_key();
    let headers = with_upgrade(headers.for_upgrade()?, &key)?;
    let offered = headers.get(SEC_WEBSOCKET_PROTOCOL).cloned();
    *asking.headers_mut() = headers;
    let asked_at = asking.url().clone();
    let response = match network.http_proxy_for(&asked_at).filter(|_| !is_https) {
        Some(proxy) => tunnel::execute(asking, &proxy).await?,
        None => client.execute(asking).await.map_err(|error| classify::of_send(error, is_https))?,
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refusal(response, &asked_at, request.settings.wire_error_body_bytes_max).await);
    }
    check(response.headers(), &key, offered.as_ref())?;
    response.upgrade().await.map_err(|error| classify::of_send(error, is_https))
}

/// An entry may name subprotocols of its own (some servers take their credentials there).
fn with_upgrade(mut headers: HeaderMap, key: &str) -> Result<HeaderMap, CloseReason> {
    let key = HeaderValue::from_str(key).map_err(|error| CloseReason::Protocol(error.to_string()))?;
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, key);
    headers.entry(SEC_WEBSOCKET_PROTOCOL).or_insert(SUBPROTOCOL);
    Ok(headers)
}

async fn refusal(response: Response, asked_at: &Url, body_bytes_max: usize) -> CloseReason {
    let status = response.status();
    if status.is_success() {
        return CloseReason::Protocol(format!(
            "the server does not speak WebSocket there (HTTP status {status})"
        ));
    }
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    if status.is_redirection()
        && let Some(target) = location.and_then(|location| asked_at.join(location).ok())
    {
        let location = callboard_protocol::masked_url(target.as_str());
        return CloseReason::Redirect { status: status.as_u16(), location };
    }
    status::refusal(response, None, body_bytes_max).await
}

/// Did this server mean this request? A server may choose no subprotocol, but none that was not offered.
fn check(answer: &HeaderMap, key: &str, offered: Option<&HeaderValue>) -> Result<(), CloseReason> {
    let failed = |what: &str| Err(CloseReason::Protocol(format!("the WebSocket handshake failed: {what}")));
    let accept = answer.get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
    if accept != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
        return failed("Sec-WebSocket-Accept does not answer our key");
    }
    let Some(chosen) = answer.get(SEC_WEBSOCKET_PROTOCOL) else { return Ok(()) };
    let mut offers = offered.map_or(&b""[..], HeaderValue::as_bytes).split(|byte| *byte == b',');
    match offers.any(|offer| offer.trim_ascii() == chosen.as_bytes().trim_ascii()) {
        true => Ok(()),
        false => failed("the server chose a subprotocol that was not offered"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_must_fit_the_request() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let checked = |accept: &'static str, chosen: Option<&'static str>, offered: &'static str| {
            let mut answer = HeaderMap::new();
            answer.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::from_static(accept));
            if let Some(chosen) = chosen {
                answer.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(chosen));
            }
            check(&answer, key, Some(&HeaderValue::from_static(offered))).is_ok()
        };
        // The sample of RFC 6455 §1.3.
        let right = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert!(checked(right, Some("mcp"), "mcp") && checked(right, None, "mcp"));
        assert!(checked(right, Some("b"), "a, b"));
        assert!(!checked(right, Some("graphql-ws"), "mcp"));
        assert!(!checked("AAAA", None, "mcp"));
    }
}
