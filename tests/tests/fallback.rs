//! An address without a type whose server turns streamable HTTP away: tried as HTTP+SSE after 400, 404 and 405,
//! and after nothing else (protocol.md §1.2).

use callboard::{Board, CallOptions, HttpSpec, RemoteKind, ServerSpec, TransportSpec};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server of 2024-11-05 that answers a POST to its stream's address with this status.
struct Server {
    url: String,
    served: Arc<Served>,
    task: tokio::task::JoinHandle<()>,
}

struct Served {
    refusal: &'static str,
    body: &'static str,
    /// Method and path of each request.
    seen: Mutex<Vec<String>>,
    stream: Mutex<Option<mpsc::UnboundedSender<String>>>,
}

impl Server {
    async fn start(refusal: &'static str, body: &'static str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}/sse", listener.local_addr().expect("bound"));
        let served = Arc::new(Served { refusal, body, seen: Mutex::default(), stream: Mutex::default() });
        let shared = served.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(serve(socket, shared.clone()));
            }
        });
        Server { url, served, task }
    }

    async fn board(&self, kind: RemoteKind) -> Board {
        let spec = HttpSpec { url: self.url.clone(), kind, ..HttpSpec::default() };
        let spec = ServerSpec::new("old", TransportSpec::Http(spec));
        Board::builder().server(spec).build().await.expect("builds")
    }

    fn seen(&self, what: &str) -> usize {
        self.served.seen.lock().expect("no panic").iter().filter(|seen| *seen == what).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut socket: TcpStream, served: Arc<Served>) {
    let Some((line, body)) = read_request(&mut socket).await else { return };
    served.seen.lock().expect("no panic").push(line.clone());
    match line.as_str() {
        "GET /sse" => {
            let (sender, mut events) = mpsc::unbounded_channel();
            *served.stream.lock().expect("no panic") = Some(sender);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages\n\n";
            let _ = socket.write_all(head.as_bytes()).await;
            while let Some(event) = events.recv().await {
                let _ = socket.write_all(format!("event: message\ndata: {event}\n\n").as_bytes()).await;
            }
        }
        "POST /messages" => {
            let _ =
                socket.write_all(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
            if let (Some(reply), Some(stream)) = (reply(&body), &*served.stream.lock().expect("no panic")) {
                let _ = stream.send(reply);
            }
        }
        _ => {
            let (status, body) = (served.refusal, served.body);
            let head =
                format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = socket.write_all((head + body).as_bytes()).await;
        }
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<(String, String)> {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                let line = head.split(" HTTP").next()?.to_owned();
                return Some((line, body.to_owned()));
            }
        }
        let read = socket.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        text.push_str(std::str::from_utf8(&buffer[..read]).ok()?);
    }
}

fn reply(body: &str) -> Option<String> {
    let request: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let id = request.get("id")?;
    let result = match request["method"].as_str().expect("a method") {
        "initialize" => {
            serde_json::json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}})
        }
        "tools/list" => serde_json::json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => serde_json::json!({"content": [{"type": "text", "text": "hello"}]}),
        other => panic!("{other}"),
    };
    Some(serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_turns_posts_away_is_spoken_to_over_http_sse() {
    for refusal in ["400", "404", "405"] {
        let server = Server::start(refusal, "").await;
        let board = server.board(RemoteKind::Probe).await;
        let old = board.server("old").expect("admitted");
        let reply = old.call_tool("echo", "{}", CallOptions::default()).await;
        assert_eq!(reply.unwrap_or_else(|error| panic!("{refusal}: {error}")).text(), "hello");
        assert_eq!(server.seen("POST /sse"), 2, "one for each era");
        assert_eq!(server.seen("GET /sse"), 1);
        board.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nothing_else_leads_to_http_sse() {
    let modern = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"m","data":{"supported":["2027-01-01"]}}}"#;
    for (kind, refusal, body) in [
        (RemoteKind::Probe, "415", ""),
        (RemoteKind::Probe, "429", ""),
        (RemoteKind::Probe, "401", ""),
        (RemoteKind::Probe, "400", modern),
        (RemoteKind::Streamable, "405", ""),
    ] {
        let server = Server::start(refusal, body).await;
        let board = server.board(kind).await;
        let old = board.server("old").expect("admitted");
        old.connect(Some(Duration::from_millis(700))).await.expect_err(refusal);
        assert_eq!(server.seen("GET /sse"), 0, "{refusal} {body}");
        board.close().await;
    }
}
