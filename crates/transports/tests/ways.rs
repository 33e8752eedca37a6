//! The ways to a server: proxies, certificate authorities, Unix-domain sockets, editors, and peers that fall silent.
#![allow(clippy::result_large_err, reason = "the library's callback returns a whole response")]

mod front;
mod peer;

use callboard_core::port::{
    CloseReason, Dialer, HttpSpec, IdeSpec, IoKind, Link, RemoteKind, SendHalf, Unreachable,
};
use callboard_core::settings::Settings;
use callboard_protocol::Secret;
use callboard_transports::{InProcessServers, Network, Transports};
use front::{Proxy, Tls, authority};
use futures_util::{SinkExt, StreamExt};
use peer::{BOUND, Client, Peer, Request, Step, call, chunk, event, json, note, respond, result, stream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request as Upgrade, Response};
use tokio_tungstenite::tungstenite::http::HeaderMap;

/// Dials as the product does, with these surroundings.
async fn dial(
    kind: RemoteKind,
    url: &str,
    network: Network,
    set: impl FnOnce(&mut Settings),
) -> Result<Client, CloseReason> {
    dial_spec(HttpSpec { url: url.into(), kind, ..HttpSpec::default() }, network, set).await
}

async fn dial_spec(
    spec: HttpSpec,
    network: Network,
    set: impl FnOnce(&mut Settings),
) -> Result<Client, CloseReason> {
    let dialer = Transports::new(InProcessServers::default()).with_network(network);
    let dialed = timeout(BOUND, dialer.dial(peer::request(&spec, None, set))).await.expect("in time");
    let Link { send, receive, closer, .. } = dialed?;
    Ok(Client { send, receive, closer: Some(closer), activity: Arc::default() })
}

/// Answers POSTs with their result, and has an HTTP+SSE stream at any address.
async fn http_peer() -> Peer {
    let posted = Arc::new(Notify::new());
    Peer::start(move |request: &Request| {
        if request.is("GET") {
            let endpoint = "event: endpoint\ndata: /messages\n\n";
            let answer = chunk(&event(&result(2)));
            return vec![stream(), chunk(endpoint), Step::Until(posted.clone()), answer, Step::Hold];
        }
        posted.notify_one();
        match request.path.ends_with("/messages") {
            true => respond("202", "", ""),
            false => json(&result(request.id())),
        }
    })
    .await
}

/// A WebSocket server that answers every message with the result of call 2, and keeps the headers it was asked with.
struct WebSocket {
    address: String,
    headers: Arc<Mutex<Vec<HeaderMap>>>,
    task: tokio::task::JoinHandle<()>,
}

impl WebSocket {
    async fn start() -> WebSocket {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound").to_string();
        let headers = Arc::new(Mutex::new(Vec::new()));
        let seen = headers.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                answer(stream, &seen).await;
            }
        });
        WebSocket { address, headers, task }
    }
}

impl Drop for WebSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(stream: TcpStream, seen: &Mutex<Vec<HeaderMap>>) {
    let callback = |request: &Upgrade, mut response: Response| {
        if let Some(offered) = request.headers().get("sec-websocket-protocol") {
            response.headers_mut().insert("sec-websocket-protocol", offered.clone());
        }
        seen.lock().expect("no panic").push(request.headers().clone());
        Ok(response)
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, callback).await else { return };
    while let Some(Ok(message)) = socket.next().await {
        if message.is_text() {
            let _ = socket.send(Message::Text(result(2).into())).await;
        }
    }
}

/// One call over a link of either sort.
async fn works(mut client: Client) {
    match &client.send {
        SendHalf::Exchange(_) => client.asks_well(2).await,
        SendHalf::Duplex(_) => {
            client.put(&call(2, "tools/call")).expect("is taken");
            client.receives_result(2).await;
        }
    }
    client.close().await;
}

