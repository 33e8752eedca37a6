//! A plain WebSocket behind an HTTP proxy. The proxy is asked for a tunnel (RFC 6455 §4.1), since one that forwards
//! requests drops the upgrade; the HTTP client tunnels for `https` alone.

use crate::http::status::clean_text;
use callboard_core::port::{CloseReason, IoKind, Unreachable};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use reqwest::header::{HOST, HeaderValue};
use reqwest::{Body, Request, Response, Url};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::http;

/// Longest head of a proxy's answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Sends a request for an `http` URL through a tunnel of this proxy.
///
/// # Errors
/// [`Unreachable::Proxy`] when the proxy gives no tunnel, else why the request got no answer.
pub(super) async fn execute(request: Request, proxy: &Intercept) -> Result<Response, CloseReason> {
    let stream = open(request.url(), proxy).await?;
    let lost = |error: hyper::Error| CloseReason::Io {
        kind: IoKind::Reset,
        message: clean_text(error.to_string().as_bytes()),
    };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // Ends with the connection, which ends when the socket or the response is dropped.
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(in_origin_form(request)?).await.map_err(lost)?;
    Ok(Response::from(response.map(Body::wrap)))
}

async fn open(target: &Url, proxy: &Intercept) -> Result<TcpStream, CloseReason> {
    let failed = |message: String| CloseReason::Unreachable { kind: Unreachable::Proxy, message };
    let (host, port) = (proxy.uri().host().unwrap_or_default(), proxy.uri().port_u16().unwrap_or(80));
    if proxy.uri().scheme_str() != Some("http") {
        return Err(failed("a plain WebSocket goes through http and socks proxies alone, not https".into()));
    }
    let io_failed = |error: io::Error| failed(format!("{host}:{port}: {error}"));
    let mut stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await.map_err(io_failed)?;
    stream.set_nodelay(true).map_err(io_failed)?;
    let authority =
        format!("{}:{}", target.host_str().unwrap_or_default(), target.port_or_known_default().unwrap_or(80));
    let mut head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    if let Some(credentials) = proxy.basic_auth() {
        head.extend_from_slice(b"Proxy-Authorization: ");
        head.extend_from_slice(credentials.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    stream.write_all(&head).await.map_err(io_failed)?;
    let answer = answer(&mut stream).await.map_err(io_failed)?;
    match status(&answer) {
        Some(200..=299) => Ok(stream),
        Some(407) => Err(failed("the proxy wants other credentials (HTTP status 407)".into())),
        Some(status) => Err(failed(format!("the proxy gave no tunnel (HTTP status {status})"))),
        None => Err(failed("the proxy does not speak HTTP".into())),
    }
}

/// Reads the head of an answer and not a byte beyond, which would be the server's.
async fn answer(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_BYTES_MAX || stream.read(&mut byte).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no whole answer to CONNECT"));
        }
        head.push(byte[0]);
    }
    Ok(head)
}

fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\r').next()?).ok()?;
    line.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
}

/// The request as a server takes it: a path, and the host in a header.
fn in_origin_form(request: Request) -> Result<http::Request<Body>, CloseReason> {
    let refused = |error: String| CloseReason::Protocol(format!("the request cannot be built: {error}"));
    let url = request.url().clone();
    let mut request = http::Request::<Body>::try_from(request).map_err(|error| refused(error.to_string()))?;
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let host = HeaderValue::from_str(host).map_err(|error| refused(error.to_string()))?;
    request.headers_mut().entry(HOST).or_insert(host);
    let path = url[url::Position::BeforePath..url::Position::AfterQuery].parse();
    *request.uri_mut() = path.map_err(|error: http::uri::InvalidUri| refused(error.to_string()))?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_origin_form() {
        let url = Url::parse("http://h:81/a?b=c").expect("a URL");
        let request = in_origin_form(Request::new(reqwest::Method::GET, url)).expect("built");
        assert_eq!(
            (request.uri().to_string().as_str(), &request.headers()[HOST]),
            ("/a?b=c", &HeaderValue::from_static("h:81"))
        );
    }

    #[test]
    fn answers_of_proxies() {
        for (head, want) in [
            ("HTTP/1.0 200 OK\r\n\r\n", Some(200)),
            ("HTTP/1.1 407\r\n\r\n", Some(407)),
            ("SSH-2.0\r\n", None),
        ] {
            assert_eq!(status(head.as_bytes()), want, "{head}");
        }
    }
}
