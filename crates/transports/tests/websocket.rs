//! WebSocket: the opening handshake, messages of both kinds, and every way to end.
#![allow(clippy::result_large_err, reason = "the library's callback returns a whole response")]

mod peer;

use callboard_core::port::{CloseReason, HttpSpec, InFrame, IoKind, RemoteKind, Unreachable};
use callboard_protocol::{Frame, ReplyBody, Secret};
use futures_util::{SinkExt, StreamExt};
use peer::{BOUND, Client, Peer, call, note, respond, result};
use std::future::Future;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderMap;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as RawFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message};

type Socket = WebSocketStream<TcpStream>;

/// A server for one connection.
struct Server {
    url: String,
    headers: oneshot::Receiver<HeaderMap>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start<F: Future<Output = ()> + Send>(
        script: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("ws://{}/message", listener.local_addr().expect("bound"));
        let (tell, headers) = oneshot::channel();
        let task = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("accepts");
            let callback = move |request: &Request, mut response: Response| {
                if let Some(offered) = request.headers().get("sec-websocket-protocol") {
                    response.headers_mut().insert("sec-websocket-protocol", offered.clone());
                }
                tell.send(request.headers().clone()).expect("is awaited");
                Ok(response)
            };
            let socket = tokio_tungstenite::accept_hdr_async(stream, callback).await.expect("upgrades");
            script(socket).await;
        });
        Server { url, headers, task }
    }

    async fn dial(&self) -> Client {
        self.dial_with(usize::MAX).await
    }

    async fn dial_with(&self, frame_bytes_max: usize) -> Client {
        let set = |settings: &mut callboard_core::settings::Settings| {
            if frame_bytes_max != usize::MAX {
                settings.wire_frame_bytes_max = frame_bytes_max;
            }
        };
        Client::dial_websocket(spec(&self.url), set).await.expect("dials")
    }

    /// Waits for the end of the script; its panics are the test's.
    async fn ends(self) {
        timeout(BOUND, self.task).await.expect("in time").expect("no panic");
    }
}

fn spec(url: &str) -> HttpSpec {
    let headers = vec![("X-Key".to_owned(), Secret::new("k"))];
    HttpSpec { url: url.into(), headers, kind: RemoteKind::WebSocket, ..HttpSpec::default() }
}

async fn refused(url: &str) -> CloseReason {
    Client::dial_websocket(spec(url), |_| {}).await.err().expect("refused")
}

async fn next(socket: &mut Socket) -> Message {
    timeout(BOUND, socket.next()).await.expect("in time").expect("open").expect("valid")
}

/// Reads the client's goodbye: its code.
async fn goodbye(socket: &mut Socket) -> Option<u16> {
    loop {
        if let Message::Close(frame) = next(socket).await {
            return frame.map(|frame| frame.code.into());
        }
    }
}

#[tokio::test]
async fn text_and_binary_messages_are_frames_and_batches_come_apart() {
    let server = Server::start(|mut socket| async move {
        let asked = next(&mut socket).await;
        assert_eq!(asked, Message::Text(call(2, "tools/call").into()));
        socket.send(Message::Binary(result(2).into())).await.expect("sends");
        socket.send(Message::Text(note("one").into())).await.expect("sends");
        let batch = format!("[{},{}]", note("two"), result(3));
        socket.send(Message::Text(batch.into())).await.expect("sends");
        goodbye(&mut socket).await;
    })
    .await;
    let mut client = server.dial().await;
    client.put(&call(2, "tools/call")).expect("is taken");
    client.receives_result(2).await;
    assert_eq!(client.receive_note().await, "one");
    assert_eq!(client.receive_note().await, "two");
    client.receives_result(3).await;
    client.close().await;
    server.ends().await;
}

#[tokio::test]
async fn the_subprotocol_is_offered_and_the_headers_of_the_entry_go_along() {
    let mut server = Server::start(|mut socket| async move {
        goodbye(&mut socket).await;
    })
    .await;
    let mut client = server.dial().await;
    let headers = (&mut server.headers).await.expect("upgraded");
    for (name, value) in [("sec-websocket-protocol", "mcp"), ("x-key", "k"), ("accept", "*/*")] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(!headers.contains_key("content-type"));
    client.close().await;
    server.ends().await;
}

