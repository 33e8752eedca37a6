//! What a caller gives to a call and what it gets back.

use crate::port::{CloseReason, Delivery, ServerName};
use bytes::Bytes;
use callboard_protocol::view::{View, ViewLimits, view};
use callboard_protocol::{RemoteError, ToolResult};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The clocks that can end a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Waiting for a place among the calls in flight.
    Queue,
    /// Waiting for a connection.
    Connect,
    /// No byte of an answer over HTTP.
    FirstByte,
    /// Silence; progress and other signs of life reset it.
    Idle,
    /// The whole call; nothing extends it.
    Absolute,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clock::Queue => "queue",
            Clock::Connect => "connect",
            Clock::FirstByte => "first byte",
            Clock::Idle => "idle",
            Clock::Absolute => "absolute",
        })
    }
}

/// Why a request has no result. Every call ends exactly once, with a value or with one of these.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server answered with a JSON-RPC error.
    #[error("the server answered: {0}")]
    Remote(RemoteError),
    /// One of the clocks ran out.
    #[error("{what} timed out after {} ms ({clock} limit; {delivery}){}", elapsed.as_millis(), unmatched_text(*unmatched))]
    TimedOut {
        /// The request, e.g. `tools/call echo`.
        what: String,
        /// Which clock.
        clock: Clock,
        /// Since the request was made.
        elapsed: Duration,
        /// What is known of it.
        delivery: Delivery,
        /// Replies with ids that nobody waits for came in meanwhile.
        unmatched: u64,
    },
    /// The connection, or this one exchange, failed.
    #[error("{reason} ({delivery})")]
    Lost {
        /// Why.
        reason: Arc<CloseReason>,
        /// What is known of the request.
        delivery: Delivery,
    },
    /// The server is not connected, and will not be in time.
    #[error("server {server} is not connected: {message}")]
    NotConnected {
        /// The server.
        server: ServerName,
        /// Its state, in words.
        message: String,
        /// Why, if there is a cause.
        reason: Option<Arc<CloseReason>>,
    },
    /// The answer cannot be used.
    #[error("invalid answer: {0}")]
    Invalid(String),
    /// The request cannot be made: the server lacks the capability, or the arguments are no JSON object.
    #[error("{0}")]
    Unsupported(String),
    /// Too many calls wait for this server.
    #[error("the queue of server {server} is full ({limit} calls wait; call.queue_max)")]
    QueueFull {
        /// The server.
        server: ServerName,
        /// The limit.
        limit: usize,
    },
    /// The server asked for input that nobody here can give.
    #[error("the server needs input: {0}")]
    InputNeeded(String),
    /// The caller gave up.
    #[error("the call was cancelled")]
    Cancelled,
    /// The board is closed.
    #[error("the board is closed")]
    Closed,
}

fn unmatched_text(unmatched: u64) -> String {
    match unmatched {
        0 => String::new(),
        n => format!("; meanwhile {n} replies came with ids that no call waits for"),
    }
}

impl CallError {
    /// What is known of the request.
    pub fn delivery(&self) -> Delivery {
        match self {
            CallError::TimedOut { delivery, .. } | CallError::Lost { delivery, .. } => *delivery,
            CallError::Remote(error) if error.is_refusal() => Delivery::Refused,
            CallError::InputNeeded(_) => Delivery::Refused,
            // An answer that nobody can read does not say that nothing was done, nor does any error.
            CallError::Remote(_) | CallError::Invalid(_) | CallError::Cancelled => Delivery::Unknown,
            CallError::NotConnected { .. }
            | CallError::Unsupported(_)
            | CallError::QueueFull { .. }
            | CallError::Closed => Delivery::NotSent,
        }
    }

    /// The reason below, where the connection or the exchange failed.
    pub fn reason(&self) -> Option<&CloseReason> {
        match self {
            CallError::Lost { reason, .. } => Some(reason),
            CallError::NotConnected { reason, .. } => reason.as_deref(),
            _ => None,
        }
    }

    /// The server wants a login.
    pub fn requires_auth(&self) -> bool {
        self.reason().is_some_and(CloseReason::requires_auth)
    }

