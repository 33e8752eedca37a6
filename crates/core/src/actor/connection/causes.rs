//! Why a connection, or an attempt to make one, has ended: in a word for counters, in a text for people.

use crate::machine::Event;
use crate::port::CloseReason;
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
            let signal = reason.signal().map(|signal| signal.as_str());
            Some(Ending { word: word(reason), text: Cow::Owned(reason.to_string()), signal })
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
