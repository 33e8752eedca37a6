//! The cases of the kind `websocket` (`ws-close-code`, `ws-cut-in-call`): a board meets a WebSocket server.

use callboard::{Board, CallOptions, HttpSpec, RemoteKind, ServerSpec, TransportSpec};
use futures_util::{SinkExt, StreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

/// What the server does with its first call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Answer,
    /// Closes the TCP connection without a close frame.
    Cut,
}

/// A server of 2025-11-25 with the tool `echo`.
struct Server {
    url: String,
    initialized: Arc<AtomicUsize>,
    /// The code of each close frame that came.
    codes: mpsc::UnboundedReceiver<Option<u16>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(first: First) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("ws://{}/", listener.local_addr().expect("bound"));
        let (tell, codes) = mpsc::unbounded_channel();
        let initialized = Arc::new(AtomicUsize::new(0));
        let count = initialized.clone();
        let task = tokio::spawn(async move {
            let mut first = first;
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, &mut first, &count, &tell).await;
            }
        });
        Server { url, initialized, codes, task }
    }

    async fn board(&self) -> Board {
        let spec = HttpSpec { url: self.url.clone(), kind: RemoteKind::WebSocket, ..HttpSpec::default() };
        let spec = ServerSpec::new("ws", TransportSpec::Http(spec));
        Board::builder().server(spec).build().await.expect("builds")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    stream: TcpStream,
    first: &mut First,
    initialized: &AtomicUsize,
    codes: &mpsc::UnboundedSender<Option<u16>>,
) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    while let Some(Ok(message)) = socket.next().await {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(frame) => {
                let _ = codes.send(frame.map(|frame| frame.code.into()));
                continue;
            }
            _ => continue,
        };
        let request: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let Some(id) = request.get("id") else { continue };
        let method = request["method"].as_str().expect("a method");
        let result = match method {
            "initialize" => {
                initialized.fetch_add(1, Ordering::Relaxed);
                serde_json::json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "ws", "version": "1"}})
            }
            "tools/list" => {
                serde_json::json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
            }
            "tools/call" if std::mem::replace(first, First::Answer) == First::Cut => return,
            "tools/call" => serde_json::json!({"content": [{"type": "text", "text": "hello"}]}),
            _ => {
                let error = serde_json::json!({"jsonrpc": "2.0", "id": id,
                    "error": {"code": -32601, "message": "Method not found"}});
                socket.send(Message::Text(error.to_string().into())).await.expect("sends");
                continue;
            }
        };
        let reply = serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result});
        socket.send(Message::Text(reply.to_string().into())).await.expect("sends");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_client_closes_with_1000() {
    let mut server = Server::start(First::Answer).await;
    let board = server.board().await;
    let ws = board.server("ws").expect("admitted");
    let reply = ws.call_tool("echo", "{}", CallOptions::default()).await.expect("answers");
    assert_eq!(reply.text(), "hello");
    let started = Instant::now();
    board.close().await;
    assert_eq!(server.codes.recv().await, Some(Some(1000)));
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cut_in_a_call_fails_it_at_once_and_the_next_call_meets_a_new_connection() {
    let server = Server::start(First::Cut).await;
    let board = server.board().await;
    let ws = board.server("ws").expect("admitted");
    ws.connect(None).await.expect("connects");
    let started = Instant::now();
    ws.call_tool("echo", "{}", CallOptions::default()).await.expect_err("is cut");
    assert!(started.elapsed() < Duration::from_secs(3));
    let reply = ws.call_tool("echo", "{}", CallOptions::default()).await.expect("answers");
    assert_eq!(reply.text(), "hello");
    assert_eq!(server.initialized.load(Ordering::Relaxed), 2, "nothing is initialised twice");
    board.close().await;
}
