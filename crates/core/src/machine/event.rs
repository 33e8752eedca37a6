//! What happens to a connection, and what its actor has to do.

use super::state::TimerToken;
use crate::port::{CloseReason, Generation};
use std::sync::Arc;
use tokio::time::Instant;

/// What happens to a connection.
#[derive(Debug, Clone)]
pub enum Event {
    /// Somebody wants to use it.
    Demand,
    /// The dial permit is here.
    PermitGranted,
    /// The link is open.
    Dialed(Generation),
    /// The handshake is done.
    Established(Generation),
    /// There is no link, or no handshake.
    ConnectFailed(Generation, Arc<CloseReason>),
    /// The link has ended; `answered`: the server had answered something over it.
    Down {
        /// Which one.
        generation: Generation,
        /// Why.
        reason: Arc<CloseReason>,
        /// The server was of use.
        answered: bool,
    },
    /// A timer ran out.
    Timer(TimerToken),
    /// The user wants a new connection.
    Reconnect,
    /// The user switches it on.
    Enable,
    /// The user switches it off.
    Disable,
    /// Its entry is another one now, and lets it be used.
    Replaced,
    /// Its entry switches it off.
    EntryDisabled,
    /// It is taken out of the board.
    Removed,
    /// The actor panicked; `restarted`: its budget allows it to go on.
    Panicked {
        /// It goes on.
        restarted: bool,
    },
}

/// What the actor has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Ask for a dial permit.
    RequestPermit,
    /// Give the permit back, or withdraw the request for it.
    ReleasePermit,
    /// Open a link.
    Dial(Generation),
    /// Give up opening it.
    CancelDial,
    /// End the link.
    CloseLink(Generation),
    /// Give nothing new to the link, and end it once what is under way has ended, or its time is up.
    Drain(Generation),
    /// Set a timer.
    ArmTimer(TimerToken, Instant),
}
