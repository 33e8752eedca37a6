//! Answers `GET /metrics`, and nothing else.

use super::Registry;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Who asks must have asked, and have been answered, within this.
const EXCHANGE_MAX: Duration = Duration::from_secs(5);
/// Questions under way at once; one more ends the oldest, which has had its time: an answer takes a moment.
const AT_ONCE_MAX: usize = 8;
/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// After an accept that failed, which may be for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Reads `PORT`, `:PORT` or `ADDRESS:PORT`; loopback without an address.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let port = text.strip_prefix(':').or_else(|| text.strip_prefix("localhost:")).unwrap_or(text);
    match port.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text.parse().map_err(|_| format!("{text:?} is no address; write 9464 or 0.0.0.0:9464")),
    }
}

/// Listens until the runtime ends; gives the address that is listened at.
///
/// # Errors
/// When the address cannot be had.
pub(crate) async fn serve(registry: Arc<Registry>, address: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move {
        let mut under_way: VecDeque<JoinHandle<()>> = VecDeque::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let registry = registry.clone();
            under_way.retain(|asked| !asked.is_finished());
            if under_way.len() >= AT_ONCE_MAX
                && let Some(oldest) = under_way.pop_front()
            {
                oldest.abort();
            }
            under_way.push_back(tokio::spawn(async move {
                // Whoever asks and goes away misses the answer.
                let _ = tokio::time::timeout(EXCHANGE_MAX, answer(stream, &registry)).await;
            }));
        }
    });
    Ok(bound)
}

async fn answer(mut stream: TcpStream, registry: &Registry) -> io::Result<()> {
    let Some(head) = head(&mut stream).await? else { return Ok(()) };
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => ("200 OK", registry.text()),
        (b"GET" | b"HEAD", _) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n\
         content-length: {length}\r\nallow: GET, HEAD\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    if method != b"HEAD" {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

/// The head of a request; none when it is too long or never ends.
async fn head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await?;
        if read == 0 || head.len() + read > HEAD_BYTES_MAX {
            return Ok(None);
        }
        head.extend_from_slice(&piece[..read]);
    }
    Ok(Some(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_means_loopback() {
        for (text, expected) in [
            ("9464", "127.0.0.1:9464"),
            (":0", "127.0.0.1:0"),
            ("localhost:1", "127.0.0.1:1"),
            ("0.0.0.0:9464", "0.0.0.0:9464"),
            ("[::1]:9464", "[::1]:9464"),
        ] {
            assert_eq!(address(text).expect(text).to_string(), expected);
        }
        for text in ["", "x", "70000", "h.example:1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
