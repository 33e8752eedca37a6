//! Sessions, headers, the standing stream and the end of a link.

mod peer;

use callboard_core::port::CloseReason;
use callboard_protocol::ProtocolVersion;
use peer::{
    Client, Peer, Step, chunk, event, events, is_result, json, legacy_server, no_get, note, respond, result,
    stream,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

#[tokio::test]
async fn the_session_goes_with_every_later_request() {
    let peer = Peer::start(legacy_server(|request| match request.method.as_str() {
        "POST" => json(&result(request.id())),
        "GET" => vec![stream(), Step::Hold],
        _ => respond("405", "", ""),
    }))
    .await;
    let mut client = Client::legacy(&peer.url).await;
    client.notify("notifications/initialized").await.expect("acknowledged");
    client.asks_well(2).await;
    peer.until_requests(4).await;
    client.close().await;
    let seen = peer.seen();
    let methods: Vec<&str> = seen.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["POST", "POST", "POST", "GET", "DELETE"]);
    assert_eq!(seen[0].header("mcp-session-id"), None);
    assert_eq!(seen[0].header("mcp-protocol-version"), None);
    for request in &seen[1..] {
        assert_eq!(request.header("mcp-session-id"), Some("S-1"), "{request:?}");
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"), "{request:?}");
    }
    for post in &seen[..3] {
        assert_eq!(post.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(post.header("content-type"), Some("application/json"));
    }
    assert_eq!(seen[3].header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn a_new_initialize_goes_without_the_session() {
    let peer = Peer::start(legacy_server(|_| respond("405", "", ""))).await;
    let client = Client::dial(&peer.url).await;
    assert!(client.ask(1, "initialize").await.is_ok());
    assert!(client.ask(2, "initialize").await.is_ok());
    assert!(peer.seen().iter().all(|request| request.header("mcp-session-id").is_none()));
}

#[tokio::test]
async fn the_modern_era_has_no_session_no_get_and_no_delete() {
    let peer = Peer::start(|request| {
        respond("200", "Content-Type: application/json\r\nMcp-Session-Id: S\r\n", &result(request.id()))
    })
    .await;
    let mut client = Client::dial(&peer.url).await;
    let version = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "server/discover")];
    is_result(client.start_with(1, "server/discover", &version, false).await, 1);
    client.negotiated(ProtocolVersion::V2026_07_28);
    is_result(client.start_with(2, "tools/call", &[("Mcp-Method", "tools/call")], false).await, 2);
    // Longer than a standing stream waits before it opens.
    client.stays_quiet(Duration::from_millis(100)).await;
    client.close().await;
    let seen = peer.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|r| r.header("mcp-session-id").is_none() && r.is("POST")));
    assert!(seen.iter().all(|r| r.header("mcp-protocol-version") == Some("2026-07-28")));
    assert_eq!(seen[1].header("mcp-method"), Some("tools/call"));
}

#[tokio::test]
async fn a_404_or_410_to_our_session_expires_it_and_no_delete_follows() {
    for status in ["404", "410"] {
        let peer = Peer::start(legacy_server(move |request| {
            no_get(request).unwrap_or_else(|| respond(status, "", "Not Found"))
        }))
        .await;
        let mut client = Client::legacy(&peer.url).await;
        let reason = client.fails(2).await;
        assert!(matches!(reason, CloseReason::SessionExpired { .. }), "{reason:?}");
        client.close().await;
        assert!(peer.seen_by("DELETE").is_empty());
    }
}

#[tokio::test]
async fn by_status_and_code_a_session_expires_with_the_code_alone() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    for (status, body, expires) in [("404", error, true), ("404", "Not Found", false), ("410", error, false)]
    {
        let peer = Peer::start(legacy_server(move |request| {
            no_get(request).unwrap_or_else(|| respond(status, "Content-Type: application/json\r\n", body))
        }))
        .await;
        let spec = callboard_core::port::HttpSpec { url: peer.url.clone(), ..Default::default() };
        let set = |settings: &mut callboard_core::settings::Settings| {
            settings.set("session.expired_rule", "status-and-code").expect("a setting");
        };
        let client = Client::dial_with(spec, set).await.expect("dials");
        client.initialize().await;
        let reason = client.fails(2).await;
        assert_eq!(
            matches!(reason, CloseReason::SessionExpired { .. }),
            expires,
            "{status} {body}: {reason:?}"
        );
    }
}

