//! The nine terminal signals of behaviour profile §4, and how every reason bears on a connection's health.

use super::{CloseReason, IoKind, Unreachable};
use std::fmt;

/// What says that a connection, not one request, is in trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TerminalSignal {
    /// The connection was reset.
    Reset,
    /// A connect or a read timed out below us.
    TimedOut,
    /// A broken pipe.
    BrokenPipe,
    /// No route to the host.
    NoRoute,
    /// The connection was refused.
    Refused,
    /// A body stalled.
    BodyStalled,
    /// A body ended early.
    BodyCut,
    /// An event stream was lost.
    StreamLost,
    /// An event stream could not be resumed.
    ResumeGivenUp,
}

impl TerminalSignal {
    /// All nine, in the order of the profile.
    pub const ALL: [TerminalSignal; 9] = [
        TerminalSignal::Reset,
        TerminalSignal::TimedOut,
        TerminalSignal::BrokenPipe,
        TerminalSignal::NoRoute,
        TerminalSignal::Refused,
        TerminalSignal::BodyStalled,
        TerminalSignal::BodyCut,
        TerminalSignal::StreamLost,
        TerminalSignal::ResumeGivenUp,
    ];

    /// The field's name for it, in logs and events.
    pub fn as_str(self) -> &'static str {
        match self {
            TerminalSignal::Reset => "ECONNRESET",
            TerminalSignal::TimedOut => "ETIMEDOUT",
            TerminalSignal::BrokenPipe => "EPIPE",
            TerminalSignal::NoRoute => "EHOSTUNREACH",
            TerminalSignal::Refused => "ECONNREFUSED",
            TerminalSignal::BodyStalled => "Body Timeout Error",
            TerminalSignal::BodyCut => "terminated",
            TerminalSignal::StreamLost => "SSE stream disconnected",
            TerminalSignal::ResumeGivenUp => "Failed to reconnect SSE stream",
        }
    }
}

impl fmt::Display for TerminalSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the failure of one request says of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bearing {
    /// A terminal signal: it counts.
    Terminal(TerminalSignal),
    /// The server answered, though not as was hoped.
    Answered,
    /// It says nothing against the connection, and nothing for the server.
    Harmless,
    /// It is certain that the connection is of no more use; nothing is counted.
    Certain,
    /// It is not known what happened; nothing is counted.
    Unclear,
}

impl CloseReason {
    /// The terminal signal that this is, matched by kind.
    pub fn signal(&self) -> Option<TerminalSignal> {
        match self.bearing() {
            Bearing::Terminal(signal) => Some(signal),
            Bearing::Answered | Bearing::Harmless | Bearing::Certain | Bearing::Unclear => None,
        }
    }

    /// One of the nine terminal signals: counts as a strike against the connection when one request meets it.
    pub fn is_terminal(&self) -> bool {
        self.signal().is_some()
    }

