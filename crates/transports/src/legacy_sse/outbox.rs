//! The send half: frames become POSTs that run beside each other; what is over their number waits in order.
//!
//! Requests and everything else have lanes of their own. Some servers hold the POST of a call until it is done, and
//! the answer or the cancellation that such a call waits for must not wait for a place behind it.

use crate::http::body;
use crate::http::link::HttpLink;
use bytes::Bytes;
use callboard_core::port::{CloseReason, DuplexSend, InFrame, IoKind, Negotiated};
use callboard_protocol::{Decoded, Frame, decode_copied};
use parking_lot::Mutex;
use reqwest::Method;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// How many frames of the largest size may wait for a server that acknowledges nothing.
const WAITING_FRAMES_MAX: usize = 4;
/// Frames of any size that may wait.
const WAITING_MAX: usize = 4_096;
/// POSTs of notifications and answers under way at once, beside those of requests.
const NOTICES_MAX: usize = 16;
/// How long `notifications/initialized` keeps what follows it back. Servers refuse requests that come before it.
const INITIALIZED_WAIT: Duration = Duration::from_secs(2);

/// The bounds of a link's POSTs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PostLimits {
    /// From a POST to its answer; zero is none.
    pub(crate) answer: Duration,
    /// POSTs of requests under way at once.
    pub(crate) in_flight: usize,
    /// Bytes of the largest frame.
    pub(crate) frame_bytes: usize,
}

/// Frames on their way to the server.
pub(crate) struct PostOutbox {
    link: Arc<HttpLink>,
    limits: PostLimits,
    queue: Mutex<Queue>,
    is_negotiated: AtomicBool,
}

#[derive(Default)]
struct Queue {
    requests: Lane,
    notices: Lane,
    /// `notifications/initialized` is under way.
    is_held: bool,
    closed: Option<CloseReason>,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<(Bytes, Posted)>,
    bytes: usize,
    in_flight: usize,
}

impl Lane {
    fn next(&mut self, in_flight_max: usize) -> Option<(Bytes, Posted)> {
        if self.in_flight >= in_flight_max {
            return None;
        }
        let (frame, posted) = self.waiting.pop_front()?;
        self.bytes -= frame.len();
        self.in_flight += 1;
        Some((frame, posted))
    }
}

impl Queue {
    fn lane(&mut self, posted: Posted) -> &mut Lane {
        match posted {
            Posted::Request(_) => &mut self.requests,
            Posted::Initialized | Posted::Other => &mut self.notices,
        }
    }
}

/// What a frame is to the one who posts it.
#[derive(Debug, Clone, Copy)]
enum Posted {
    /// A request of ours, by its id.
    Request(u64),
    /// `notifications/initialized`.
    Initialized,
    /// Any other notification, or an answer to a request of the server.
    Other,
}

impl PostOutbox {
    /// An outbox that posts to the link's endpoint.
    pub(crate) fn new(link: Arc<HttpLink>, limits: PostLimits) -> Arc<PostOutbox> {
        let is_negotiated = AtomicBool::new(false);
        Arc::new(PostOutbox { link, limits, queue: Mutex::default(), is_negotiated })
    }

    /// Ends the link for this reason; the first one counts.
    pub(crate) fn end(&self, reason: CloseReason) {
        {
            let mut queue = self.queue.lock();
            (queue.requests.waiting, queue.notices.waiting) = (VecDeque::new(), VecDeque::new());
            queue.closed.get_or_insert_with(|| reason.clone());
        }
        self.link.inbox.end(reason);
    }

    fn put(self: &Arc<Self>, frame: Bytes) -> Result<(), CloseReason> {
        let posted = posted(&frame);
        let mut queue = self.queue.lock();
        if let Some(reason) = &queue.closed {
            return Err(reason.clone());
        }
        if self.link.is_closed() {
            return Err(CloseReason::Cancelled);
        }
        let bytes_max = self.limits.frame_bytes.saturating_mul(WAITING_FRAMES_MAX);
        let (requests, notices) = (&queue.requests, &queue.notices);
        let waiting = requests.waiting.len() + notices.waiting.len();
        if waiting >= WAITING_MAX || requests.bytes + notices.bytes + frame.len() > bytes_max {
            let message = format!(
                "the server acknowledges nothing: more than {WAITING_MAX} messages or {bytes_max} bytes would wait"
            );
            return Err(CloseReason::Io { kind: IoKind::Other, message });
        }
        let lane = queue.lane(posted);
        lane.bytes += frame.len();
        lane.waiting.push_back((frame, posted));
        self.release(&mut queue);
        Ok(())
    }

