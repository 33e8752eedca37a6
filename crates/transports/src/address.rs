//! What the URL of an entry says: where to go, and what to ask for there.

use callboard_core::port::{CloseReason, RemoteKind};
use reqwest::Url;
use std::path::Path;
use std::sync::Arc;

/// An address of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The URL that requests name. Behind a socket its host is `localhost`.
    pub(crate) url: Url,
    /// The Unix-domain socket that connections go to instead of the URL's host.
    pub(crate) socket: Option<Arc<Path>>,
}

impl Address {
    /// Reads `http`, `https` and `unix` URLs; for the kinds of WebSocket also `ws` and `wss`, which stand for `http`
    /// and `https`.
    ///
    /// `unix:///run/demo.sock#/mcp` is the path `/mcp` behind the socket `/run/demo.sock` (config-formats §2.1). Without
    /// a fragment the path is the usual one: `/sse` for HTTP+SSE, `/mcp` else.
    ///
    /// # Errors
    /// [`CloseReason::Protocol`] when it is none of these.
    pub(crate) fn parse(text: &str, kind: RemoteKind) -> Result<Address, CloseReason> {
        let refused = |why: &str| CloseReason::Protocol(format!("the url cannot be used: {why}"));
        let mut url = Url::parse(text.trim()).map_err(|error| refused(&error.to_string()))?;
        if url.scheme() == "unix" && !kind.is_websocket() {
            return of_socket(&url, kind).map_err(|why| refused(&why));
        }
        let scheme = match (url.scheme(), kind.is_websocket()) {
            ("http", _) | ("ws", true) => "http",
            ("https", _) | ("wss", true) => "https",
            (_, false) => return Err(refused("its scheme is none of http, https and unix")),
            (_, true) => return Err(refused("its scheme is neither ws nor wss")),
        };
        url.set_scheme(scheme).map_err(|()| refused("its scheme cannot be changed"))?;
        url.set_fragment(None);
        Ok(Address { url, socket: None })
    }
}

fn of_socket(url: &Url, kind: RemoteKind) -> Result<Address, String> {
    if !cfg!(unix) {
        return Err("Unix-domain sockets are not to be had on this system; use http".into());
    }
    if url.has_host() || url.query().is_some() || url.path().ends_with('/') {
        return Err("write a socket as unix:///path/to.sock#/path".into());
    }
    // The path is one of files, percent signs and all.
    let file = Url::parse(&format!("file://{}", url.path())).ok().and_then(|file| file.to_file_path().ok());
    let socket = file.ok_or("its path is no path of a file")?;
    let usual = match kind {
        RemoteKind::Sse | RemoteKind::SseIde => "/sse",
        RemoteKind::Streamable | RemoteKind::Probe | RemoteKind::WebSocket | RemoteKind::WebSocketIde => {
            "/mcp"
        }
    };
    let path = url.fragment().filter(|path| !path.is_empty()).unwrap_or(usual);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut inside =
        Url::parse(&format!("http://localhost{slash}{path}")).map_err(|error| error.to_string())?;
    inside.set_fragment(None);
    Ok(Address { url: inside, socket: Some(socket.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_spelling() {
        let (http, ws) = (RemoteKind::Streamable, RemoteKind::WebSocket);
        for (kind, given, want) in [
            (http, " http://h/m#f ", Some("http://h/m")),
            (http, "ws://h/m", None),
            (ws, "ws://h/m#f", Some("http://h/m")),
            (RemoteKind::WebSocketIde, "wss://h:444/m?a=b", Some("https://h:444/m?a=b")),
            (ws, "https://h/", Some("https://h/")),
            (ws, "unix:///run/x.sock", None),
            (http, "ftp://h/", None),
            (http, "h", None),
        ] {
            let found = Address::parse(given, kind).ok();
            assert!(found.as_ref().is_none_or(|found| found.socket.is_none()));
            assert_eq!(found.as_ref().map(|found| found.url.as_str()), want, "{given}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn sockets() {
        for (kind, given, want) in [
            (RemoteKind::Probe, "unix:///run/x.sock#/mcp", Some(("/run/x.sock", "http://localhost/mcp"))),
            (RemoteKind::Probe, "unix:///run/x.sock#a?k=v", Some(("/run/x.sock", "http://localhost/a?k=v"))),
            (RemoteKind::Streamable, "unix:///run/x.sock", Some(("/run/x.sock", "http://localhost/mcp"))),
            (RemoteKind::Sse, "unix:///run/x.sock#", Some(("/run/x.sock", "http://localhost/sse"))),
            (RemoteKind::Probe, "unix:///a%20b/x.sock", Some(("/a b/x.sock", "http://localhost/mcp"))),
            (RemoteKind::Probe, "unix:///a b/x.sock", Some(("/a b/x.sock", "http://localhost/mcp"))),
            (RemoteKind::Probe, "unix://run/x.sock", None),
            (RemoteKind::Probe, "unix:///run/x.sock?a=b", None),
            (RemoteKind::Probe, "unix:///", None),
            (RemoteKind::Probe, "unix:///run/", None),
        ] {
            let found = Address::parse(given, kind).ok();
            let found = found.as_ref().map(|a| (a.socket.as_deref().and_then(Path::to_str), a.url.as_str()));
            assert_eq!(found, want.map(|(socket, url)| (Some(socket), url)), "{given}");
        }
    }
}
