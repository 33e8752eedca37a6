//! One server over streamable HTTP: sessions, JSON or event streams as answers, and its faults.

use crate::answer::{Call, Deed, Manner, deed};
use crate::request::{self, Request};
use callboard_tests::ledger::{Entry, Ledger};
use parking::Guarded;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Sessions that one server remembers; of more the eldest are forgotten.
const SESSIONS_MAX: usize = 64;

/// How a server stands towards new requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Good,
    /// 503, with the seconds of its `Retry-After`.
    Unavailable(u64),
    /// Bad manners, one after the other.
    Garbage,
}

/// What becomes of the connections that are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Closed,
    Reset,
}

/// One server.
pub(crate) struct Server {
    number: u32,
    ledger: Arc<Ledger>,
    address: SocketAddr,
    sessions: Guarded<BTreeSet<u64>>,
    sessions_begun: AtomicU64,
    answers: AtomicU64,
    mood: Guarded<(Mood, Instant)>,
    cut: watch::Sender<Cut>,
    listens: watch::Sender<bool>,
}

impl Server {
    /// Binds a port of loopback, which stays its own from then on.
    pub(crate) fn bind(number: u32, ledger: Arc<Ledger>) -> io::Result<(Arc<Server>, TcpSocket)> {
        let socket = bound((Ipv4Addr::LOCALHOST, 0).into())?;
        let server = Server {
            number,
            ledger,
            address: socket.local_addr()?,
            sessions: Guarded::default(),
            sessions_begun: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            mood: Guarded::new((Mood::Good, Instant::now())),
            cut: watch::Sender::new(Cut::Closed),
            listens: watch::Sender::new(true),
        };
        Ok((Arc::new(server), socket))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resets every open connection.
    pub(crate) fn reset(&self) {
        self.cut.send_replace(Cut::Reset);
    }

    /// Knows no session any more.
    pub(crate) fn forget(&self) {
        self.sessions.with(BTreeSet::clear);
    }

    pub(crate) fn be(&self, mood: Mood, time: Duration) {
        self.mood.with(|known| *known = (mood, Instant::now() + time));
    }

    /// Closes every connection and its port, or opens it again.
    pub(crate) fn listen(&self, listens: bool) {
        if !listens {
            self.cut.send_replace(Cut::Closed);
        }
        self.listens.send_replace(listens);
    }

    fn mood(&self) -> Mood {
        let (mood, until) = self.mood.with(|mood| *mood);
        if Instant::now() < until { mood } else { Mood::Good }
    }

    fn begin_session(&self) -> u64 {
        let session = self.sessions_begun.fetch_add(1, Ordering::Relaxed);
        self.sessions.with(|sessions| {
            sessions.insert(session);
            if sessions.len() > SESSIONS_MAX {
                sessions.pop_first();
            }
        });
        session
    }

    fn knows(&self, request: &Request) -> bool {
        let session = request.session.as_deref().and_then(|session| session.parse().ok());
        session.is_some_and(|session| self.sessions.with(|sessions| sessions.contains(&session)))
    }
}

/// A port that nobody else gets, and at which nobody is heard yet.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Listens whenever it may.
pub(crate) async fn run(server: Arc<Server>, mut socket: TcpSocket) -> io::Result<()> {
    let mut listens = server.listens.subscribe();
    loop {
        let _ = listens.wait_for(|listens| *listens).await;
        let listener = socket.listen(256)?;
        accept(&server, &listener, &mut listens).await;
        drop(listener);
        socket = bound(server.address)?;
    }
}

async fn accept(server: &Arc<Server>, listener: &TcpListener, listens: &mut watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = until_deaf(listens) => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => drop(connections.spawn(connection(server.clone(), socket))),
                Err(_) => tokio::task::yield_now().await,
            },
        }
    }
}

async fn until_deaf(listens: &mut watch::Receiver<bool>) {
    let _ = listens.wait_for(|listens| !*listens).await;
}

