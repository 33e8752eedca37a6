//! Requests of HTTP/1.1 as one client makes them: a head, and a body of a told length.

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// More than any head or body here has, in bytes.
const BYTES_MAX: usize = 64 * 1024;

/// A request that has come in whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) session: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// The next request of a connection, or none when the client has closed it or speaks something else.
pub(crate) async fn next(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    loop {
        if let Some((request, used)) = read(buffer)? {
            buffer.drain(..used);
            return Some(request);
        }
        if buffer.len() > BYTES_MAX || socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// The request at the start of the bytes and its length; `Some(None)` while there is more to come.
fn read(bytes: &[u8]) -> Option<Option<(Request, usize)>> {
    let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Some(None) };
    let head = std::str::from_utf8(&bytes[..head_end]).ok()?;
    let body_start = head_end + 4;
    let mut lines = head.lines();
    let method = lines.next()?.split(' ').next()?.to_owned();
    let (mut session, mut length) = (None, 0);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" => session = Some(value.trim().to_owned()),
            "content-length" => length = value.trim().parse().ok()?,
            _ => {}
        }
    }
    let end = body_start + length;
    let body = bytes.get(body_start..end);
    Some(body.map(|body| (Request { method, session, body: body.to_vec() }, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_when_it_is_whole() {
        let text = b"POST /mcp HTTP/1.1\r\nMcp-Session-Id: a\r\ncontent-length: 2\r\n\r\n{}GET";
        let request = Request { method: "POST".into(), session: Some("a".into()), body: b"{}".to_vec() };
        assert_eq!(read(text), Some(Some((request, text.len() - 3))));
        assert_eq!(read(&text[..text.len() - 4]), Some(None));
        assert_eq!(read(b"\xff\r\n\r\n"), None);
    }
}
