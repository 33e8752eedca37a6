//! The ports: what the core asks of the outside, as traits and plain data.
//!
//! Transports implement [`Dialer`] and the halves of a [`Link`]; hosts implement the handler traits of
//! [`crate::handler`]. Nothing here opens a socket, a file or a process.

mod close_reason;
mod link;
mod stderr;
mod terminal_signal;

pub use callboard_policy::{
    Admitted, EraPin, HttpSpec, IdePlatform, IdeSpec, InProcessSpec, RemoteKind, Scope, ServerName,
    ServerOptions, ServerSpec, Source, StdioSpec, TransportKinds, TransportSpec,
};
pub use close_reason::{CloseReason, Delivery, ExitInfo, IoKind, Unreachable};
pub use link::{
    CallActivity, Diagnostics, DuplexSend, Exchange, ExchangeSend, InFrame, Link, LinkCloser, Negotiated,
    ReceiveHalf, SendHalf,
};
pub use stderr::{StderrFeed, StderrLine, StderrWriter};
pub(crate) use terminal_signal::Bearing;
pub use terminal_signal::TerminalSignal;

use crate::settings::Settings;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::Instant;

/// A boxed future, made once a connection or once an HTTP exchange, never once a stdio call.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Counts the connections of one server; every asynchronous event carries its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Generation(pub u64);

impl Generation {
    /// The one after this.
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

impl std::fmt::Display for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a dialer is asked to do.
#[derive(Clone)]
pub struct DialRequest {
    /// Who may be dialed.
    pub server: Admitted,
    /// Which connection of that server this will be.
    pub generation: Generation,
    /// When dialing must have ended.
    pub deadline: Instant,
    /// Limits and switches.
    pub settings: Arc<Settings>,
    /// Adds credentials to requests of a remote transport.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// Takes what a child writes to stderr.
    pub stderr: StderrFeed,
}

/// Opens connections. One implementation stands for every transport.
pub trait Dialer: Send + Sync + 'static {
    /// Dials. Runs inside the IO runtime. A dropped future must leave nothing behind: no process, no socket.
    ///
    /// # Errors
    /// The classified reason why there is no link.
    fn dial(&self, request: DialRequest) -> BoxFuture<'static, Result<Link, CloseReason>>;

    /// Dials the older way that the address may stand for as well. Asked when a server has refused the handshake
    /// of exchanges with status 400, 404 or 405 and no modern error. None where there is no other way.
    fn dial_fallback(&self, _request: DialRequest) -> Option<BoxFuture<'static, Result<Link, CloseReason>>> {
        None
    }
}

/// Credentials for requests of remote transports.
pub trait Authenticator: Send + Sync + 'static {
    /// Header names and values for the next request, from a published snapshot.
    fn headers(&self) -> Vec<(String, callboard_protocol::Secret)>;
}

/// Remembers which era a server speaks, so that it is probed once (protocol.md §1.2).
pub trait EraMemory: Send + Sync + 'static {
    /// The remembered era of a server's fingerprint, unless it has expired.
    fn recall(&self, fingerprint: &str) -> Option<callboard_protocol::Era>;
    /// Remembers a verdict.
    fn remember(&self, fingerprint: &str, era: callboard_protocol::Era);
    /// Forgets a verdict that proved wrong.
    fn forget(&self, fingerprint: &str);
}