#[tokio::test]
async fn a_404_without_a_session_is_a_status() {
    let peer = Peer::start(|_| respond("404", "", "Not Found")).await;
    let reason = Client::dial(&peer.url).await.fails(2).await;
    assert!(matches!(reason, CloseReason::Status { status: 404, .. }), "{reason:?}");
}

#[tokio::test]
async fn messages_of_the_standing_stream_reach_the_receive_half() {
    let peer = Peer::start(legacy_server(|request| match request.method.as_str() {
        "GET" => vec![stream(), chunk(&event(&note("a"))), chunk(&event(&note("b"))), Step::Hold],
        _ => json(&result(request.id())),
    }))
    .await;
    let mut client = Client::legacy(&peer.url).await;
    assert_eq!(client.receive_note().await, "a");
    assert_eq!(client.receive_note().await, "b");
}

#[tokio::test]
async fn a_get_that_is_refused_or_hangs_hurts_nothing() {
    for steps in [
        (|| respond("405", "", "")) as fn() -> Vec<Step>,
        || respond("400", "", "No sessionId"),
        || respond("404", "", "no such route"),
        || vec![Step::Hold],
    ] {
        let peer = Peer::start(legacy_server(move |request| match request.is("GET") {
            true => steps(),
            false => json(&result(request.id())),
        }))
        .await;
        let mut client = Client::legacy(&peer.url).await;
        peer.until_requests(2).await;
        client.asks_well(2).await;
        client.stays_quiet(Duration::from_millis(1_200)).await;
        assert_eq!(peer.seen_by("GET").len(), 1, "no second GET");
        client.close().await;
    }
}

#[tokio::test]
async fn a_get_without_a_stream_backs_off() {
    let peer = Peer::start(legacy_server(|request| match request.is("GET") {
        true => respond("200", "Content-Type: text/plain\r\n", "use POST"),
        false => json(&result(request.id())),
    }))
    .await;
    let client = Client::legacy(&peer.url).await;
    peer.until_requests(3).await;
    let gets = peer.seen_by("GET");
    assert!(gets[1].at - gets[0].at >= Duration::from_millis(950), "{:?}", gets[1].at - gets[0].at);
    client.asks_well(2).await;
}

#[tokio::test]
async fn retry_and_last_event_id_of_the_standing_stream_are_obeyed() {
    let peer =
        Peer::start(legacy_server(|request| match (request.is("GET"), request.header("last-event-id")) {
            (true, None) => events(&format!("retry: 300\nid: e1\n{}", event(&note("a")))),
            (true, Some(_)) => vec![stream(), Step::Hold],
            _ => json(&result(request.id())),
        }))
        .await;
    let _client = Client::legacy(&peer.url).await;
    peer.until_requests(3).await;
    let gets = peer.seen_by("GET");
    assert_eq!(gets[1].header("last-event-id"), Some("e1"));
    let gap = gets[1].at - gets[0].at;
    assert!(gap >= Duration::from_millis(250) && gap < Duration::from_millis(900), "{gap:?}");
}

#[tokio::test]
async fn an_event_id_is_dropped_after_one_empty_resume() {
    let peer =
        Peer::start(legacy_server(|request| match (request.is("GET"), request.header("last-event-id")) {
            (true, None) => events(&format!("retry: 10\nid: e1\n{}", event(&note("a")))),
            (true, Some(_)) => vec![stream(), peer::end()],
            _ => json(&result(request.id())),
        }))
        .await;
    let _client = Client::legacy(&peer.url).await;
    peer.until_requests(4).await;
    let ids: Vec<Option<String>> =
        peer.seen_by("GET").iter().map(|get| get.header("last-event-id").map(str::to_owned)).collect();
    assert_eq!(ids[..3], [None, Some("e1".to_owned()), None]);
}

#[tokio::test]
async fn a_standing_stream_without_a_byte_is_opened_anew() {
    let peer = Peer::start(legacy_server(|request| match request.is("GET") {
        true => vec![stream(), chunk(": hello\n\n"), Step::Hold],
        false => json(&result(request.id())),
    }))
    .await;
    let spec = callboard_core::port::HttpSpec { url: peer.url.clone(), ..Default::default() };
    let set = |settings: &mut callboard_core::settings::Settings| {
        settings.http_get_idle_timeout = Duration::from_millis(60);
    };
    let client = Client::dial_with(spec, set).await.expect("dials");
    client.initialize().await;
    peer.until_requests(4).await;
}

