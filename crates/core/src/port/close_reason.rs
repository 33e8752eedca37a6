//! Why a link could not be opened, why it ended, or why one exchange on it failed.

use callboard_protocol::RemoteError;
use std::fmt;
use std::time::Duration;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitInfo {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody knows.
    Unknown,
}

impl fmt::Display for ExitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitInfo::Code(code) => write!(f, "exit code {code}"),
            ExitInfo::Signal(signal) => write!(f, "signal {signal}"),
            ExitInfo::Unknown => f.write_str("unknown exit status"),
        }
    }
}

/// Kinds of a broken pipe, socket or body: the terminal signals of behaviour profile §4, matched by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoKind {
    /// `ECONNRESET`.
    Reset,
    /// `ETIMEDOUT`.
    TimedOut,
    /// `EPIPE`.
    BrokenPipe,
    /// The peer ended a connection that has a way to say so, and said so.
    Closed,
    /// A body that stalled.
    BodyStalled,
    /// A body that ended early.
    BodyCut,
    /// An event stream that was lost.
    StreamLost,
    /// An event stream that could not be resumed.
    ResumeGivenUp,
    /// Anything else.
    Other,
}

impl IoKind {
    /// The field's word for it, in messages and events.
    pub fn as_str(self) -> &'static str {
        match self {
            IoKind::Reset => "connection reset",
            IoKind::TimedOut => "connection timed out",
            IoKind::BrokenPipe => "broken pipe",
            IoKind::Closed => "closed by the server",
            IoKind::BodyStalled => "body timeout",
            IoKind::BodyCut => "body ended early",
            IoKind::StreamLost => "SSE stream disconnected",
            IoKind::ResumeGivenUp => "failed to reconnect SSE stream",
            IoKind::Other => "input/output error",
        }
    }
}

/// Why an address could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// The name does not resolve.
    Dns,
    /// Nobody listens (`ECONNREFUSED`).
    Refused,
    /// No route to the host (`EHOSTUNREACH`).
    NoRoute,
    /// No answer to the connect.
    TimedOut,
    /// TLS failed.
    Tls,
    /// The proxy refused or failed.
    Proxy,
}

impl Unreachable {
    /// The word for it in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Unreachable::Dns => "name does not resolve",
            Unreachable::Refused => "connection refused",
            Unreachable::NoRoute => "no route to host",
            Unreachable::TimedOut => "connect timed out",
            Unreachable::Tls => "TLS failed",
            Unreachable::Proxy => "proxy failed",
        }
    }
}

/// What is known of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It never left.
    NotSent,
    /// The server answered that it did not perform it.
    Refused,
    /// It left, and nobody knows whether it was performed.
    Unknown,
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Delivery::NotSent => "not sent",
            Delivery::Refused => "refused by the server",
            Delivery::Unknown => "sent, outcome unknown",
        })
    }
}

/// Why a link could not be opened, why it ended, or why one exchange on it failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The child could not be started.
    #[error("cannot start {command:?}: {message}")]
    Spawn {
        /// The program.
        command: String,
        /// The system's words.
        message: String,
        /// The program does not exist.
        not_found: bool,
    },
    /// The peer closed the link, or the child ended.
    #[error("the server ended{}{}", exit_text(*exit), stderr_text(stderr_tail))]
    Ended {
        /// How the child ended; none for other transports.
        exit: Option<ExitInfo>,
        /// The last of its stderr.
        stderr_tail: String,
    },
    /// No finished handshake in time.
    #[error("no answer within {} ms{}", after.as_millis(), stderr_text(stderr_tail))]
    ConnectTimedOut {
        /// The limit.
        after: Duration,
        /// The last of the child's stderr.
        stderr_tail: String,
    },
    /// A pipe, socket or body broke.
    #[error("{}: {message}", kind.as_str())]
    Io {
        /// Which way.
        kind: IoKind,
        /// The system's words.
        message: String,
    },
    /// The address could not be reached; nothing was sent.
    #[error("{}: {message}", kind.as_str())]
    Unreachable {
        /// Which way.
        kind: Unreachable,
        /// The library's words.
        message: String,
    },
    /// The server answered with an HTTP status that is no success.
    #[error("HTTP status {status}{}", status_text(rpc.as_ref(), body))]
    Status {
        /// The status.
        status: u16,
        /// The start of the body, as text.
        body: String,
        /// The JSON-RPC error in the body.
        rpc: Option<RemoteError>,
        /// What `Retry-After` asked for.
        retry_after: Option<Duration>,
    },
    /// The server does not know our session any more.
    #[error("the server answered HTTP {status} to our session: it has expired")]
    SessionExpired {
        /// 404 or 410.
        status: u16,
    },
    /// The server wants credentials.
    #[error("the server asks for authorization (HTTP {status})")]
    AuthRequired {
        /// 401, or 403 without an insufficient scope.
        status: u16,
        /// The `WWW-Authenticate` header.
        challenge: String,
    },
    /// The credentials do not reach far enough.
    #[error("the authorization does not cover this (HTTP 403, insufficient scope)")]
    InsufficientScope {
        /// The `WWW-Authenticate` header.
        challenge: String,
    },
    /// A redirect that must not be followed.
    #[error("HTTP status {status}: redirect to {location} is not followed")]
    Redirect {
        /// The status.
        status: u16,
        /// The `Location`, masked.
        location: String,
    },
    /// The answer is no JSON-RPC.
    #[error("the answer is no JSON-RPC message ({content_type}): {excerpt}")]
    NotRpc {
        /// Its media type, or what else it was.
        content_type: String,
        /// Its start.
        excerpt: String,
    },
    /// The answer ended without a reply.
    #[error("the server's answer ended without a reply")]
    NoReply,
    /// A message over the limit.
    #[error("the answer is larger than {limit} bytes (wire.frame_bytes_max)")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The peer broke the protocol.
    #[error("protocol violation: {0}")]
    Protocol(String),
    /// We closed the link.
    #[error("the connection was closed")]
    Cancelled,
}

