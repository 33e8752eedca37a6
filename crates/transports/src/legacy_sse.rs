//! HTTP+SSE of 2024-11-05 (protocol.md §1.6): a GET opens the event stream over which everything comes in; its
//! first event names the address that everything is posted to.
//!
//! One task reads the stream for as long as the link lives; each POST runs in a task of its own, up to
//! `http.posts_max` at once. The end of the stream is the end of the link.

mod outbox;

use crate::http::closer::HttpCloser;
use crate::http::inbox::InboxReader;
use crate::http::link::HttpLink;
use crate::http::standing;
use crate::http::stream::{EventStream, messages};
use crate::network::Network;
use crate::sse::{SseEvent, SseItem};
use callboard_core::port::{CloseReason, DialRequest, HttpSpec, InFrame, IoKind, Link, SendHalf};
use outbox::{PostLimits, PostOutbox, PostSend};
use reqwest::Url;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Opens the event stream of an HTTP+SSE server and waits for the address to post to. Must be called inside
/// the runtime that drives the link.
///
/// # Errors
/// Why there is no stream; [`CloseReason::Protocol`] when its first event is no address of the same origin.
pub async fn dial_sse(
    request: DialRequest,
    spec: &HttpSpec,
    network: &Arc<Network>,
) -> Result<Link, CloseReason> {
    let began = Instant::now();
    let deadline = request.deadline;
    let limits = post_limits(&request);
    let link = crate::http::unconnected(request, spec, network)?;
    let opened = timeout_at(deadline, open(&link)).await.unwrap_or_else(|_| {
        Err(CloseReason::ConnectTimedOut { after: began.elapsed(), stderr_tail: String::new() })
    });
    let (stream, endpoint) = opened?;
    *link.endpoint.write() = endpoint;
    let outbox = PostOutbox::new(link.clone(), limits);
    link.spawn(read(stream, link.clone(), outbox.clone()));
    Ok(Link {
        send: SendHalf::Duplex(Arc::new(PostSend(outbox))),
        receive: Box::new(InboxReader(link.inbox.clone())),
        closer: Box::new(HttpCloser(link)),
        diagnostics: Arc::new(()),
    })
}

/// A POST is acknowledged at once or, by some servers, when its call is done: a longer limit of calls counts.
fn post_limits(request: &DialRequest) -> PostLimits {
    let settings = &request.settings;
    let call = request.server.spec().options.call_timeout_ms.map(Duration::from_millis);
    let answer = match settings.http_first_byte_timeout {
        Duration::ZERO => Duration::ZERO,
        limit => limit.max(call.unwrap_or_default()),
    };
    PostLimits {
        answer,
        in_flight: settings.http_posts_max.max(1),
        frame_bytes: settings.wire_frame_bytes_max,
    }
}

async fn open(link: &HttpLink) -> Result<(EventStream, Url), CloseReason> {
    let mut stream = standing::open(link, None).await?;
    let opened_at = stream.url().clone();
    loop {
        match stream.next(|| {}).await? {
            Some(SseItem::Event(event)) if event.name == "endpoint" => {
                let endpoint = endpoint(&opened_at, &event)?;
                return Ok((stream, endpoint));
            }
            // A greeting of the server's own making.
            Some(SseItem::Event(event)) if !event.name.is_empty() => {}
            Some(SseItem::Event(_) | SseItem::TooLarge { .. }) => {
                let message = "the event stream does not start with an endpoint event";
                return Err(CloseReason::Protocol(message.into()));
            }
            None => return Err(ended("the event stream ended before its endpoint event")),
        }
    }
}

/// The address in an `endpoint` event, by URL rules. Credentials go to it, so no other origin will do.
fn endpoint(opened_at: &Url, event: &SseEvent) -> Result<Url, CloseReason> {
    let text = String::from_utf8_lossy(&event.data);
    let mut url = opened_at
        .join(text.trim())
        .map_err(|error| CloseReason::Protocol(format!("the endpoint event holds no address: {error}")))?;
    if url.origin() != opened_at.origin() {
        return Err(CloseReason::Protocol(format!(
            "the endpoint event names another origin ({}) than the stream's ({}); nothing was sent there",
            url.origin().ascii_serialization(),
            opened_at.origin().ascii_serialization(),
        )));
    }
    url.set_fragment(None);
    // User info of the entry is in a header already; that of a server is nobody's. An http URL has both parts.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Ok(url)
}

/// Hands over all that comes in, until the stream ends.
async fn read(mut stream: EventStream, link: Arc<HttpLink>, outbox: Arc<PostOutbox>) {
    let idle = link.settings.http_get_idle_timeout;
    let reason = loop {
        let Some(item) = standing::next_within(&mut stream, idle).await else {
            break CloseReason::Io {
                kind: IoKind::TimedOut,
                message: format!("not a byte for {} ms (http.get_idle_timeout_ms)", idle.as_millis()),
            };
        };
        match item {
            Ok(Some(SseItem::Event(event))) if event.name.is_empty() => {
                for frame in messages(&event.data) {
                    link.inbox.push(frame).await;
                }
            }
            Ok(Some(SseItem::Event(_))) => {}
            Ok(Some(SseItem::TooLarge { id })) => {
                let limit = link.settings.wire_frame_bytes_max;
                link.inbox.push(InFrame::TooLarge { id, limit }).await;
            }
            Ok(None) => break ended("the server ended it"),
            Err(reason) => break reason,
        }
    };
    outbox.end(reason);
}

fn ended(message: &str) -> CloseReason {
    CloseReason::Io { kind: IoKind::StreamLost, message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_resolved_by_url_rules_and_stays_on_its_origin() {
        for (opened_at, text, want) in [
            ("http://h/sse", "/messages?sid=1", Ok("http://h/messages?sid=1")),
            ("http://h/a/sse", "messages", Ok("http://h/a/messages")),
            ("http://h/a/sse", "?sid=1", Ok("http://h/a/sse?sid=1")),
            ("http://h:80/sse", " http://h/m\n", Ok("http://h/m")),
            ("http://h/sse", "http://u:p@h/m#f", Ok("http://h/m")),
            ("http://h/sse", "//i/m", Err("http://i")),
            ("http://h/sse", "http://h:81/m", Err("http://h:81")),
            ("https://h/sse", "http://h/m", Err("http://h")),
            ("http://h/sse", "http://", Err("no address")),
        ] {
            let event = SseEvent { name: "endpoint".into(), data: text.to_owned().into() };
            let found = endpoint(&Url::parse(opened_at).expect("a URL"), &event);
            match (found, want) {
                (Ok(url), Ok(want)) => assert_eq!(url.as_str(), want),
                (Err(CloseReason::Protocol(message)), Err(want)) => {
                    assert!(message.contains(want), "{message}")
                }
                other => panic!("{opened_at} {text}: {other:?}"),
            }
        }
    }
}