    /// Lets go what waits and has a place.
    fn release(self: &Arc<Self>, queue: &mut Queue) {
        while !queue.is_held {
            let notice = queue.notices.next(NOTICES_MAX);
            let Some((frame, posted)) = notice.or_else(|| queue.requests.next(self.limits.in_flight)) else {
                return;
            };
            queue.is_held = matches!(posted, Posted::Initialized);
            self.link.spawn(self.clone().run(frame, posted));
        }
    }

    /// One POST from its start to what follows from its outcome.
    async fn run(self: Arc<Self>, frame: Bytes, posted: Posted) {
        let outcome = match posted {
            Posted::Request(_) | Posted::Other => self.post(frame).await,
            Posted::Initialized => {
                let mut post = pin!(self.post(frame));
                let early = timeout(INITIALIZED_WAIT, &mut post).await;
                {
                    let mut queue = self.queue.lock();
                    queue.is_held = false;
                    self.release(&mut queue);
                }
                match early {
                    Ok(outcome) => outcome,
                    Err(_) => post.await,
                }
            }
        };
        {
            let mut queue = self.queue.lock();
            queue.lane(posted).in_flight -= 1;
            self.release(&mut queue);
        }
        let Err(reason) = outcome else { return };
        let ends_link =
            matches!(reason, CloseReason::AuthRequired { .. } | CloseReason::SessionExpired { .. });
        match posted {
            Posted::Request(id) => {
                self.link.inbox.push(InFrame::Failed { id, reason: reason.clone() }).await;
            }
            Posted::Initialized | Posted::Other => tracing::debug!(%reason, "a message was not acknowledged"),
        }
        if ends_link {
            self.end(reason);
        }
    }

    async fn post(&self, frame: Bytes) -> Result<(), CloseReason> {
        let link = &self.link;
        let sent = link.send(Method::POST, Some(frame), || link.headers.for_post(&[]));
        let response = match self.limits.answer {
            Duration::ZERO => sent.await?,
            limit => timeout(limit, sent).await.map_err(|_| CloseReason::Io {
                kind: IoKind::TimedOut,
                message: format!(
                    "no answer to the POST within {} ms (http.first_byte_timeout_ms)",
                    limit.as_millis()
                ),
            })??,
        };
        if !response.status().is_success() {
            // The session is part of the address that the server gave.
            return Err(link.refusal(response, self.is_negotiated.load(Ordering::Relaxed)).await);
        }
        if let Some(unfinished) = body::drain_now(response) {
            body::drain(unfinished).await;
        }
        Ok(())
    }
}

impl DuplexSend for PostSend {
    fn send(&self, frame: &[u8]) -> Result<(), CloseReason> {
        self.0.put(Bytes::copy_from_slice(frame))
    }

    fn negotiated(&self, _negotiated: &Negotiated) {
        self.0.is_negotiated.store(true, Ordering::Relaxed);
    }
}

/// The send half of a link: its outbox.
pub(crate) struct PostSend(pub(crate) Arc<PostOutbox>);

fn posted(frame: &Bytes) -> Posted {
    match decode_copied(frame) {
        Decoded::One(Frame::Request(request)) => {
            let id = std::str::from_utf8(&request.id).ok().and_then(|id| id.parse().ok());
            id.map_or(Posted::Other, Posted::Request)
        }
        Decoded::One(Frame::Notification(notification))
            if notification.method == "notifications/initialized" =>
        {
            Posted::Initialized
        }
        Decoded::One(_) | Decoded::Batch(_) | Decoded::Malformed(_) => Posted::Other,
    }
}