fn through(proxy: &Proxy) -> Network {
    let address = Some(format!("http://joe:secret@{}", proxy.address));
    Network { http_proxy: address.clone(), https_proxy: address, ..Network::default() }
}

/// `joe:secret`.
const CREDENTIALS: &str = "proxy-authorization: Basic am9lOnNlY3JldA==";

#[tokio::test]
async fn plain_http_and_its_streams_are_forwarded_by_a_proxy() {
    for kind in [RemoteKind::Streamable, RemoteKind::Sse] {
        let peer = http_peer().await;
        let proxy = Proxy::start(authority(&peer.url)).await;
        works(dial(kind, "http://server.test/mcp", through(&proxy), |_| {}).await.expect("dials")).await;
        let head = proxy.heads().remove(0);
        assert!(head.contains(" http://server.test/mcp HTTP/1.1"), "{head}");
        assert!(head.to_ascii_lowercase().contains(&CREDENTIALS.to_ascii_lowercase()), "{head}");
    }
}

#[tokio::test]
async fn a_plain_websocket_gets_a_tunnel_since_forwarding_drops_the_upgrade() {
    let server = WebSocket::start().await;
    let proxy = Proxy::start(server.address.clone()).await;
    let client = dial(RemoteKind::WebSocket, "ws://server.test:81/m", through(&proxy), |_| {}).await;
    works(client.expect("dials")).await;
    let head = proxy.heads().remove(0);
    assert!(head.starts_with("CONNECT server.test:81 HTTP/1.1\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains(&CREDENTIALS.to_ascii_lowercase()), "{head}");
    let headers = server.headers.lock().expect("no panic").remove(0);
    assert_eq!(headers["host"], "server.test:81");
    assert!(!headers.contains_key("proxy-authorization"), "the server learns no password of the proxy");
    let reason = dial(RemoteKind::WebSocket, "ws://refuse.test/", through(&proxy), |_| {}).await.err();
    assert!(
        matches!(&reason, Some(CloseReason::Unreachable { kind: Unreachable::Proxy, message }) if message.contains("403")),
        "{reason:?}"
    );
}

#[tokio::test]
async fn what_is_encrypted_goes_through_a_tunnel_and_is_checked_against_the_authority() {
    let (peer, socket) = (http_peer().await, WebSocket::start().await);
    for (kind, url, server) in [
        (RemoteKind::Streamable, "https://server.test/mcp", authority(&peer.url)),
        (RemoteKind::Sse, "https://server.test/sse", authority(&peer.url)),
        (RemoteKind::WebSocket, "wss://server.test/", socket.address.clone()),
    ] {
        let tls = Tls::start(server).await;
        let proxy = Proxy::start(tls.address.clone()).await;
        let file = pem(&tls);
        let trusting = Network { authorities_extra: Some(file.path.clone()), ..through(&proxy) };
        works(dial(kind, url, trusting, |_| {}).await.unwrap_or_else(|reason| panic!("{url}: {reason}")))
            .await;
        assert!(proxy.heads()[0].starts_with("CONNECT server.test:443 HTTP/1.1\r\n"), "{:?}", proxy.heads());
    }
}

#[tokio::test]
async fn no_proxy_is_honoured_and_loopback_is_no_exception_without_it() {
    let server = WebSocket::start().await;
    let peer = http_peer().await;
    for (kind, url) in [
        (RemoteKind::Streamable, peer.url.clone()),
        (RemoteKind::Sse, peer.url.clone()),
        (RemoteKind::WebSocket, format!("ws://{}/", server.address)),
    ] {
        let proxy = Proxy::start(authority(&url.replace("ws:", "http:"))).await;
        let exempt = Network { no_proxy: Some("localhost,127.0.0.1".into()), ..through(&proxy) };
        works(dial(kind, &url, exempt, |_| {}).await.expect("dials")).await;
        assert_eq!(proxy.heads(), [""; 0], "{url}");
        works(dial(kind, &url, through(&proxy), |_| {}).await.expect("dials")).await;
        assert!(!proxy.heads().is_empty(), "{url}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_gone_or_refuses_is_named_as_the_cause() {
    let proxy = Proxy::start("127.0.0.1:1".into()).await;
    let client = dial(RemoteKind::Streamable, "https://refuse.test/", through(&proxy), |_| {}).await;
    let reason = client.expect("sends nothing").fails(2).await;
    assert!(matches!(reason, CloseReason::Unreachable { kind: Unreachable::Proxy, .. }), "{reason:?}");
    let bad = Network { https_proxy: Some("ftp://proxy".into()), ..Network::default() };
    let reason = dial(RemoteKind::Streamable, "https://server.test/", bad, |_| {}).await.err();
    assert!(matches!(reason, Some(CloseReason::Unreachable { kind: Unreachable::Proxy, .. })), "{reason:?}");
}

/// A file of the authority's certificate, alone in its folder.
struct Pem {
    folder: tempfile::TempDir,
    path: PathBuf,
}

fn pem(tls: &Tls) -> Pem {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("authority.pem");
    std::fs::write(&path, &tls.pem).expect("writes");
    Pem { folder, path }
}

#[tokio::test]
async fn authorities_are_trusted_by_each_of_the_three_variables_and_not_without() {
    let (peer, socket) = (http_peer().await, WebSocket::start().await);
    for (kind, scheme, server) in [
        (RemoteKind::Streamable, "https", authority(&peer.url)),
        (RemoteKind::Sse, "https", authority(&peer.url)),
        (RemoteKind::WebSocket, "wss", socket.address.clone()),
    ] {
        let tls = Tls::start(server).await;
        let file = pem(&tls);
        let url = format!("{scheme}://{}/mcp", tls.address);
        for network in [
            Network { authorities_file: Some(file.path.clone()), ..Network::default() },
            Network { authorities_folders: vec![file.folder.path().into()], ..Network::default() },
            Network { authorities_extra: Some(file.path.clone()), ..Network::default() },
        ] {
            let client = dial(kind, &url, network.clone(), |_| {}).await;
            works(client.unwrap_or_else(|reason| panic!("{url} {network:?}: {reason}"))).await;
        }
        let reason = match dial(kind, &url, Network::default(), |_| {}).await {
            Ok(client) => client.fails(2).await,
            Err(reason) => reason,
        };
        assert!(matches!(reason, CloseReason::Unreachable { kind: Unreachable::Tls, .. }), "{reason:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_behind_a_socket_is_reached_whatever_the_proxies() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a demo.sock");
    let peer = http_peer().await;
    let _socket = front::Socket::start(&path, authority(&peer.url));
    let elsewhere = || {
        let nobody = Some("http://127.0.0.1:1".to_owned());
        Network { http_proxy: nobody.clone(), https_proxy: nobody, ..Network::default() }
    };
    for (kind, fragment, want) in [
        (RemoteKind::Streamable, "#/a?k=v", "/a?k=v"),
        (RemoteKind::Probe, "", "/mcp"),
        (RemoteKind::Sse, "", "/sse"),
    ] {
        let url = format!("unix://{}{fragment}", path.display());
        works(dial(kind, &url, elsewhere(), |_| {}).await.expect("dials")).await;
        assert!(peer.seen().iter().any(|request| request.path == want), "{url}");
    }
    assert!(peer.seen().iter().all(|request| request.header("host") == Some("localhost")));
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("unix://{}/none.sock", folder.path().display());
    let client = dial(RemoteKind::Streamable, &url, Network::default(), |_| {}).await.expect("sends nothing");
    for reason in [
        client.fails(2).await,
        dial(RemoteKind::Sse, &url, Network::default(), |_| {}).await.err().expect("refused"),
    ] {
        let CloseReason::Unreachable { kind: Unreachable::Refused, message } = &reason else {
            panic!("{reason:?}")
        };
        assert!(message.contains("none.sock: No such file"), "{message}");
    }
}

#[tokio::test]
async fn an_editor_is_given_its_token_over_both_transports() {
    let token = || {
        let auth_token = Some(Secret::new("token-1"));
        Some(IdeSpec { name: "Demo".into(), auth_token, ..IdeSpec::default() })
    };
    let peer = http_peer().await;
    let spec =
        HttpSpec { url: peer.url.clone(), kind: RemoteKind::SseIde, ide: token(), ..HttpSpec::default() };
    works(dial_spec(spec, Network::default(), |_| {}).await.expect("dials")).await;
    assert!(peer.seen().iter().all(|r| r.header("x-claude-code-ide-authorization") == Some("token-1")));
    let server = WebSocket::start().await;
    let url = format!("ws://{}/", server.address);
    let spec = HttpSpec { url, kind: RemoteKind::WebSocketIde, ide: token(), ..HttpSpec::default() };
    works(dial_spec(spec, Network::default(), |_| {}).await.expect("dials")).await;
    let headers = server.headers.lock().expect("no panic").remove(0);
    assert_eq!(headers["x-claude-code-ide-authorization"], "token-1");
}

fn quick(settings: &mut Settings) {
    settings.websocket_ping = Duration::from_millis(100);
    settings.websocket_pong_timeout = Duration::from_millis(200);
}

#[tokio::test]
async fn a_half_open_websocket_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("ws://{}/", listener.local_addr().expect("bound"));
    let mute = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("accepts");
        let socket = tokio_tungstenite::accept_async(stream).await.expect("upgrades");
        // Open, and never read again.
        std::future::pending::<()>().await;
        drop(socket);
    });
    let begun = Instant::now();
    let mut client = dial(RemoteKind::WebSocket, &url, Network::default(), quick).await.expect("dials");
    let reason = client.end().await;
    assert!(matches!(&reason, CloseReason::Io { kind: IoKind::TimedOut, .. }), "{reason:?}");
    assert!(reason.to_string().contains("websocket.pong_timeout_ms"), "{reason}");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    client.close().await;
    mute.abort();
}

#[tokio::test]
async fn a_quiet_websocket_that_answers_pings_lives() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("ws://{}/", listener.local_addr().expect("bound"));
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("accepts");
        let mut socket = tokio_tungstenite::accept_async(stream).await.expect("upgrades");
        let mut pings = 0;
        while let Some(Ok(message)) = socket.next().await {
            pings += usize::from(message.is_ping());
            if pings == 2 {
                let _ = socket.send(Message::Text(note("alive").into())).await;
            }
        }
    });
    let set = |settings: &mut Settings| {
        quick(settings);
        settings.websocket_pong_timeout = BOUND / 10;
    };
    let mut client = dial(RemoteKind::WebSocket, &url, Network::default(), set).await.expect("dials");
    assert_eq!(client.receive_note().await, "alive");
    client.close().await;
    timeout(BOUND, server).await.expect("in time").expect("no panic");
}

#[tokio::test]
async fn an_event_stream_without_a_byte_ends_its_link_and_comments_keep_it() {
    let comment = || vec![Step::Wait(Duration::from_millis(150)), chunk(": still here\n\n")];
    let peer = Peer::start(move |_| {
        let mut steps = vec![stream(), chunk("event: endpoint\ndata: /m\n\n")];
        steps.extend((0..4).flat_map(|_| comment()));
        steps.push(Step::Hold);
        steps
    })
    .await;
    let set = |settings: &mut Settings| settings.http_get_idle_timeout = Duration::from_millis(400);
    let begun = Instant::now();
    let mut client = dial(RemoteKind::Sse, &peer.url, Network::default(), set).await.expect("dials");
    let reason = client.end().await;
    assert!(reason.to_string().contains("http.get_idle_timeout_ms"), "{reason}");
    assert!(begun.elapsed() >= Duration::from_millis(1_000), "comments are signs of life");
    client.close().await;
}
