//! A scripted HTTP/1.1 peer on loopback, and the client's side of a link to it.
#![allow(dead_code, missing_docs, unreachable_pub)]

use callboard_core::port::{
    Authenticator, CallActivity, CloseReason, DialRequest, Exchange, Generation, HttpSpec, InFrame, Link,
    LinkCloser, Negotiated, ReceiveHalf, SendHalf, ServerSpec, StderrFeed, TransportSpec,
};
use callboard_core::settings::Settings;
use callboard_protocol::{ProtocolVersion, Reply, ReplyBody, Secret};
use callboard_transports::Network;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

/// No test may take longer.
pub const BOUND: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
    pub connection: usize,
    pub at: Instant,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub fn is(&self, method: &str) -> bool {
        self.method == method
    }

    pub fn calls(&self, method: &str) -> bool {
        self.body.contains(&format!("\"method\":\"{method}\""))
    }

    /// Our id in the body.
    pub fn id(&self) -> u64 {
        callboard_protocol::recover_id(self.body.replace("\"method\"", "\"m\"").as_bytes()).unwrap_or(0)
    }
}

/// What the peer does with a request, in order.
pub enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    Until(Arc<Notify>),
    /// Nothing more until the client closes the connection.
    Hold,
    Close,
    Reset,
}

pub fn respond(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    vec![Step::Send(head.into_bytes())]
}

pub fn json(body: &str) -> Vec<Step> {
    respond("200", "Content-Type: application/json\r\n", body)
}

pub fn result(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"of":{id}}}}}"#)
}

pub fn note(name: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{name}"}}"#)
}

pub fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// The head of an event stream.
pub fn stream() -> Step {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    Step::Send(head.into())
}

pub fn chunk(text: &str) -> Step {
    Step::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

pub fn end() -> Step {
    Step::Send(b"0\r\n\r\n".to_vec())
}

/// An event stream that ends.
pub fn events(text: &str) -> Vec<Step> {
    vec![stream(), chunk(text), end()]
}

pub struct Peer {
    pub url: String,
    pub requests: Arc<Mutex<Vec<Request>>>,
    count: watch::Receiver<usize>,
    closed: watch::Receiver<usize>,
    task: tokio::task::JoinHandle<()>,
}

type Script = Arc<dyn Fn(&Request) -> Vec<Step> + Send + Sync>;

struct Served {
    requests: Arc<Mutex<Vec<Request>>>,
    count: watch::Sender<usize>,
    /// Connections that the client closed.
    closed: watch::Sender<usize>,
    script: Script,
}

impl Peer {
    pub async fn start(script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let (count_sender, count) = watch::channel(0);
        let (closed_sender, closed) = watch::channel(0);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let served = Arc::new(Served {
            requests: requests.clone(),
            count: count_sender,
            closed: closed_sender,
            script: Arc::new(script),
        });
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            for connection in 0.. {
                let Ok((socket, _)) = listener.accept().await else { return };
                connections.spawn(serve(socket, connection, served.clone()));
            }
        });
        Peer { url, requests, count, closed, task }
    }

    pub fn seen(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }

    pub fn seen_by(&self, method: &str) -> Vec<Request> {
        self.seen().into_iter().filter(|request| request.is(method)).collect()
    }

    /// Waits until so many requests have come in all.
    pub async fn until_requests(&self, wanted: usize) {
        let mut count = self.count.clone();
        timeout(BOUND, count.wait_for(|count| *count >= wanted)).await.expect("in time").expect("serves");
    }

    /// Waits until the client has closed so many connections.
    pub async fn until_closed(&self, wanted: usize) {
        let mut closed = self.closed.clone();
        timeout(BOUND, closed.wait_for(|count| *count >= wanted)).await.expect("in time").expect("serves");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut socket: TcpStream, connection: usize, served: Arc<Served>) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut socket, &mut buffer, connection).await {
        let steps = (served.script)(&request);
        served.requests.lock().expect("no panic").push(request);
        served.count.send_modify(|count| *count += 1);
        for step in steps {
            match step {
                Step::Send(bytes) => {
                    if socket.write_all(&bytes).await.is_err() {
                        served.closed.send_modify(|count| *count += 1);
                        return;
                    }
                }
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Until(notify) => notify.notified().await,
                Step::Hold => {
                    let _ = socket.read(&mut [0]).await;
                    served.closed.send_modify(|count| *count += 1);
                    return;
                }
                Step::Close => return,
                Step::Reset => {
                    // Closing a socket with unread bytes, or with a linger of zero, resets it.
                    let _ = socket.set_zero_linger();
                    return;
                }
            }
        }
    }
    served.closed.send_modify(|count| *count += 1);
}

async fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> Option<Request> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a number"));
    while buffer.len() < head_end + length {
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&buffer[head_end..head_end + length]).into_owned();
    buffer.drain(..head_end + length);
    Some(Request { method, path, headers, body, connection, at: Instant::now() })
}

/// Counts signs of life.
#[derive(Default)]
pub struct Activity(pub AtomicUsize);

impl CallActivity for Activity {
    fn active(&self, _: u64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub struct Client {
    pub send: SendHalf,
    pub receive: Box<dyn ReceiveHalf>,
    pub closer: Option<Box<dyn LinkCloser>>,
    pub activity: Arc<Activity>,
}

pub type Answer = Pin<Box<dyn Future<Output = Result<Reply, CloseReason>> + Send>>;

/// A request to dial an entry.
pub fn request(
    spec: &HttpSpec,
    authenticator: Option<Arc<dyn Authenticator>>,
    set: impl FnOnce(&mut Settings),
) -> DialRequest {
    let mut settings = Settings::default();
    set(&mut settings);
    let entry = ServerSpec::new("peer", TransportSpec::Http(spec.clone()));
    DialRequest {
        server: callboard_policy::admit::admit([entry]).admitted.remove(0),
        generation: Generation(1),
        deadline: Instant::now() + BOUND,
        settings: Arc::new(settings),
        authenticator,
        stderr: StderrFeed::default(),
    }
}

/// The direct way, whatever the variables of this process say.
pub fn network() -> Arc<Network> {
    Arc::new(Network::default())
}

/// A JSON-RPC request.
pub fn call(id: u64, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#)
}

impl Client {
    pub async fn dial(url: &str) -> Client {
        Client::dial_with(HttpSpec { url: url.into(), ..HttpSpec::default() }, |_| {}).await.expect("dials")
    }

    pub async fn dial_with(spec: HttpSpec, set: impl FnOnce(&mut Settings)) -> Result<Client, CloseReason> {
        Client::dial_as(spec, None, set).await
    }

    pub async fn dial_as(
        spec: HttpSpec,
        authenticator: Option<Arc<dyn Authenticator>>,
        set: impl FnOnce(&mut Settings),
    ) -> Result<Client, CloseReason> {
        let request = request(&spec, authenticator, set);
        let Link { send, receive, closer, .. } =
            callboard_transports::http::dial_http(request, &spec, &network()).await?;
        Ok(Client { send, receive, closer: Some(closer), activity: Arc::default() })
    }

    /// A link over HTTP+SSE.
    pub async fn dial_sse(spec: HttpSpec, set: impl FnOnce(&mut Settings)) -> Result<Client, CloseReason> {
        let request = request(&spec, None, set);
        let Link { send, receive, closer, .. } =
            callboard_transports::dial_sse(request, &spec, &network()).await?;
        Ok(Client { send, receive, closer: Some(closer), activity: Arc::default() })
    }

    /// A link over WebSocket.
    pub async fn dial_websocket(
        spec: HttpSpec,
        set: impl FnOnce(&mut Settings),
    ) -> Result<Client, CloseReason> {
        let request = request(&spec, None, set);
        let Link { send, receive, closer, .. } =
            callboard_transports::dial_websocket(request, &spec, &network()).await?;
        Ok(Client { send, receive, closer: Some(closer), activity: Arc::default() })
    }

    /// Sends over a duplex link.
    pub fn put(&self, frame: &str) -> Result<(), CloseReason> {
        let SendHalf::Duplex(send) = &self.send else { panic!("not duplex") };
        send.send(frame.as_bytes())
    }

    /// The next message, which is the result that [`result`] makes for this id.
    pub async fn receives_result(&mut self, id: u64) {
        match self.receive().await {
            Ok(InFrame::Frame(callboard_protocol::Frame::Reply(reply))) => is_result(Ok(reply), id),
            other => panic!("{other:?}"),
        }
    }

    /// Reads to the end of the link.
    pub async fn end(&mut self) -> CloseReason {
        loop {
            if let Err(reason) = self.receive().await {
                return reason;
            }
        }
    }

    /// A link that has been through the legacy handshake.
    pub async fn legacy(url: &str) -> Client {
        let client = Client::dial(url).await;
        client.initialize().await;
        client
    }

    pub async fn initialize(&self) {
        let reply = self.ask(1, "initialize").await.expect("initializes");
        assert!(matches!(reply.body, ReplyBody::Result(_)), "{reply:?}");
        self.negotiated(ProtocolVersion::V2025_11_25);
    }

    /// A link that speaks the modern era.
    pub async fn modern(url: &str) -> Client {
        let client = Client::dial(url).await;
        client.negotiated(ProtocolVersion::V2026_07_28);
        client
    }

    pub fn negotiated(&self, version: ProtocolVersion) {
        let negotiated = Negotiated { version, era: version.era() };
        match &self.send {
            SendHalf::Exchange(send) => send.negotiated(&negotiated),
            SendHalf::Duplex(send) => send.negotiated(&negotiated),
        }
    }

    pub fn start(&self, id: u64, method: &str) -> Answer {
        self.start_with(id, method, &[], false)
    }

    pub fn start_with(&self, id: u64, method: &str, headers: &[(&str, &str)], is_listen: bool) -> Answer {
        let SendHalf::Exchange(send) = &self.send else { panic!("no exchanges") };
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let frame = call(id, method);
        send.exchange(Exchange {
            id,
            frame: frame.into(),
            headers,
            activity: self.activity.clone(),
            is_listen,
            may_ask_back: false,
        })
    }

    pub async fn ask(&self, id: u64, method: &str) -> Result<Reply, CloseReason> {
        timeout(BOUND, self.start(id, method)).await.expect("in time")
    }

    /// Asks and expects the result that [`result`] makes.
    pub async fn asks_well(&self, id: u64) {
        is_result(self.ask(id, "tools/call").await, id);
    }

    pub async fn fails(&self, id: u64) -> CloseReason {
        self.ask(id, "tools/call").await.expect_err("fails")
    }

    pub async fn notify(&self, method: &str) -> Result<(), CloseReason> {
        let SendHalf::Exchange(send) = &self.send else { panic!("no exchanges") };
        timeout(BOUND, send.notify(note(method).into(), vec![])).await.expect("in time")
    }

    pub async fn receive(&mut self) -> Result<InFrame, CloseReason> {
        timeout(BOUND, poll_fn(|cx| self.receive.poll_receive(cx))).await.expect("in time")
    }

    /// Watches the link for a while in which nothing may come in.
    pub async fn stays_quiet(&mut self, time: Duration) {
        let received = timeout(time, poll_fn(|cx| self.receive.poll_receive(cx))).await;
        assert!(received.is_err(), "{received:?}");
    }

    /// The method of the next message, which is a notification.
    pub async fn receive_note(&mut self) -> String {
        match self.receive().await {
            Ok(InFrame::Frame(callboard_protocol::Frame::Notification(note))) => note.method,
            other => panic!("{other:?}"),
        }
    }

    pub async fn close(&mut self) {
        let closer = self.closer.take().expect("not closed before");
        timeout(BOUND, closer.close()).await.expect("in time");
    }
}

pub fn is_result(answer: Result<Reply, CloseReason>, id: u64) {
    let reply = answer.unwrap_or_else(|reason| panic!("{id}: {reason}"));
    assert_eq!(reply.id.own(), Some(id));
    let ReplyBody::Result(raw) = reply.body else { panic!("{:?}", reply.body) };
    assert_eq!(raw, format!(r#"{{"of":{id}}}"#));
}

/// Answers `initialize` with a session, acknowledges notifications, and leaves the rest to `script`.
pub fn legacy_server(
    script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
) -> impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static {
    move |request| {
        if request.calls("initialize") {
            let headers = "Content-Type: application/json\r\nMcp-Session-Id: S-1\r\n";
            return respond("200", headers, &result(request.id()));
        }
        if request.is("POST") && !request.body.contains("\"id\":") {
            return respond("202", "", "");
        }
        script(request)
    }
}

pub fn no_get(request: &Request) -> Option<Vec<Step>> {
    (!request.is("POST")).then(|| respond("405", "", ""))
}

pub fn with_header(name: &str, value: &str, url: &str) -> HttpSpec {
    HttpSpec { url: url.into(), headers: vec![(name.into(), Secret::new(value))], ..HttpSpec::default() }
}
