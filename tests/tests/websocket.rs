//! The cases of the kinds `websocket` and `network`: each file in `cases` of these kinds is played, over text and
//! over binary frames.
#![allow(clippy::result_large_err, reason = "the library's callback returns a whole response")]

use callboard::{Board, CallOptions, HttpSpec, RemoteKind, ServerSpec, TransportSpec};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Bytes, Message};

/// No step may take longer.
const BOUND: Duration = Duration::from_secs(20);

/// A file of a case.
#[derive(Deserialize)]
struct Case<I, E> {
    id: String,
    input: I,
    expect: E,
}

/// Every case of a kind.
fn cases<I: DeserializeOwned, E: DeserializeOwned>(kind: &str) -> Vec<Case<I, E>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut cases: Vec<Case<I, E>> = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of cases") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("reads");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        if value["kind"] == kind {
            let case = serde_json::from_value(value);
            cases.push(case.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        }
    }
    assert!(!cases.is_empty(), "no case is of kind {kind}");
    cases.sort_by(|a, b| a.id.cmp(&b.id));
    cases
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebSocketInput {
    steps: Vec<Step>,
}

/// One of these members, or a call and what the server does with it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    connect: Option<bool>,
    call: Option<String>,
    server_does: Option<String>,
    until: Option<String>,
    close: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebSocketExpect {
    outcomes: Vec<String>,
    close_frame: Option<Close>,
    within_ms: Option<u64>,
    first_call_within_ms: Option<u64>,
    initialize_requests: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Close {
    from: String,
    code: Code,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Code {
    r#in: Vec<u16>,
}

/// What the server does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Answer,
    /// Answers after a ping of its own.
    Ping,
    /// Closes the TCP connection without a close frame.
    Cut,
    Close(u16),
}

impl Does {
    /// What the words of a case mean.
    fn of_words(words: Option<&str>) -> Does {
        let Some(words) = words else { return Does::Answer };
        let code = words.split(|c: char| !c.is_ascii_digit()).find_map(|number| number.parse().ok());
        match (words, code) {
            (words, _) if words.contains("without a close frame") => Does::Cut,
            (words, Some(code)) if words.contains("close") => Does::Close(code),
            (words, None) if words.contains("ping") => Does::Ping,
            _ => panic!("nobody here knows how a server does this: {words}"),
        }
    }
}

/// Which frames a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frames {
    Text,
    Binary,
}

impl Frames {
    fn message(self, value: &serde_json::Value) -> Message {
        match self {
            Frames::Text => Message::Text(value.to_string().into()),
            Frames::Binary => Message::Binary(value.to_string().into()),
        }
    }
}

/// A server of 2025-11-25 with the tool `echo`, which speaks the subprotocol `mcp` and no other.
struct Server {
    url: String,
    shared: Arc<Shared>,
    /// The code of each close frame that came.
    codes: mpsc::UnboundedReceiver<Option<u16>>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    frames: Frames,
    calls: AtomicUsize,
    /// What is done with each call; those beyond are answered.
    does: Vec<Does>,
    initialized: AtomicUsize,
    codes: mpsc::UnboundedSender<Option<u16>>,
}

