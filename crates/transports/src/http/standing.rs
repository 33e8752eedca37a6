//! The standing GET stream (2025-03-26 to 2025-11-25), on which a server sends what belongs to no request.
//!
//! It is a courtesy: nothing waits for it, and a link without it is healthy.

use super::link::HttpLink;
use super::stream::{EventStream, Media, media_of, media_text, messages};
use crate::sse::SseItem;
use callboard_core::port::{CloseReason, InFrame, IoKind};
use callboard_core::settings::ExpiredRule;
use reqwest::{Method, Response};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// The stream is opened so long after the handshake, out of the way of the first lists, or with the first
/// request that may make the server ask back.
const OPEN_AFTER: Duration = Duration::from_millis(300);
/// How long such a request waits for the stream. A server that does not answer a GET must not hold up calls.
const HOLD_MAX: Duration = Duration::from_millis(100);
/// To the headers of the answer to a GET, unless `http.first_byte_timeout_ms` is less.
const HEADERS_TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// First gap between two attempts; doubles with each attempt that brought no message.
const GAP: Duration = Duration::from_secs(1);
/// Largest gap of our own choice.
const GAP_MAX: Duration = Duration::from_secs(30);
/// Attempts in a row without a message, after which the server is taken to have nothing to say.
const FRUITLESS_MAX: u32 = 5;
/// Attempts in a row that found no server, after which calls have to show that it is back.
const LOST_MAX: u32 = 12;
/// Streams in a row that brought messages and ended young, which are opened anew when the server asks. More of them
/// are polling, which slows down.
const BRIEF_MAX: u32 = 10;
/// A quiet stream of this age was cut by something on the way; that is no attempt in vain.
const LONG_LIVED: Duration = Duration::from_secs(30);

/// Where the first attempt to open the stream stands.
pub(crate) struct Gate {
    is_settled: AtomicBool,
    wanted: Notify,
    settled: Notify,
}

impl Gate {
    /// No stream is wanted (yet).
    pub(crate) fn new() -> Gate {
        Gate { is_settled: AtomicBool::new(true), wanted: Notify::new(), settled: Notify::new() }
    }

    /// A stream will be opened.
    pub(crate) fn close(&self) {
        self.is_settled.store(false, Ordering::SeqCst);
    }

    fn settle(&self) {
        self.is_settled.store(true, Ordering::SeqCst);
        self.settled.notify_waiters();
    }

    /// Has the stream opened now and waits, shortly, until it is open or known not to be had.
    pub(crate) async fn pass(&self) {
        if self.is_settled.load(Ordering::SeqCst) {
            return;
        }
        let settled = self.settled.notified();
        self.wanted.notify_one();
        if !self.is_settled.load(Ordering::SeqCst) && timeout(HOLD_MAX, settled).await.is_err() {
            self.settle();
        }
    }
}

/// How one attempt ended.
enum Attempt {
    /// The server has no such stream.
    Unsupported,
    /// The server has forgotten the session.
    Expired(u16),
    /// No byte for too long.
    Idle,
    /// The stream ended, with or without a message before.
    Ended { has_messages: bool },
    /// There was no stream; the server may ask for a pause.
    Refused { pause: Option<Duration> },
    /// There was no server.
    Lost,
}

/// What outlives an attempt.
#[derive(Default)]
struct Standing {
    last_event_id: Option<String>,
    retry: Option<Duration>,
    /// A stream was open once: the server has them.
    was_open: bool,
    /// Attempts in a row without a message.
    fruitless: u32,
    /// Those of them that found no server.
    lost: u32,
    /// Streams in a row that brought messages and ended young.
    brief: u32,
}

/// Keeps the stream open until the server shows that it has none, or the link ends.
pub(crate) async fn run(link: Arc<HttpLink>) {
    let _ = timeout(OPEN_AFTER, link.gate.wanted.notified()).await;
    let mut standing = Standing::default();
    loop {
        let begun = Instant::now();
        let attempt = Box::pin(standing.attempt(&link)).await;
        let is_old = begun.elapsed() >= LONG_LIVED;
        match standing.gap_after(attempt, is_old) {
            Next::Open(gap) => sleep(gap).await,
            Next::GiveUp => return tracing::debug!("the server has no standing stream"),
            Next::Expired(status) => {
                link.headers.expire_session();
                return link.inbox.end(CloseReason::SessionExpired { status });
            }
        }
    }
}

#[derive(Debug, PartialEq)]
enum Next {
    Open(Duration),
    GiveUp,
    Expired(u16),
}

