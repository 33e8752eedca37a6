//! Scripted servers for boards: over a stream inside this process, and over HTTP on loopback.
#![allow(dead_code, missing_docs, unreachable_pub)]

use serde_json::Value;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// No test may take longer.
pub const BOUND: Duration = Duration::from_secs(20);

/// Fails instead of hanging.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, work).await.expect("it hangs")
}

pub fn result(id: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub fn error(id: &Value, code: i64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"}}}}"#)
}

pub const LEGACY: &str = r#"{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"1"},
    "capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true}}}"#;
pub const MODERN: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
pub const TEXT: &str = r#"{"content":[{"type":"text","text":"done"}]}"#;

/// What every legacy server says alike: the answer to these methods, none for others.
pub fn usual(message: &Value) -> Option<String> {
    let id = &message["id"];
    match message["method"].as_str()? {
        "server/discover" => Some(error(id, -32601)),
        "initialize" => Some(result(id, &LEGACY.replace('\n', " "))),
        "tools/list" => Some(result(id, r#"{"tools":[{"name":"t","inputSchema":{}}]}"#)),
        _ => None,
    }
}

/// Lines to a client. Once the last of them is dropped, the stream ends.
pub type Lines = mpsc::UnboundedSender<String>;

/// The client's end of a stream to a server that takes each message with `take`.
pub fn stream(take: impl Fn(Value, &Lines) + Send + 'static) -> io::Result<DuplexStream> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (read, mut write) = tokio::io::split(theirs);
    let (lines, mut out) = mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(line) = out.recv().await {
            if write.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                return;
            }
        }
        let _ = write.shutdown().await;
    });
    tokio::spawn(async move {
        let mut read = BufReader::new(read).lines();
        while let Ok(Some(line)) = read.next_line().await {
            take(serde_json::from_str(&line).expect("JSON"), &lines);
        }
    });
    Ok(ours)
}

/// One HTTP request, and the way to answer it.
pub struct Posted {
    pub http_method: String,
    pub head: String,
    pub message: Value,
    pub socket: TcpStream,
}

impl Posted {
    pub fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or("")
    }

    /// Answers and closes.
    pub async fn respond(mut self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
        let _ = self.socket.write_all(format!("{head}{body}").as_bytes()).await;
        let _ = self.socket.shutdown().await;
    }

    pub async fn json(self, headers: &str, body: &str) {
        self.respond("200 OK", &format!("Content-Type: application/json\r\n{headers}"), body).await;
    }

    /// Begins an event stream that ends with the socket.
    pub async fn events(mut self) -> TcpStream {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        let _ = self.socket.write_all(head.as_bytes()).await;
        self.socket
    }
}

pub async fn event(socket: &mut TcpStream, message: &str) {
    let _ = socket.write_all(format!("data: {message}\n\n").as_bytes()).await;
}

/// An HTTP server on loopback; gives its URL.
pub async fn http<Taking>(take: impl Fn(Posted) -> Taking + Send + Sync + 'static) -> String
where
    Taking: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let take = Arc::new(take);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let take = take.clone();
            tokio::spawn(async move {
                if let Some(posted) = read(socket).await {
                    take(posted).await;
                }
            });
        }
    });
    url
}

async fn read(mut socket: TcpStream) -> Option<Posted> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.trim().parse().expect("a length"));
    while bytes.len() < end + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let http_method = head.split(' ').next()?.to_ascii_uppercase();
    let message = serde_json::from_slice(&bytes[end..end + length]).unwrap_or_default();
    Some(Posted { http_method, head, message, socket })
}