#[tokio::test]
async fn a_ping_is_answered() {
    let server = Server::start(|mut socket| async move {
        socket.send(Message::Ping(Bytes::from_static(b"p"))).await.expect("sends");
        assert_eq!(next(&mut socket).await, Message::Pong(Bytes::from_static(b"p")));
        socket.send(Message::Text(note("answered").into())).await.expect("sends");
        goodbye(&mut socket).await;
    })
    .await;
    let mut client = server.dial().await;
    assert_eq!(client.receive_note().await, "answered");
    client.close().await;
    server.ends().await;
}

#[tokio::test]
async fn the_client_says_goodbye_with_1000_after_what_waited() {
    let server = Server::start(|mut socket| async move {
        assert_eq!(next(&mut socket).await, Message::Text(note("last words").into()));
        assert_eq!(goodbye(&mut socket).await, Some(1000));
    })
    .await;
    let mut client = server.dial().await;
    client.put(&note("last words")).expect("is taken");
    client.close().await;
    assert!(matches!(client.end().await, CloseReason::Cancelled));
    assert!(matches!(client.put(&call(2, "tools/call")), Err(CloseReason::Cancelled)));
    server.ends().await;
}

#[tokio::test]
async fn a_server_that_ignores_the_goodbye_is_waited_for_a_second() {
    let (done, over) = oneshot::channel::<()>();
    let server = Server::start(|socket| async move {
        let _ = over.await;
        drop(socket);
    })
    .await;
    let mut client = server.dial().await;
    let started = Instant::now();
    client.close().await;
    let took = started.elapsed();
    assert!(took.as_millis() >= 900 && took.as_secs() < 5, "{took:?}");
    done.send(()).expect("waits");
    server.ends().await;
}

#[tokio::test]
async fn the_close_code_of_the_server_is_in_the_reason() {
    let server = Server::start(|mut socket| async move {
        let frame = CloseFrame { code: CloseCode::Restart, reason: "deploy\u{7}ing".into() };
        socket.close(Some(frame)).await.expect("sends");
        assert_eq!(goodbye(&mut socket).await, Some(1012), "it is answered");
    })
    .await;
    let mut client = server.dial().await;
    let reason = client.end().await;
    assert!(matches!(reason, CloseReason::Io { kind: IoKind::Closed, .. }), "{reason:?}");
    assert_eq!(reason.to_string(), "closed by the server: WebSocket close code 1012: deploying");
    assert!(client.put(&call(2, "tools/call")).is_err());
    client.close().await;
    server.ends().await;
}

#[tokio::test]
async fn a_cut_with_a_call_pending_ends_the_link() {
    let server = Server::start(|mut socket| async move { drop(next(&mut socket).await) }).await;
    let mut client = server.dial().await;
    client.put(&call(2, "tools/call")).expect("is taken");
    let reason = client.end().await;
    assert!(matches!(reason, CloseReason::Io { kind: IoKind::Reset, .. }), "{reason:?}");
    server.ends().await;
}