impl Standing {
    /// One attempt, from the request to the end of its stream.
    async fn attempt(&mut self, link: &HttpLink) -> Attempt {
        let opened = open(link, self.last_event_id.as_deref()).await;
        link.gate.settle();
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(reason) => return self.no_stream(&reason),
        };
        self.was_open = true;
        let mut has_messages = false;
        loop {
            let idle = link.settings.http_get_idle_timeout;
            let Some(item) = next_within(&mut stream, idle).await else { return Attempt::Idle };
            if let Some(id) = stream.parser.last_event_id() {
                self.last_event_id = Some(id.to_owned());
            }
            self.retry = stream.parser.retry().or(self.retry);
            match item {
                Ok(Some(SseItem::Event(event))) if event.name.is_empty() => {
                    for frame in messages(&event.data) {
                        has_messages = true;
                        link.inbox.push(frame).await;
                    }
                }
                Ok(Some(SseItem::Event(_))) => {}
                Ok(Some(SseItem::TooLarge { id })) => {
                    let limit = link.settings.wire_frame_bytes_max;
                    link.inbox.push(InFrame::TooLarge { id, limit }).await;
                }
                Ok(None) | Err(_) => return Attempt::Ended { has_messages },
            }
        }
    }

    /// What the lack of a stream means. A 404 to the very first GET is how many servers say that they have
    /// no such route; only after a stream was open does it mean that the session is gone.
    fn no_stream(&self, reason: &CloseReason) -> Attempt {
        match reason {
            CloseReason::SessionExpired { status } if self.was_open => Attempt::Expired(*status),
            CloseReason::SessionExpired { .. } | CloseReason::Redirect { .. } | CloseReason::Protocol(_) => {
                Attempt::Unsupported
            }
            CloseReason::Status { status: 408 | 425 | 429 | 500.., .. } => {
                Attempt::Refused { pause: reason.retry_after() }
            }
            CloseReason::Status { status: 403, .. }
            | CloseReason::AuthRequired { .. }
            | CloseReason::InsufficientScope { .. }
            | CloseReason::NotRpc { .. } => Attempt::Refused { pause: None },
            CloseReason::Status { .. } => Attempt::Unsupported,
            _ => Attempt::Lost,
        }
    }

    fn gap_after(&mut self, attempt: Attempt, is_old: bool) -> Next {
        let mut pause = self.retry;
        match attempt {
            Attempt::Unsupported => return Next::GiveUp,
            Attempt::Expired(status) => return Next::Expired(status),
            Attempt::Idle => return Next::Open(Duration::ZERO),
            Attempt::Ended { has_messages: true } => {
                self.fruitless = 0;
                self.lost = 0;
                self.brief = if is_old { 0 } else { self.brief.saturating_add(1) };
                let slow = match self.brief.saturating_sub(BRIEF_MAX) {
                    0 => Duration::ZERO,
                    more => GAP.saturating_mul(1 << more.min(8)).min(GAP_MAX),
                };
                return Next::Open(pause.unwrap_or(GAP).max(slow));
            }
            Attempt::Ended { has_messages: false } => self.last_event_id = None,
            Attempt::Refused { pause: asked } => pause = pause.max(asked),
            Attempt::Lost => self.lost += 1,
        }
        if !is_old || self.fruitless == 0 {
            self.fruitless += 1;
        }
        if self.fruitless - self.lost.min(self.fruitless) >= FRUITLESS_MAX || self.lost >= LOST_MAX {
            return Next::GiveUp;
        }
        let gap = GAP.saturating_mul(1 << (self.fruitless - 1).min(8)).min(GAP_MAX);
        Next::Open(gap.max(pause.unwrap_or_default()))
    }
}

/// The next item unless no byte comes for so long (zero is no limit); none when time is up. Comments are swallowed
/// inside, but each piece of them starts the clock anew.
pub(crate) async fn next_within(
    stream: &mut EventStream,
    idle: Duration,
) -> Option<Result<Option<SseItem>, CloseReason>> {
    if idle.is_zero() {
        return Some(stream.next(|| {}).await);
    }
    loop {
        let mut has_come = false;
        match timeout(idle, stream.next(|| has_come = true)).await {
            Ok(item) => return Some(item),
            Err(_) if has_come => {}
            Err(_) => return None,
        }
    }
}

/// Opens an event stream with a GET, after an event if one is named.
///
/// # Errors
/// Why there is none. A successful answer of another kind is [`CloseReason::NotRpc`].
pub(crate) async fn open(link: &HttpLink, last_event_id: Option<&str>) -> Result<EventStream, CloseReason> {
    let session = link.headers.has_session().then_some(link.settings.session_expired_rule);
    let sent = link.send(Method::GET, None, || link.headers.for_get(last_event_id));
    let limit = headers_timeout(link.settings.http_first_byte_timeout);
    let response = timeout(limit, sent).await.map_err(|_| CloseReason::Io {
        kind: IoKind::TimedOut,
        message: format!("no answer to a GET within {} ms", limit.as_millis()),
    })??;
    let (error_bytes_max, event_bytes_max) =
        (link.settings.wire_error_body_bytes_max, link.settings.wire_frame_bytes_max);
    as_stream(response, session, error_bytes_max, event_bytes_max).await
}

/// A stream is a courtesy or soon asked for again: no limit of calls does not mean none here.
fn headers_timeout(first_byte: Duration) -> Duration {
    match first_byte {
        Duration::ZERO => HEADERS_TIMEOUT_MAX,
        limit => limit.min(HEADERS_TIMEOUT_MAX),
    }
}

