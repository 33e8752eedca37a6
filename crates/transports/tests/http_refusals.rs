//! Answers without success, redirects and peers that cannot be reached.

mod peer;

use callboard_core::port::{CloseReason, HttpSpec, IoKind, Unreachable};
use peer::{Client, Peer, Step, json, respond, result, with_header};
use std::time::Duration;
use tokio::net::TcpListener;

async fn refused(status: &'static str, headers: &'static str, body: &'static str) -> CloseReason {
    let peer = Peer::start(move |_| respond(status, headers, body)).await;
    Client::modern(&peer.url).await.fails(2).await
}

#[tokio::test]
async fn a_challenge_is_kept() {
    let reason =
        refused("401", "WWW-Authenticate: Bearer a=\"b\"\r\nWWW-Authenticate: Basic\r\n", "no").await;
    let CloseReason::AuthRequired { status: 401, challenge } = &reason else { panic!("{reason:?}") };
    assert_eq!(challenge, "Bearer a=\"b\", Basic");
}

#[tokio::test]
async fn a_403_is_a_scope_that_is_too_small_only_when_its_challenge_says_so() {
    let headers = "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"a\"\r\n";
    assert!(matches!(refused("403", headers, "").await, CloseReason::InsufficientScope { .. }));
    let reason = refused("403", "", r#"{"error":"insufficient_scope"}"#).await;
    let CloseReason::Status { status: 403, body, rpc: None, .. } = &reason else { panic!("{reason:?}") };
    assert_eq!(body, r#"{"error":"insufficient_scope"}"#);
}

#[tokio::test]
async fn the_status_its_body_and_its_pause_reach_the_caller() {
    let reason = refused("429", "Retry-After: 30\r\n", "slow down\u{7}").await;
    assert_eq!(reason.retry_after(), Some(Duration::from_secs(30)));
    assert_eq!(reason.to_string(), "HTTP status 429: slow down");
    let reason = refused("500", "Content-Type: text/html\r\n", "<html>Bad gateway</html>").await;
    assert_eq!(reason.to_string(), "HTTP status 500: <html>Bad gateway</html>");
}

#[tokio::test]
async fn a_json_rpc_error_in_a_refusal_is_kept_with_the_status() {
    let body = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no such method"}}"#;
    let reason = refused("404", "Content-Type: application/json\r\n", body).await;
    let CloseReason::Status { status: 404, rpc: Some(rpc), .. } = &reason else { panic!("{reason:?}") };
    assert_eq!(rpc.code, -32601);
}

#[tokio::test]
async fn an_endless_error_body_is_cut() {
    let peer = Peer::start(|_| {
        let head = "HTTP/1.1 500 X\r\nContent-Length: 10000000\r\n\r\n";
        vec![Step::Send(head.into()), Step::Send(vec![b'x'; 100_000]), Step::Hold]
    })
    .await;
    let reason = Client::modern(&peer.url).await.fails(2).await;
    let CloseReason::Status { status: 500, body, .. } = &reason else { panic!("{reason:?}") };
    assert_eq!(body.len(), 4_096);
    peer.until_closed(1).await;
}

#[tokio::test]
async fn a_308_on_the_same_origin_is_followed_and_remembered() {
    let peer = Peer::start(|request| match request.path.as_str() {
        "/mcp" => respond("308", "Location: /v2/mcp\r\n", ""),
        _ => json(&result(request.id())),
    })
    .await;
    let client = Client::modern(&peer.url).await;
    client.asks_well(2).await;
    client.asks_well(3).await;
    let seen: Vec<(String, String)> = peer.seen().into_iter().map(|r| (r.method, r.path)).collect();
    let want = ["/mcp", "/v2/mcp", "/v2/mcp"].map(|path| ("POST".to_owned(), path.to_owned()));
    assert_eq!(seen, want);
    assert!(peer.seen().iter().all(|request| request.calls("tools/call")), "the body is kept");
}

#[tokio::test]
async fn a_redirect_loop_ends_after_three_hops() {
    let peer = Peer::start(|_| respond("307", "Location: /mcp\r\n", "")).await;
    let reason = Client::modern(&peer.url).await.fails(2).await;
    assert!(matches!(reason, CloseReason::Redirect { status: 307, .. }), "{reason:?}");
    assert_eq!(peer.seen().len(), 4);
}

#[tokio::test]
async fn a_301_on_a_post_does_not_become_a_get() {
    let peer = Peer::start(|_| respond("301", "Location: /moved?key=s3cret\r\n", "")).await;
    let reason = Client::modern(&peer.url).await.fails(2).await;
    let CloseReason::Redirect { status: 301, location } = &reason else { panic!("{reason:?}") };
    assert_eq!(*location, peer.url.replace("/mcp", "/moved?key=***"));
    assert_eq!(peer.seen().len(), 1);
}

#[tokio::test]
async fn nothing_is_sent_to_another_origin() {
    let other = Peer::start(|_| respond("200", "", "")).await;
    let location = other.url.clone();
    let peer = Peer::start(move |_| respond("307", &format!("Location: {location}\r\n"), "")).await;
    let spec = with_header("Authorization", "Bearer s3cret", &peer.url);
    let reason = Client::dial_with(spec, |_| {}).await.expect("dials").fails(2).await;
    assert!(matches!(reason, CloseReason::Redirect { status: 307, .. }), "{reason:?}");
    assert!(other.seen().is_empty());
    assert_eq!(peer.seen()[0].header("authorization"), Some("Bearer s3cret"));
}

async fn unreachable(url: &str) -> Unreachable {
    let spec = HttpSpec { url: url.into(), ..HttpSpec::default() };
    let client =
        Client::dial_with(spec, |settings| settings.http_dial_timeout = Duration::from_secs(3)).await;
    match client.expect("dials without IO").fails(2).await {
        CloseReason::Unreachable { kind, message } => {
            assert!(!message.is_empty() && !message.contains("http://"), "{message}");
            kind
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_closed_port_and_an_unknown_name_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    assert_eq!(unreachable(&format!("http://127.0.0.1:{port}/mcp")).await, Unreachable::Refused);
    assert_eq!(unreachable("http://no-such-host.invalid/mcp").await, Unreachable::Dns);
}

#[tokio::test]
async fn a_peer_without_tls_fails_the_handshake() {
    let peer = Peer::start(|_| vec![]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    let plain = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 400 X\r\n\r\n").await;
        }
    });
    assert_eq!(unreachable(&format!("https://127.0.0.1:{port}/mcp")).await, Unreachable::Tls);
    plain.abort();
    drop(peer);
}

#[tokio::test]
async fn a_connection_that_ends_before_the_answer_leaves_the_outcome_unknown() {
    for step in [|| Step::Close, || Step::Reset] {
        let peer = Peer::start(move |_| vec![step()]).await;
        let reason = Client::modern(&peer.url).await.fails(2).await;
        assert!(matches!(reason, CloseReason::Io { kind: IoKind::Reset, .. }), "{reason:?}");
        assert_eq!(reason.delivery(), callboard_core::port::Delivery::Unknown);
        assert_eq!(peer.seen().len(), 1, "sent once");
    }
}

#[tokio::test]
async fn a_bad_url_or_header_is_refused_at_the_dial() {
    for url in ["", "mcp", "ftp://h/x", "http://"] {
        let spec = HttpSpec { url: url.into(), ..HttpSpec::default() };
        let reason = Client::dial_with(spec, |_| {}).await.err().expect("refused");
        assert!(matches!(reason, CloseReason::Protocol(_)), "{url}: {reason:?}");
    }
    let reason =
        Client::dial_with(with_header("X Y", "v", "http://h/"), |_| {}).await.err().expect("refused");
    assert!(reason.to_string().contains("X Y"), "{reason}");
}
