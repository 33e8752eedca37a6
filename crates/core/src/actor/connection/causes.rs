//! Why a connection, or an attempt to make one, has ended: in a word for counters, in a text for people.

use crate::machine::Event;
use crate::port::{CloseReason, IoKind, Unreachable};
use std::borrow::Cow;

/// The end of a generation.
pub(super) struct Ending {
    /// One of a few words, for counters.
    pub word: &'static str,
    pub text: Cow<'static, str>,
    /// The terminal signal behind it.
    pub signal: Option<&'static str>,
}

/// How an event ends a generation that lived until it came; none for events that end nothing.
pub(super) fn ending(event: &Event, board_closes: bool) -> Option<Ending> {
    let ours = |word, text| Some(Ending { word, text: Cow::Borrowed(text), signal: None });
    match event {
        Event::ConnectFailed(_, reason) | Event::Down { reason, .. } => {
            Some(Ending { word: word(reason), text: Cow::Owned(reason.to_string()), signal: signal(reason) })
        }
        Event::Reconnect => ours("asked-for", "a new connection was asked for"),
        Event::Disable if board_closes => ours("closed", "the board is closed"),
        Event::Disable => ours("disabled", "the server was switched off"),
        Event::EntryDisabled => ours("disabled", "the server's entry switches it off"),
        Event::Replaced => ours("replaced", "the server's entry has changed"),
        Event::Removed => ours("removed", "the server was removed from the board"),
        Event::Panicked { .. } => ours("panicked", "the connection's actor panicked"),
        Event::Demand
        | Event::PermitGranted
        | Event::Dialed(_)
        | Event::Established(_)
        | Event::Timer(_)
        | Event::Enable => None,
    }
}

/// A reason's kind in a word.
fn word(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::Spawn { .. } => "spawn",
        CloseReason::Ended { .. } => "ended",
        CloseReason::ConnectTimedOut { .. } => "connect-timed-out",
        CloseReason::Io { .. } => "io",
        CloseReason::Unreachable { .. } => "unreachable",
        CloseReason::Status { .. } => "status",
        CloseReason::SessionExpired { .. } => "session-expired",
        CloseReason::AuthRequired { .. } | CloseReason::InsufficientScope { .. } => "auth",
        CloseReason::Redirect { .. } => "redirect",
        CloseReason::NotRpc { .. } | CloseReason::NoReply | CloseReason::Protocol(_) => "protocol",
        CloseReason::TooLarge { .. } => "too-large",
        CloseReason::Cancelled => "closed",
    }
}

/// The name of the terminal signal that a reason is (behaviour profile §4).
fn signal(reason: &CloseReason) -> Option<&'static str> {
    match reason {
        CloseReason::Io { kind, .. } => match kind {
            IoKind::Reset => Some("ECONNRESET"),
            IoKind::TimedOut => Some("ETIMEDOUT"),
            IoKind::BrokenPipe => Some("EPIPE"),
            IoKind::BodyStalled => Some("Body Timeout Error"),
            IoKind::BodyCut => Some("terminated"),
            IoKind::StreamLost => Some("SSE stream disconnected"),
            IoKind::ResumeGivenUp => Some("Failed to reconnect SSE stream"),
            IoKind::Closed | IoKind::Other => None,
        },
        CloseReason::Unreachable { kind, .. } => match kind {
            Unreachable::Refused => Some("ECONNREFUSED"),
            Unreachable::NoRoute => Some("EHOSTUNREACH"),
            Unreachable::TimedOut => Some("ETIMEDOUT"),
            Unreachable::Dns | Unreachable::Tls | Unreachable::Proxy => None,
        },
        CloseReason::Spawn { .. }
        | CloseReason::Ended { .. }
        | CloseReason::ConnectTimedOut { .. }
        | CloseReason::Status { .. }
        | CloseReason::SessionExpired { .. }
        | CloseReason::AuthRequired { .. }
        | CloseReason::InsufficientScope { .. }
        | CloseReason::Redirect { .. }
        | CloseReason::NotRpc { .. }
        | CloseReason::NoReply
        | CloseReason::TooLarge { .. }
        | CloseReason::Protocol(_)
        | CloseReason::Cancelled => None,
    }
}
