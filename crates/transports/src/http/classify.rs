//! What an error of the HTTP library means, by its kinds and the system errors behind it.

use callboard_core::port::{CloseReason, IoKind, Unreachable};
use std::error::Error;
use std::io;

/// Classifies an error before the answer's headers.
pub(crate) fn of_send(error: reqwest::Error, is_https: bool) -> CloseReason {
    let message = root_text(&error);
    if error.is_builder() {
        return CloseReason::Protocol(format!("the request cannot be built: {message}"));
    }
    if error.is_connect() || error.is_dns() {
        return CloseReason::Unreachable { kind: unreachable_kind(&error, is_https), message };
    }
    // Without a system error behind it, the server closed the connection before it answered.
    let kind = io_kind(&error).unwrap_or(IoKind::Reset);
    CloseReason::Io { kind, message }
}

/// Classifies an error while a body is read.
pub(crate) fn of_body(error: &reqwest::Error) -> CloseReason {
    CloseReason::Io { kind: io_kind(error).unwrap_or(IoKind::BodyCut), message: root_text(error) }
}

/// Classifies an error while an event stream is read.
pub(crate) fn of_stream(error: &reqwest::Error) -> CloseReason {
    CloseReason::Io { kind: IoKind::StreamLost, message: root_text(error) }
}

fn unreachable_kind(error: &reqwest::Error, is_https: bool) -> Unreachable {
    if is_proxy(error) {
        return Unreachable::Proxy;
    }
    if error.is_dns() {
        return Unreachable::Dns;
    }
    if error.is_timeout() {
        return Unreachable::TimedOut;
    }
    match io_error(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => Unreachable::Refused,
        Some(
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable,
        ) => Unreachable::NoRoute,
        Some(io::ErrorKind::TimedOut) => Unreachable::TimedOut,
        // Once the socket is open only the handshake can fail.
        _ if is_https => Unreachable::Tls,
        _ => Unreachable::NoRoute,
    }
}

/// The library's tunnel error has no public type: its text is all there is.
fn is_proxy(error: &reqwest::Error) -> bool {
    chain(error).any(|error| error.to_string().starts_with("tunnel error"))
}

fn io_kind(error: &reqwest::Error) -> Option<IoKind> {
    Some(match io_error(error)?.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => IoKind::Reset,
        io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected => IoKind::BrokenPipe,
        io::ErrorKind::TimedOut => IoKind::TimedOut,
        io::ErrorKind::UnexpectedEof => IoKind::BodyCut,
        _ => IoKind::Other,
    })
}

fn io_error(error: &reqwest::Error) -> Option<&io::Error> {
    chain(error).filter_map(|error| error.downcast_ref()).last()
}

/// The errors below the library's own. The error inside a system error is visited too, which `source` skips.
fn chain(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    fn below<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    }
    std::iter::successors(error.source(), |error: &&(dyn Error + 'static)| below(*error))
}

/// The innermost text: the outer ones repeat the URL, which may hold secrets.
fn root_text(error: &reqwest::Error) -> String {
    let text = match chain(error).last() {
        Some(root) => root.to_string(),
        None => "the HTTP library gave no reason".to_owned(),
    };
    super::status::clean_text(text.as_bytes())
}