impl Server {
    async fn start(frames: Frames, does: Vec<Does>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("ws://{}/", listener.local_addr().expect("bound"));
        let (tell, codes) = mpsc::unbounded_channel();
        let (calls, initialized) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Shared { frames, calls, does, initialized, codes: tell });
        let served = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                served.serve(stream).await;
            }
        });
        Server { url, shared, codes, task }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    async fn serve(&self, stream: TcpStream) {
        let choose = |request: &Request, mut response: Response| {
            assert_eq!(request.headers()["sec-websocket-protocol"], "mcp", "the subprotocol is offered");
            response.headers_mut().insert("sec-websocket-protocol", "mcp".parse().expect("a value"));
            Ok(response)
        };
        let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, choose).await else { return };
        while let Some(Ok(message)) = socket.next().await {
            let payload = match message {
                Message::Text(text) => text.to_string(),
                Message::Binary(bytes) => String::from_utf8(bytes.to_vec()).expect("UTF-8"),
                Message::Close(frame) => {
                    let _ = self.codes.send(frame.map(|frame| frame.code.into()));
                    continue;
                }
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            let request: serde_json::Value = serde_json::from_str(&payload).expect("JSON");
            if self.answer(&mut socket, &request).await.is_none() {
                return;
            }
        }
    }

    /// None when the connection is to be dropped.
    async fn answer(
        &self,
        socket: &mut WebSocketStream<TcpStream>,
        request: &serde_json::Value,
    ) -> Option<()> {
        let Some(id) = request.get("id") else { return Some(()) };
        let body = match request["method"].as_str().expect("a method") {
            "initialize" => {
                self.initialized.fetch_add(1, Ordering::Relaxed);
                serde_json::json!({"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "ws", "version": "1"}}})
            }
            "tools/list" => {
                serde_json::json!({"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}})
            }
            "tools/call" => {
                let call = self.calls.fetch_add(1, Ordering::Relaxed);
                match self.does.get(call).copied().unwrap_or(Does::Answer) {
                    Does::Answer => {}
                    Does::Ping => socket.send(Message::Ping(Bytes::from_static(b"p"))).await.ok()?,
                    Does::Cut => return None,
                    Does::Close(code) => {
                        let frame = CloseFrame { code: code.into(), reason: "".into() };
                        socket.close(Some(frame)).await.ok()?;
                        return Some(());
                    }
                }
                serde_json::json!({"result": {"content": [{"type": "text", "text": "hello"}]}})
            }
            _ => serde_json::json!({"error": {"code": -32601, "message": "Method not found"}}),
        };
        let mut reply = serde_json::json!({"jsonrpc": "2.0", "id": id});
        reply.as_object_mut().expect("an object").extend(body.as_object().expect("an object").clone());
        socket.send(self.frames.message(&reply)).await.ok()
    }
}

async fn board(url: &str, kind: RemoteKind) -> Board {
    let spec = HttpSpec { url: url.to_owned(), kind, ..HttpSpec::default() };
    Board::builder().server(ServerSpec::new("case", TransportSpec::Http(spec))).build().await.expect("builds")
}

async fn play(case: &Case<WebSocketInput, WebSocketExpect>, frames: Frames) {
    let id = &case.id;
    let calls = case.input.steps.iter().filter(|step| step.call.is_some());
    let does = calls.map(|step| Does::of_words(step.server_does.as_deref())).collect();
    let mut server = Server::start(frames, does).await;
    let board = board(&server.url, RemoteKind::WebSocket).await;
    let handle = board.server("case").expect("admitted");
    let begun = Instant::now();
    let mut outcomes = Vec::new();
    let mut first_call = None;
    for step in &case.input.steps {
        let Step { connect, call, server_does: _, until, close } = step;
        if connect.is_some() {
            handle.connect(Some(BOUND)).await.unwrap_or_else(|error| panic!("{id}: {error}"));
        } else if let Some(tool) = call {
            let started = Instant::now();
            let answer = timeout(BOUND, handle.call_tool(tool, "{}", CallOptions::default())).await;
            outcomes.push(if answer.unwrap_or_else(|_| panic!("{id}: hangs")).is_ok() {
                "ok"
            } else {
                "error"
            });
            first_call.get_or_insert(started.elapsed());
        } else if let Some(state) = until {
            assert_eq!(state, "connected", "{id}");
            handle.connect(Some(BOUND)).await.unwrap_or_else(|error| panic!("{id}: {error}"));
        } else if close.is_some() {
            board.close().await;
        } else {
            panic!("{id}: a step without a meaning");
        }
    }
    let expect = &case.expect;
    assert_eq!(outcomes, expect.outcomes, "{id} {frames:?}");
    if let Some(close) = &expect.close_frame {
        assert_eq!(close.from, "client", "{id}");
        let code = timeout(BOUND, server.codes.recv()).await.expect("in time").expect("serves");
        assert!(code.is_some_and(|code| close.code.r#in.contains(&code)), "{id} {frames:?}: {code:?}");
    }
    let is_within = |took: Duration, limit: Option<u64>| {
        assert!(limit.is_none_or(|limit| took <= Duration::from_millis(limit)), "{id} {frames:?}: {took:?}");
    };
    is_within(begun.elapsed(), expect.within_ms);
    is_within(first_call.unwrap_or_default(), expect.first_call_within_ms);
    if let Some(wanted) = expect.initialize_requests {
        assert_eq!(server.shared.initialized.load(Ordering::Relaxed), wanted, "{id} {frames:?}");
    }
    board.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn cases_of_kind_websocket() {
    for case in cases("websocket") {
        for frames in [Frames::Text, Frames::Binary] {
            play(&case, frames).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn whatever_the_close_code_of_a_server_its_call_fails_and_the_next_one_is_served() {
    for code in [1000, 1001, 1008, 1011, 1012, 4000] {
        let step = |text: &str| serde_json::from_str(text).expect("a step");
        let broken = format!(r#"{{"call": "echo", "server_does": "sends a close frame with code {code}"}}"#);
        let steps = vec![
            step(r#"{"connect": true}"#),
            step(&broken),
            step(r#"{"until": "connected"}"#),
            step(r#"{"call": "echo"}"#),
        ];
        let expect = serde_json::json!({"outcomes": ["error", "ok"], "first_call_within_ms": 3000, "initialize_requests": 2});
        let case = Case {
            id: format!("close-{code}"),
            input: WebSocketInput { steps },
            expect: serde_json::from_value(expect).expect("expectations"),
        };
        play(&case, Frames::Text).await;
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkInput {
    url: String,
    /// Whatever the resolver says, in whatever order: these are the addresses that `localhost` may have.
    localhost_resolves_to: Vec<std::net::IpAddr>,
    listen: std::net::IpAddr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkExpect {
    connects: bool,
    within_ms: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn cases_of_kind_network() {
    for case in cases::<NetworkInput, NetworkExpect>("network") {
        let (id, input) = (&case.id, &case.input);
        assert!(input.localhost_resolves_to.iter().all(std::net::IpAddr::is_loopback), "{id}");
        let Ok(listener) = TcpListener::bind((input.listen, 0)).await else {
            eprintln!("{id}: {} is not to be had here", input.listen);
            continue;
        };
        let port = listener.local_addr().expect("bound").port();
        let server = tokio::spawn(serve_http(listener));
        let board = board(&input.url.replace("{port}", &port.to_string()), RemoteKind::Streamable).await;
        let begun = Instant::now();
        let connected = board.server("case").expect("admitted").connect(Some(BOUND)).await;
        assert_eq!(connected.is_ok(), case.expect.connects, "{id}: {connected:?}");
        let took = begun.elapsed();
        assert!(took <= Duration::from_millis(case.expect.within_ms), "{id}: {took:?}");
        board.close().await;
        server.abort();
    }
}

/// A server of 2025-11-25 without tools, one request to a connection.
async fn serve_http(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = Vec::new();
        let body = loop {
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                break None;
            }
            let text = String::from_utf8_lossy(&request);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                break Some(body.to_owned());
            }
        };
        let asked: serde_json::Value = serde_json::from_str(&body.unwrap_or_default()).unwrap_or_default();
        let (status, reply) = match (asked["method"].as_str(), asked.get("id")) {
            (Some("initialize"), Some(id)) => {
                let result = serde_json::json!({"protocolVersion": "2025-11-25", "capabilities": {},
                    "serverInfo": {"name": "http", "version": "1"}});
                (200, serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
            }
            (Some(_), Some(id)) => {
                let error = serde_json::json!({"code": -32601, "message": "Method not found"});
                (200, serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
            }
            (Some(_), None) => (202, String::new()),
            (None, _) => (405, String::new()),
        };
        let length = reply.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let _ = stream.write_all((head + &reply).as_bytes()).await;
    }
}