#[tokio::test]
async fn a_message_over_the_limit_fails_its_call_and_the_link_lives() {
    let server = Server::start(|mut socket| async move {
        let large = format!(r#"{{"jsonrpc":"2.0","id":2,"result":"{}"}}"#, "ä".repeat(100_000));
        socket.send(Message::Text(large.clone().into())).await.expect("sends");
        socket.send(Message::Text(result(3).into())).await.expect("sends");
        for (part, is_last) in [(large.as_bytes(), false), (b"x".as_slice(), true)] {
            let opcode = if is_last { Data::Continue } else { Data::Text };
            let frame = RawFrame::message(part.to_vec(), OpCode::Data(opcode), is_last);
            socket.send(Message::Frame(frame)).await.expect("sends");
        }
        socket.send(Message::Binary(result(4).into())).await.expect("sends");
        assert_eq!(goodbye(&mut socket).await, Some(1000));
    })
    .await;
    let mut client = server.dial_with(1_000).await;
    for id in [3, 4] {
        let cut = client.receive().await;
        assert!(matches!(cut, Ok(InFrame::TooLarge { id: Some(2), limit: 1_000 })), "{cut:?}");
        client.receives_result(id).await;
    }
    client.close().await;
    server.ends().await;
}

#[tokio::test]
async fn a_message_within_the_limit_may_come_in_parts_and_be_large() {
    let text = format!(r#"{{"jsonrpc":"2.0","id":2,"result":"{}"}}"#, "x".repeat(3 << 20));
    let sent = text.clone();
    let server = Server::start(|mut socket| async move {
        socket.send(Message::Text(sent.into())).await.expect("sends");
        goodbye(&mut socket).await;
    })
    .await;
    let mut client = server.dial().await;
    match client.receive().await {
        Ok(InFrame::Frame(Frame::Reply(reply))) => {
            assert!(matches!(reply.body, ReplyBody::Result(raw) if raw.len() == (3 << 20) + 2));
        }
        other => panic!("{other:?}"),
    }
    client.close().await;
    server.ends().await;
}

#[tokio::test]
async fn a_server_that_does_not_read_makes_the_outbox_full() {
    let (done, over) = oneshot::channel::<()>();
    let server = Server::start(|socket| async move {
        let _ = over.await;
        drop(socket);
    })
    .await;
    let client = server.dial_with(1_000).await;
    let frame = "x".repeat(900);
    let taken = (0..10).take_while(|_| client.put(&frame).is_ok()).count();
    assert_eq!(taken, 4, "four of the largest may wait");
    done.send(()).expect("waits");
    server.ends().await;
}

#[tokio::test]
async fn refusals_of_the_upgrade_are_read_as_over_http() {
    let ws = |peer: &Peer| peer.url.replace("http", "ws");
    let peer = Peer::start(|_| respond("401", "WWW-Authenticate: Bearer\r\n", "")).await;
    let reason = refused(&ws(&peer)).await;
    assert!(matches!(reason, CloseReason::AuthRequired { status: 401, .. }), "{reason:?}");
    let peer = Peer::start(|_| respond("503", "Retry-After: 3\r\n", "later")).await;
    let reason = refused(&ws(&peer)).await;
    assert!(matches!(reason, CloseReason::Status { status: 503, .. }), "{reason:?}");
    let peer = Peer::start(|_| respond("307", "Location: wss://u:p@other.example/\r\n", "")).await;
    let reason = refused(&ws(&peer)).await;
    assert!(
        matches!(&reason, CloseReason::Redirect { status: 307, location } if !location.contains("p@")),
        "{reason:?}"
    );
    let peer = Peer::start(|_| respond("200", "", "hello")).await;
    assert!(matches!(refused(&ws(&peer)).await, CloseReason::Protocol(_)));
    let answer = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n";
    let peer = Peer::start(|_| respond("101", answer, "")).await;
    assert!(matches!(refused(&ws(&peer)).await, CloseReason::Protocol(_)));
}

#[tokio::test]
async fn nobody_who_listens_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("ws://{}/", listener.local_addr().expect("bound"));
    drop(listener);
    let reason = refused(&url).await;
    assert!(matches!(reason, CloseReason::Unreachable { kind: Unreachable::Refused, .. }), "{reason:?}");
}

#[tokio::test]
async fn a_server_that_never_upgrades_is_given_up_at_the_deadline() {
    let peer = Peer::start(|_| vec![peer::Step::Hold]).await;
    let spec = spec(&peer.url.replace("http", "ws"));
    let mut request = peer::request(&spec, None, |_| {});
    request.deadline = Instant::now() + BOUND / 200;
    let reason =
        callboard_transports::dial_websocket(request, &spec, &peer::network()).await.err().expect("gives up");
    assert!(matches!(reason, CloseReason::ConnectTimedOut { .. }), "{reason:?}");
}