    pub(crate) fn bearing(&self) -> Bearing {
        match self {
            CloseReason::Io { kind, .. } => match kind {
                IoKind::Reset => Bearing::Terminal(TerminalSignal::Reset),
                IoKind::TimedOut => Bearing::Terminal(TerminalSignal::TimedOut),
                IoKind::BrokenPipe => Bearing::Terminal(TerminalSignal::BrokenPipe),
                IoKind::BodyStalled => Bearing::Terminal(TerminalSignal::BodyStalled),
                IoKind::BodyCut => Bearing::Terminal(TerminalSignal::BodyCut),
                IoKind::StreamLost => Bearing::Terminal(TerminalSignal::StreamLost),
                IoKind::ResumeGivenUp => Bearing::Terminal(TerminalSignal::ResumeGivenUp),
                IoKind::Closed => Bearing::Certain,
                IoKind::Other => Bearing::Unclear,
            },
            CloseReason::Unreachable { kind, .. } => match kind {
                Unreachable::Refused => Bearing::Terminal(TerminalSignal::Refused),
                Unreachable::NoRoute => Bearing::Terminal(TerminalSignal::NoRoute),
                Unreachable::TimedOut => Bearing::Terminal(TerminalSignal::TimedOut),
                Unreachable::Dns | Unreachable::Tls | Unreachable::Proxy => Bearing::Unclear,
            },
            CloseReason::Status { .. }
            | CloseReason::InsufficientScope { .. }
            | CloseReason::Redirect { .. } => Bearing::Answered,
            // A message that cannot be used fails its own call.
            CloseReason::NotRpc { .. }
            | CloseReason::NoReply
            | CloseReason::TooLarge { .. }
            | CloseReason::Protocol(_)
            | CloseReason::Cancelled => Bearing::Harmless,
            CloseReason::Spawn { .. }
            | CloseReason::Ended { .. }
            | CloseReason::ConnectTimedOut { .. }
            | CloseReason::SessionExpired { .. }
            | CloseReason::AuthRequired { .. } => Bearing::Certain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn io(kind: IoKind) -> CloseReason {
        CloseReason::Io { kind, message: "m".into() }
    }

    fn unreachable(kind: Unreachable) -> CloseReason {
        CloseReason::Unreachable { kind, message: "m".into() }
    }

    #[test]
    fn the_nine_signals_are_matched_by_kind_and_nothing_else_is_one() {
        let signals = [
            (io(IoKind::Reset), "ECONNRESET"),
            (io(IoKind::TimedOut), "ETIMEDOUT"),
            (unreachable(Unreachable::TimedOut), "ETIMEDOUT"),
            (io(IoKind::BrokenPipe), "EPIPE"),
            (unreachable(Unreachable::NoRoute), "EHOSTUNREACH"),
            (unreachable(Unreachable::Refused), "ECONNREFUSED"),
            (io(IoKind::BodyStalled), "Body Timeout Error"),
            (io(IoKind::BodyCut), "terminated"),
            (io(IoKind::StreamLost), "SSE stream disconnected"),
            (io(IoKind::ResumeGivenUp), "Failed to reconnect SSE stream"),
        ];
        for (reason, name) in &signals {
            assert_eq!(reason.signal().map(TerminalSignal::as_str), Some(*name), "{reason:?}");
            assert!(reason.is_terminal(), "{reason:?}");
        }
        let reached: BTreeSet<_> = signals.iter().map(|(_, name)| *name).collect();
        assert_eq!(reached, TerminalSignal::ALL.iter().map(|signal| signal.as_str()).collect());
    }

    #[test]
    fn what_is_no_signal_resets_or_is_certain_or_says_nothing() {
        let challenge = String::new;
        let status = |status, retry_after| CloseReason::Status {
            status,
            body: "ECONNRESET".into(),
            rpc: None,
            retry_after,
        };
        let others = [
            (status(503, None), Bearing::Answered),
            (status(404, None), Bearing::Answered),
            (CloseReason::InsufficientScope { challenge: challenge() }, Bearing::Answered),
            (CloseReason::Redirect { status: 302, location: "x".into() }, Bearing::Answered),
            (
                CloseReason::NotRpc { content_type: "text/html".into(), excerpt: "terminated".into() },
                Bearing::Harmless,
            ),
            (CloseReason::NoReply, Bearing::Harmless),
            (CloseReason::TooLarge { limit: 1 }, Bearing::Harmless),
            (CloseReason::Protocol("EPIPE".into()), Bearing::Harmless),
            (CloseReason::Cancelled, Bearing::Harmless),
            (CloseReason::Ended { exit: None, stderr_tail: String::new() }, Bearing::Certain),
            (CloseReason::SessionExpired { status: 404 }, Bearing::Certain),
            (CloseReason::AuthRequired { status: 401, challenge: challenge() }, Bearing::Certain),
            (io(IoKind::Closed), Bearing::Certain),
            (io(IoKind::Other), Bearing::Unclear),
            (unreachable(Unreachable::Dns), Bearing::Unclear),
            (unreachable(Unreachable::Tls), Bearing::Unclear),
            (unreachable(Unreachable::Proxy), Bearing::Unclear),
        ];
        for (reason, bearing) in others {
            assert_eq!((reason.bearing(), reason.is_terminal()), (bearing, false), "{reason:?}");
        }
    }
}