/// The answer to a GET as an event stream, if it is one.
async fn as_stream(
    response: Response,
    session: Option<ExpiredRule>,
    error_bytes_max: usize,
    event_bytes_max: usize,
) -> Result<EventStream, CloseReason> {
    if !response.status().is_success() {
        return Err(super::status::refusal(response, session, error_bytes_max).await);
    }
    match media_of(response.headers()) {
        Media::EventStream => Ok(EventStream::new(response, event_bytes_max)),
        Media::Json | Media::Absent | Media::Other => {
            let content_type = media_text(response.headers());
            Err(CloseReason::NotRpc { content_type, excerpt: String::new() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::CONTENT_TYPE;
    use tokio_tungstenite::tungstenite::http;

    fn gaps(attempts: impl IntoIterator<Item = (Attempt, bool)>) -> Vec<Next> {
        let mut standing = Standing::default();
        attempts.into_iter().map(|(attempt, is_old)| standing.gap_after(attempt, is_old)).collect()
    }

    fn after(seconds: u64) -> Next {
        Next::Open(Duration::from_secs(seconds))
    }

    #[test]
    fn empty_streams_back_off_and_then_stop() {
        let empty = || (Attempt::Ended { has_messages: false }, false);
        let want = [after(1), after(2), after(4), after(8), Next::GiveUp];
        assert_eq!(gaps((0..5).map(|_| empty())), want);
    }

    #[test]
    fn only_a_message_resets_the_gap() {
        let empty = || (Attempt::Ended { has_messages: false }, false);
        let full = || (Attempt::Ended { has_messages: true }, false);
        let want = [after(1), after(2), after(1), after(1)];
        assert_eq!(gaps([empty(), empty(), full(), empty()]), want);
    }

    #[test]
    fn a_quiet_stream_cut_on_the_way_is_reopened_for_ever() {
        let cut = || (Attempt::Ended { has_messages: false }, true);
        assert!(gaps((0..40).map(|_| cut())).iter().all(|next| *next == after(1)));
    }

    #[test]
    fn a_server_that_ends_each_stream_after_a_message_is_not_polled_every_second() {
        let mut standing = Standing { retry: Some(Duration::ZERO), ..Standing::default() };
        let mut next = |is_old| standing.gap_after(Attempt::Ended { has_messages: true }, is_old);
        let asked: Vec<Next> = (0..15).map(|_| next(false)).collect();
        assert!(asked[..10].iter().all(|next| *next == after(0)), "as the server asked");
        assert_eq!(asked[10..], [after(2), after(4), after(8), after(16), after(30)]);
        assert_eq!((next(true), next(false)), (after(0), after(0)), "a stream that lasted starts anew");
    }

    /// How many GETs a server gets in an hour that answers each of them the same way.
    async fn gets_in_an_hour(status: u16, content_type: Option<&str>) -> (u32, Option<Next>) {
        let mut standing = Standing::default();
        let (mut elapsed, mut gets) = (Duration::ZERO, 0);
        while elapsed < Duration::from_secs(3_600) {
            gets += 1;
            let answer = http::Response::builder().status(status);
            let answer = match content_type {
                Some(media) => answer.header(CONTENT_TYPE, media),
                None => answer,
            };
            let answer = Response::from(answer.body(String::new()).expect("an answer"));
            let attempt = match as_stream(answer, Some(ExpiredRule::Status), 1_000, 1_000).await {
                Ok(_) => Attempt::Ended { has_messages: false },
                Err(reason) => standing.no_stream(&reason),
            };
            match standing.gap_after(attempt, false) {
                Next::Open(gap) => elapsed += gap,
                last => return (gets, Some(last)),
            }
        }
        (gets, None)
    }

    #[tokio::test]
    async fn no_answer_to_a_get_leads_to_polling() {
        for (status, content_type, gets) in [
            (200, Some("text/event-stream"), 5),
            (200, Some("text/html"), 5),
            (200, None, 5),
            (202, None, 5),
            (301, None, 1),
            (400, None, 1),
            (401, None, 5),
            (403, None, 5),
            (404, None, 1),
            (405, None, 1),
            (410, None, 1),
            (429, None, 5),
            (500, None, 5),
            (503, None, 5),
        ] {
            let found = gets_in_an_hour(status, content_type).await;
            assert_eq!(found, (gets, Some(Next::GiveUp)), "{status} {content_type:?}");
        }
    }

    #[test]
    fn a_lost_server_is_looked_for_longer_than_a_refusing_one() {
        let lost = gaps((0..12).map(|_| (Attempt::Lost, false)));
        assert_eq!(lost.iter().position(|next| *next == Next::GiveUp), Some(11));
        assert_eq!(lost[5], after(30));
        let refused = gaps((0..5).map(|_| (Attempt::Refused { pause: None }, false)));
        assert_eq!(refused.last(), Some(&Next::GiveUp));
        let pause = Some(Duration::from_secs(90));
        assert_eq!(gaps([(Attempt::Refused { pause }, false)]), [after(90)]);
    }
}