#[tokio::test]
async fn a_session_that_the_standing_stream_finds_gone_ends_the_link() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let peer = Peer::start(legacy_server(move |request| match request.is("GET") {
        true if first.swap(false, std::sync::atomic::Ordering::SeqCst) => {
            events(&format!("retry: 10\n{}", event(&note("a"))))
        }
        true => respond("404", "", "gone"),
        false => json(&result(request.id())),
    }))
    .await;
    let mut client = Client::legacy(&peer.url).await;
    assert_eq!(client.receive_note().await, "a");
    let end = client.receive().await;
    assert!(matches!(end, Err(CloseReason::SessionExpired { status: 404 })), "{end:?}");
}

#[tokio::test]
async fn a_delete_that_hangs_does_not_hold_up_the_close() {
    let peer = Peer::start(legacy_server(|request| match request.is("POST") {
        true => json(&result(request.id())),
        false => vec![Step::Hold],
    }))
    .await;
    let mut client = Client::legacy(&peer.url).await;
    client.asks_well(2).await;
    let begun = Instant::now();
    client.close().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(peer.seen_by("DELETE").len(), 1);
}

#[tokio::test]
async fn nothing_is_sent_after_the_close_and_what_waits_ends() {
    let peer = Peer::start(legacy_server(|request| match request.method.as_str() {
        "POST" => vec![Step::Hold],
        "GET" => vec![stream(), Step::Hold],
        _ => respond("200", "", ""),
    }))
    .await;
    let mut client = Client::legacy(&peer.url).await;
    let waiting = tokio::spawn(client.start(2, "tools/call"));
    peer.until_requests(3).await;
    client.close().await;
    assert!(matches!(waiting.await.expect("no panic"), Err(CloseReason::Cancelled)));
    assert!(matches!(client.fails(3).await, CloseReason::Cancelled));
    assert!(matches!(client.notify("n").await, Err(CloseReason::Cancelled)));
    assert!(matches!(client.receive().await, Err(CloseReason::Cancelled)));
    peer.until_closed(2).await;
    assert_eq!(peer.seen().len(), 4);
    assert_eq!(peer.seen()[3].method, "DELETE");
}

#[tokio::test]
async fn a_dropped_link_leaves_no_stream_behind() {
    let peer = Peer::start(legacy_server(|request| match request.is("GET") {
        true => vec![stream(), Step::Hold],
        false => json(&result(request.id())),
    }))
    .await;
    let client = Client::legacy(&peer.url).await;
    peer.until_requests(2).await;
    drop(client);
    peer.until_closed(1).await;
    assert!(peer.seen_by("DELETE").is_empty());
}

#[tokio::test]
async fn the_standing_stream_blocks_no_handshake() {
    let gate = Arc::new(Notify::new());
    let held = gate.clone();
    let peer = Peer::start(legacy_server(move |request| match request.is("GET") {
        true => vec![Step::Until(held.clone()), Step::Close],
        false => json(&result(request.id())),
    }))
    .await;
    let client = Client::legacy(&peer.url).await;
    client.asks_well(2).await;
    peer.until_requests(3).await;
    client.asks_well(3).await;
    gate.notify_one();
}

/// Credentials that change with every request.
#[derive(Default)]
struct Rotating(std::sync::atomic::AtomicUsize);

impl callboard_core::port::Authenticator for Rotating {
    fn headers(&self) -> Vec<(String, callboard_protocol::Secret)> {
        let turn = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        vec![("Authorization".into(), callboard_protocol::Secret::new(format!("Bearer {turn}")))]
    }
}

#[tokio::test]
async fn credentials_are_asked_for_with_every_request() {
    let peer = Peer::start(|request| json(&result(request.id()))).await;
    let spec = peer::with_header("Authorization", "Bearer static", &peer.url);
    let client = Client::dial_as(spec, Some(Arc::new(Rotating::default())), |_| {}).await.expect("dials");
    client.asks_well(2).await;
    client.asks_well(3).await;
    let sent: Vec<_> = peer.seen().iter().map(|r| r.header("authorization").map(str::to_owned)).collect();
    assert_eq!(sent, [Some("Bearer 0".to_owned()), Some("Bearer 1".to_owned())]);
}

#[tokio::test]
async fn user_info_in_the_url_becomes_a_header() {
    let peer = Peer::start(|request| json(&result(request.id()))).await;
    let client = Client::dial(&peer.url.replace("http://", "http://joe:pw@")).await;
    client.asks_well(2).await;
    assert_eq!(peer.seen()[0].header("authorization"), Some("Basic am9lOnB3"));
}