async fn connection(server: Arc<Server>, mut socket: TcpStream) {
    let _ = socket.set_nodelay(true);
    let mut cut = server.cut.subscribe();
    let cut = tokio::select! {
        biased;
        _ = cut.changed() => *cut.borrow(),
        _ = requests(&server, &mut socket) => Cut::Closed,
    };
    if cut == Cut::Reset {
        let _ = socket.set_zero_linger();
    }
}

/// Answers one request after the other, until one of them ends the connection.
async fn requests(server: &Server, socket: &mut TcpStream) -> Option<()> {
    let mut buffer = Vec::new();
    loop {
        let request = request::next(socket, &mut buffer).await?;
        if let Mood::Unavailable(seconds) = server.mood() {
            send(socket, "503 Service Unavailable", &format!("Retry-After: {seconds}\r\n"), b"busy").await?;
            continue;
        }
        match request.method.as_str() {
            "POST" => post(server, socket, &request).await?,
            // Some servers have nothing to say of themselves.
            "GET" if server.number % 4 == 3 => send(socket, "405 Method Not Allowed", "", b"").await?,
            _ if !server.knows(&request) => send(socket, "404 Not Found", "", b"no such session").await?,
            "GET" => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
                socket.write_all(head.as_bytes()).await.ok()?;
                let _ = socket.read(&mut [0]).await;
                return None;
            }
            _ => send(socket, "200 OK", "", b"").await?,
        }
    }
}

async fn post(server: &Server, socket: &mut TcpStream, request: &Request) -> Option<()> {
    let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
        return send(socket, "400 Bad Request", "", b"no JSON").await;
    };
    let is_first = message["method"] == "initialize";
    if !is_first && !server.knows(request) {
        return send(socket, "404 Not Found", "", b"no such session").await;
    }
    match deed(&message) {
        Deed::Nothing => send(socket, "202 Accepted", "", b"").await,
        Deed::Answer(answer) => {
            let session = match is_first {
                true => format!("Mcp-Session-Id: {}\r\n", server.begin_session()),
                false => String::new(),
            };
            let head = format!("Content-Type: application/json\r\n{session}");
            send(socket, "200 OK", &head, answer.to_string().as_bytes()).await
        }
        Deed::Call(call) => {
            server.ledger.performs(Entry { call: call.number, server: server.number }).ok()?;
            tokio::time::sleep(call.wait).await;
            answer(server, socket, &call).await
        }
    }
}

/// Answers a call that was performed.
async fn answer(server: &Server, socket: &mut TcpStream, call: &Call) -> Option<()> {
    let turn = server.answers.fetch_add(1, Ordering::Relaxed) as usize;
    let manner = match server.mood() {
        Mood::Garbage => Manner::BAD[turn % Manner::BAD.len()],
        Mood::Good | Mood::Unavailable(_) => call.manner,
    };
    let text = call.answered(manner).to_string();
    let json = "Content-Type: application/json\r\n";
    match manner {
        Manner::Noise => {
            let page = b"<!doctype html><title>Oops</title>";
            send(socket, "200 OK", "Content-Type: text/html\r\n", page).await
        }
        Manner::Cut => {
            let head = format!("HTTP/1.1 200 OK\r\n{json}Content-Length: {}\r\n\r\n", text.len());
            socket.write_all(format!("{head}{}", &text[..text.len() / 2]).as_bytes()).await.ok()?;
            None
        }
        // Every second server answers with a stream of one event.
        Manner::Well | Manner::WrongId | Manner::Hollow if server.number % 2 == 1 => {
            let event = format!("event: message\ndata: {text}\n\n");
            send(socket, "200 OK", "Content-Type: text/event-stream\r\n", event.as_bytes()).await
        }
        Manner::Well | Manner::WrongId | Manner::Hollow => {
            send(socket, "200 OK", json, text.as_bytes()).await
        }
    }
}

async fn send(socket: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> Option<()> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    socket.write_all(&bytes).await.ok()
}

/// A lock that is never held longer than one look.
mod parking {
    use std::sync::{Mutex, PoisonError};

    #[derive(Debug, Default)]
    pub(super) struct Guarded<T>(Mutex<T>);

    impl<T> Guarded<T> {
        pub(super) fn new(value: T) -> Guarded<T> {
            Guarded(Mutex::new(value))
        }

        pub(super) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
            look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }
}
