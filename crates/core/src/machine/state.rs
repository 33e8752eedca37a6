//! The five states, each with its own data.

use crate::port::{CloseReason, Generation};
use std::sync::Arc;
use tokio::time::Instant;

/// Marks a timer; one that was set for an earlier state is recognised and ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimerToken(pub u64);

/// What a pending server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing: nobody has asked for it.
    Dormant,
    /// Waiting for a dial permit.
    Queued,
    /// Opening the link.
    Dialing(Generation),
    /// Talking about versions.
    Handshaking(Generation),
    /// Waiting to try again.
    BackingOff {
        /// Until then.
        until: Instant,
        /// Which timer ends it.
        timer: TimerToken,
    },
}

/// Who switched a server off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisabledBy {
    /// Its own entry.
    Entry,
    /// The user.
    User,
    /// Nobody any more: it was taken out of the board, and a handle that was kept leads nowhere.
    Removed,
}

impl DisabledBy {
    /// The word for it in output.
    pub fn as_str(self) -> &'static str {
        match self {
            DisabledBy::Entry => "entry",
            DisabledBy::User => "user",
            DisabledBy::Removed => "removed",
        }
    }
}

/// The five states, each with its own data.
#[derive(Debug, Clone)]
pub enum State {
    /// Not connected, but may become so.
    Pending {
        /// What it is doing.
        phase: Phase,
        /// Attempts made since the last good connection.
        attempt: u32,
        /// Why the last one failed.
        last: Option<Arc<CloseReason>>,
    },
    /// In use.
    Connected {
        /// Which connection.
        generation: Generation,
        /// Since when.
        since: Instant,
        /// Attempts that count on if it does not last.
        attempt: u32,
    },
    /// Waits for a login.
    NeedsAuth {
        /// What the server said.
        reason: Arc<CloseReason>,
        /// Since when.
        since: Instant,
    },
    /// Given up.
    Failed {
        /// Why.
        reason: Arc<CloseReason>,
        /// What kind of failure.
        class: FailureClass,
        /// Attempts made.
        attempts: u32,
        /// Since when.
        since: Instant,
        /// When it is tried again by itself.
        slow_retry: Option<(Instant, TimerToken)>,
    },
    /// Switched off.
    Disabled {
        /// By whom.
        by: DisabledBy,
        /// Since when.
        since: Instant,
    },
}

/// Kinds of giving up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The attempts are used up.
    Unreachable,
    /// Retrying cannot help.
    Refused,
    /// The server ended before it was of use.
    Exited,
    /// The server dies soon after each start.
    CrashLoop,
    /// A defect of ours.
    Crashed,
}

impl FailureClass {
    /// The word for it in output.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureClass::Unreachable => "unreachable",
            FailureClass::Refused => "refused",
            FailureClass::Exited => "exited",
            FailureClass::CrashLoop => "crash-loop",
            FailureClass::Crashed => "crashed",
        }
    }
}
