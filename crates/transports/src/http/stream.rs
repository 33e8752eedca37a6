//! An event stream on its way in, and what media types mean.

use super::body::DRAIN_TIMEOUT;
use super::classify;
use super::inbox::Inbox;
use crate::sse::{SseItem, SseParser};
use bytes::Bytes;
use callboard_core::port::{CloseReason, InFrame};
use callboard_protocol::{Decoded, Reply, decode};
use futures_util::FutureExt;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use tokio::time::{Instant, timeout_at};

/// What a body claims to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// JSON.
    Json,
    /// An event stream.
    EventStream,
    /// It does not say.
    Absent,
    /// Anything else.
    Other,
}

/// Where a message belongs.
pub(crate) enum Sorted {
    /// To the request that was asked.
    Reply(Reply),
    /// To the receive half.
    Other(InFrame),
}

/// The media type of an answer: letter case and parameters do not matter.
pub(crate) fn media_of(headers: &HeaderMap) -> Media {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Media::Absent };
    let essence = value.as_bytes().split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    let is = |name: &str| essence.eq_ignore_ascii_case(name.as_bytes());
    if is("application/json") || is("application/json-rpc") {
        Media::Json
    } else if is("text/event-stream") {
        Media::EventStream
    } else if essence.is_empty() {
        Media::Absent
    } else {
        Media::Other
    }
}

/// The media type as text for an error.
pub(crate) fn media_text(headers: &HeaderMap) -> String {
    match headers.get(CONTENT_TYPE) {
        Some(value) => {
            let text = super::status::clean_text(value.as_bytes());
            callboard_protocol::text::cut(&text, 100).0.to_owned()
        }
        None => "no media type".to_owned(),
    }
}

/// An event stream on its way in.
pub(crate) struct EventStream {
    response: Response,
    pub(crate) parser: SseParser,
}

impl EventStream {
    /// Reads the body of an answer as events.
    pub(crate) fn new(response: Response, event_bytes_max: usize) -> EventStream {
        EventStream { response, parser: SseParser::new(event_bytes_max) }
    }

    /// Where it came from, after redirects.
    pub(crate) fn url(&self) -> &reqwest::Url {
        self.response.url()
    }

    /// The next item, or none at a clean end; `on_bytes` is told of every piece that comes.
    ///
    /// # Errors
    /// When the stream breaks.
    pub(crate) async fn next(&mut self, mut on_bytes: impl FnMut()) -> Result<Option<SseItem>, CloseReason> {
        loop {
            if let Some(item) = self.parser.next_item() {
                return Ok(Some(item));
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => {
                    on_bytes();
                    self.parser.feed(chunk);
                }
                Ok(None) => return Ok(self.parser.finish().filter(is_whole)),
                Err(error) => return Err(classify::of_stream(&error)),
            }
        }
    }

    /// Is the stream over, as far as can be told without waiting? Looks only while nothing is left to parse.
    pub(crate) fn is_at_end(&mut self) -> bool {
        if self.parser.has_input() {
            return false;
        }
        match self.response.chunk().now_or_never() {
            Some(Ok(Some(chunk))) => {
                self.parser.feed(chunk);
                false
            }
            Some(Ok(None) | Err(_)) => true,
            None => false,
        }
    }

    /// Reads on for a moment after the reply; messages that still come go to the receive half if it has room.
    pub(crate) async fn drain(&mut self, inbox: &Inbox) {
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while let Ok(Ok(Some(item))) = timeout_at(deadline, self.next(|| {})).await {
            if let SseItem::Event(event) = item
                && event.name.is_empty()
            {
                for frame in messages(&event.data) {
                    inbox.try_push(frame);
                }
            }
        }
    }
}

/// The messages in one event, for the receive half. Text that is no message and names no call is left out.
pub(crate) fn messages(data: &Bytes) -> Vec<InFrame> {
    let malformed = |malformed: callboard_protocol::Malformed| {
        malformed.id.is_some().then_some(InFrame::Malformed(malformed))
    };
    match decode(data) {
        Decoded::One(frame) => vec![InFrame::Frame(frame)],
        Decoded::Malformed(text) => malformed(text).into_iter().collect(),
        Decoded::Batch(items) => {
            let of = |item| match item {
                Ok(frame) => Some(InFrame::Frame(frame)),
                Err(text) => malformed(text),
            };
            items.into_iter().filter_map(of).collect()
        }
    }
}

/// An event that a clean end left without its blank line counts when it is a whole message.
fn is_whole(item: &SseItem) -> bool {
    match item {
        SseItem::Event(event) => !matches!(decode(&event.data), Decoded::Malformed(_)),
        SseItem::TooLarge { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_read_leniently() {
        for (value, media) in [
            ("application/json", Media::Json),
            ("Application/JSON; Charset=\"UTF-8\"", Media::Json),
            ("Text/Event-Stream;charset=utf-8", Media::EventStream),
            ("text/html", Media::Other),
            ("", Media::Absent),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, value.parse().expect("a header"))]);
            assert_eq!(media_of(&headers), media, "{value}");
        }
        assert_eq!(media_of(&HeaderMap::new()), Media::Absent);
    }
}