fn exit_text(exit: Option<ExitInfo>) -> String {
    exit.map_or_else(|| " the connection".to_owned(), |exit| format!(" ({exit})"))
}

fn stderr_text(tail: &str) -> String {
    match tail.trim_end() {
        "" => String::new(),
        tail => format!("; its last words on stderr:\n{tail}"),
    }
}

fn status_text(rpc: Option<&RemoteError>, body: &str) -> String {
    match (rpc, body.trim()) {
        (Some(rpc), _) => format!(": {rpc}"),
        (None, "") => String::new(),
        (None, body) => format!(": {}", callboard_protocol::text::cut(body, 200).0),
    }
}

impl CloseReason {
    /// The server wants a login before anything else.
    pub fn requires_auth(&self) -> bool {
        matches!(self, CloseReason::AuthRequired { .. })
    }

    /// Worth another attempt to connect: the cause may pass by itself.
    pub fn is_retryable(&self) -> bool {
        match self {
            CloseReason::Spawn { not_found, .. } => !not_found,
            CloseReason::Status { status, .. } => *status >= 500 || *status == 429 || *status == 408,
            CloseReason::Unreachable { kind, .. } => !matches!(kind, Unreachable::Tls),
            CloseReason::Ended { .. }
            | CloseReason::ConnectTimedOut { .. }
            | CloseReason::Io { .. }
            | CloseReason::SessionExpired { .. }
            | CloseReason::NoReply => true,
            CloseReason::AuthRequired { .. }
            | CloseReason::InsufficientScope { .. }
            | CloseReason::Redirect { .. }
            | CloseReason::NotRpc { .. }
            | CloseReason::TooLarge { .. }
            | CloseReason::Protocol(_)
            | CloseReason::Cancelled => false,
        }
    }

    /// What became of the request that met this.
    pub fn delivery(&self) -> Delivery {
        match self {
            CloseReason::Spawn { .. } | CloseReason::Unreachable { .. } => Delivery::NotSent,
            CloseReason::SessionExpired { .. }
            | CloseReason::AuthRequired { .. }
            | CloseReason::InsufficientScope { .. }
            | CloseReason::Redirect { .. } => Delivery::Refused,
            CloseReason::Status { status, .. } if *status < 500 => Delivery::Refused,
            CloseReason::Status { .. }
            | CloseReason::Ended { .. }
            | CloseReason::ConnectTimedOut { .. }
            | CloseReason::Io { .. }
            | CloseReason::NotRpc { .. }
            | CloseReason::NoReply
            | CloseReason::TooLarge { .. }
            | CloseReason::Protocol(_)
            | CloseReason::Cancelled => Delivery::Unknown,
        }
    }

    /// How long the server asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            CloseReason::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The HTTP status behind this, if any.
    pub fn http_status(&self) -> Option<u16> {
        match self {
            CloseReason::Status { status, .. }
            | CloseReason::SessionExpired { status }
            | CloseReason::AuthRequired { status, .. }
            | CloseReason::Redirect { status, .. } => Some(*status),
            CloseReason::InsufficientScope { .. } => Some(403),
            _ => None,
        }
    }

    /// The last of the child's stderr, if any.
    pub fn stderr_tail(&self) -> Option<&str> {
        match self {
            CloseReason::Ended { stderr_tail, .. } | CloseReason::ConnectTimedOut { stderr_tail, .. }
                if !stderr_tail.is_empty() =>
            {
                Some(stderr_tail)
            }
            _ => None,
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            CloseReason::Spawn { command, not_found: true, .. } => {
                format!("install {command:?}, or give its full path in \"command\"")
            }
            CloseReason::ConnectTimedOut { .. } => {
                "give the server a larger connect_timeout_ms, or run its command by hand".into()
            }
            CloseReason::Ended { .. } => "run the server's command by hand to see why it ends".into(),
            CloseReason::Unreachable { kind, .. } => match kind {
                Unreachable::Dns => "check the host name in \"url\"".into(),
                Unreachable::Refused => {
                    "check that the server runs and that the port in \"url\" is right".into()
                }
                Unreachable::NoRoute | Unreachable::TimedOut => {
                    "check the network and the address in \"url\"".into()
                }
                Unreachable::Tls => "check the certificate, or the scheme in \"url\"".into(),
                Unreachable::Proxy => "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY".into(),
            },
            CloseReason::AuthRequired { .. } => "give the server's credentials in \"headers\"".into(),
            CloseReason::Redirect { location, .. } => format!("put {location} in \"url\" if you trust it"),
            CloseReason::NotRpc { .. } => "check that \"url\" is the MCP endpoint".into(),
            CloseReason::TooLarge { .. } => "ask for less, or raise wire.frame_bytes_max".into(),
            _ => return None,
        })
    }
}