    /// The short word for the error in JSON output.
    pub fn code(&self) -> &'static str {
        match self {
            CallError::Remote(_) => "remote-error",
            CallError::TimedOut { .. } => "timed-out",
            CallError::Lost { .. } => "lost",
            CallError::NotConnected { .. } => "not-connected",
            CallError::Invalid(_) => "invalid-answer",
            CallError::Unsupported(_) => "unsupported",
            CallError::QueueFull { .. } => "queue-full",
            CallError::InputNeeded(_) => "input-needed",
            CallError::Cancelled => "cancelled",
            CallError::Closed => "closed",
        }
    }

    /// What a person or a model can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            CallError::TimedOut { clock: Clock::Absolute | Clock::Idle | Clock::FirstByte, .. } => {
                Some("narrow the request, try later, or give the server a larger call_timeout_ms".into())
            }
            CallError::TimedOut { clock: Clock::Queue, .. } => {
                Some("try later, give a larger timeout, or raise call.in_flight_max".into())
            }
            CallError::TimedOut { clock: Clock::Connect, .. } => {
                Some("try later, or give a larger timeout".into())
            }
            CallError::Lost { .. } | CallError::NotConnected { .. } => {
                self.reason().and_then(CloseReason::hint)
            }
            CallError::QueueFull { .. } => Some("try later, or raise call.queue_max".into()),
            CallError::InputNeeded(_) => Some("run the call where a person can answer".into()),
            CallError::Remote(_)
            | CallError::Invalid(_)
            | CallError::Unsupported(_)
            | CallError::Cancelled
            | CallError::Closed => None,
        }
    }
}

/// A progress notice of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far.
    pub progress: f64,
    /// Out of how much.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

/// Told of the progress of a call, on the IO runtime; must return at once.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

/// What a caller may set for one request; everything absent is as configured.
#[derive(Clone, Default)]
pub struct CallOptions {
    /// Absolute limit, from the moment the call is made; zero is no limit.
    pub timeout: Option<Duration>,
    /// Limit of silence.
    pub idle_timeout: Option<Duration>,
    /// Told of progress.
    pub progress: Option<ProgressSink>,
    /// Members to add to `_meta`: a raw JSON object.
    pub meta: Option<Box<RawValue>>,
    /// On whose behalf: where calls wait for a place, callers are served in turn.
    pub caller: Option<Arc<str>>,
    /// The W3C trace context of the call, e.g. `00-<32 hex digits>-<16 hex digits>-01`; goes out in
    /// `_meta.traceparent` (SEP-414). One of another form is dropped, and so is one beside the host's own.
    pub traceparent: Option<String>,
}

impl CallOptions {
    /// The defaults with this absolute limit.
    pub fn with_timeout(timeout: Duration) -> CallOptions {
        CallOptions { timeout: Some(timeout), ..CallOptions::default() }
    }
}

/// A `CallToolResult`: the whole raw answer, read as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReply {
    raw: Bytes,
}

impl ToolReply {
    /// Wraps a raw result.
    pub fn new(raw: Bytes) -> ToolReply {
        ToolReply { raw }
    }

    /// The whole result as the server sent it, unknown members too. Of a result of 16 KiB and more only the
    /// outer shape has been looked at; [`ToolReply::read`] says whether the rest is JSON.
    pub fn raw(&self) -> &str {
        callboard_protocol::json::text(&self.raw)
    }

    /// The bytes of [`ToolReply::raw`]; cheap to clone.
    pub fn bytes(&self) -> &Bytes {
        &self.raw
    }

    /// The result's blocks and flags.
    ///
    /// # Errors
    /// [`CallError::Invalid`] when the answer is no tool result at all.
    pub fn read(&self) -> Result<ToolResult<'_>, CallError> {
        ToolResult::read(self.raw()).map_err(CallError::Invalid)
    }

    /// All text blocks, joined by line ends; empty when there are none.
    pub fn text(&self) -> Cow<'_, str> {
        self.read().map(|result| result.text()).unwrap_or_default()
    }

    /// The tool reports a failure.
    pub fn is_error(&self) -> bool {
        self.read().is_ok_and(|result| result.is_error)
    }

    /// What a model is shown of it.
    ///
    /// # Errors
    /// [`CallError::Invalid`] when the answer is no tool result at all.
    pub fn view(&self, limits: ViewLimits) -> Result<View, CallError> {
        Ok(view(&self.read()?, limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_cannot_be_read_is_no_proof_of_a_refusal() {
        assert_eq!(CallError::Invalid("neither result nor error".into()).delivery(), Delivery::Unknown);
    }

    #[test]
    fn an_error_from_the_midst_of_the_work_is_no_proof_of_a_refusal() {
        let cases = [
            (-32_700, Delivery::Refused),
            (-32_600, Delivery::Refused),
            (-32_601, Delivery::Refused),
            (-32_602, Delivery::Refused),
            (-32_020, Delivery::Refused),
            (-32_021, Delivery::Refused),
            (-32_022, Delivery::Refused),
            (-32_603, Delivery::Unknown),
            (-32_000, Delivery::Unknown),
            (-1, Delivery::Unknown),
            (0, Delivery::Unknown),
        ];
        for (code, delivery) in cases {
            let error = RemoteError { code, message: "no".into(), data: None };
            assert_eq!(CallError::Remote(error).delivery(), delivery, "{code}");
        }
    }
}
