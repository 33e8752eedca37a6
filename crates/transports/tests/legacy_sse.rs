//! HTTP+SSE of 2024-11-05: the endpoint event, POSTs beside the stream, and the end of either.

mod peer;

use callboard_core::port::{CloseReason, Dialer, HttpSpec, InFrame, IoKind, RemoteKind, SendHalf};
use callboard_protocol::ProtocolVersion;
use peer::{
    BOUND, Client, Peer, Request, Step, call, chunk, end, event, json, note, respond, result, stream,
    with_header,
};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

fn at(address: &str) -> String {
    format!("event: endpoint\ndata: {address}\n\n")
}

/// A stream that names its endpoint, goes through these steps and stays open.
fn open_stream(address: &str, then: Vec<Step>) -> Vec<Step> {
    let mut steps = vec![stream(), chunk(&at(address))];
    steps.extend(then);
    steps.push(Step::Hold);
    steps
}

fn accepted() -> Vec<Step> {
    respond("202", "", "Accepted")
}

fn spec(peer: &Peer) -> HttpSpec {
    HttpSpec { url: peer.url.clone(), kind: RemoteKind::Sse, ..HttpSpec::default() }
}

async fn dial(peer: &Peer) -> Client {
    Client::dial_sse(spec(peer), |_| {}).await.expect("dials")
}

async fn refused(script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> CloseReason {
    let peer = Peer::start(script).await;
    Client::dial_sse(spec(&peer), |_| {}).await.err().expect("refused")
}

/// Releases the stream's answers once the POST of call 2 has come.
fn answering(address: fn(&str) -> String) -> impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static {
    let posted = Arc::new(Notify::new());
    move |request| {
        if request.is("GET") {
            let base = format!("http://{}", request.header("host").unwrap_or_default());
            let then = vec![Step::Until(posted.clone()), chunk(&event(&result(2)))];
            return open_stream(&address(&base), then);
        }
        posted.notify_one();
        accepted()
    }
}

#[tokio::test]
async fn a_relative_endpoint_is_posted_to_and_answers_come_over_the_stream() {
    let peer = Peer::start(answering(|_| "/messages?sid=1".into())).await;
    let spec = with_header("X-Key", "k", &peer.url);
    let mut client = Client::dial_sse(spec, |_| {}).await.expect("dials");
    client.put(&call(2, "tools/call")).expect("is taken");
    client.receives_result(2).await;
    let seen = peer.seen();
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("GET", "/mcp"));
    assert_eq!(seen[0].header("accept"), Some("text/event-stream"));
    assert_eq!((seen[1].method.as_str(), seen[1].path.as_str()), ("POST", "/messages?sid=1"));
    assert_eq!(seen[1].body, call(2, "tools/call"));
    assert!(seen.iter().all(|request| request.header("x-key") == Some("k")), "the entry's headers go along");
}

#[tokio::test]
async fn an_endpoint_may_be_a_whole_url() {
    let peer = Peer::start(answering(|base| format!("{base}/messages"))).await;
    let mut client = dial(&peer).await;
    client.put(&call(2, "tools/call")).expect("is taken");
    client.receives_result(2).await;
    assert_eq!(peer.seen_by("POST")[0].path, "/messages");
}

#[tokio::test]
async fn an_endpoint_of_another_origin_is_refused_and_meets_nothing() {
    let other = Peer::start(|_| accepted()).await;
    let address = other.url.clone();
    let reason = refused(move |_| open_stream(&address, vec![])).await;
    let CloseReason::Protocol(message) = &reason else { panic!("{reason:?}") };
    assert!(message.contains(other.url.trim_end_matches("/mcp")), "{message}");
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn no_request_names_a_version_or_a_session() {
    let peer = Peer::start(answering(|_| "/messages".into())).await;
    let mut client = dial(&peer).await;
    client.negotiated(ProtocolVersion::V2025_11_25);
    client.put(&call(2, "tools/call")).expect("is taken");
    client.receives_result(2).await;
    for header in ["mcp-protocol-version", "mcp-session-id"] {
        assert!(peer.seen().iter().all(|request| request.header(header).is_none()), "{header}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_stream_says_what_it_is() {
    let reason = refused(|_| respond("401", "WWW-Authenticate: Bearer\r\n", "")).await;
    assert!(matches!(reason, CloseReason::AuthRequired { status: 401, .. }), "{reason:?}");
    let reason = refused(|_| respond("503", "Retry-After: 3\r\n", "later")).await;
    assert!(matches!(reason, CloseReason::Status { status: 503, .. }), "{reason:?}");
    let reason = refused(|_| json("{}")).await;
    assert!(matches!(reason, CloseReason::NotRpc { .. }), "{reason:?}");
    let reason = refused(|_| vec![stream(), chunk(&event(&note("hi"))), Step::Hold]).await;
    assert!(matches!(reason, CloseReason::Protocol(_)), "{reason:?}");
    let reason = refused(|_| vec![stream(), end()]).await;
    assert!(matches!(reason, CloseReason::Io { kind: IoKind::StreamLost, .. }), "{reason:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_an_endpoint_is_given_up_at_the_deadline() {
    let peer = Peer::start(|_| vec![stream(), chunk(": hello\n\n"), Step::Hold]).await;
    let spec = spec(&peer);
    let mut request = peer::request(&spec, None, |_| {});
    request.deadline = Instant::now() + BOUND / 10;
    let reason =
        callboard_transports::dial_sse(request, &spec, &peer::network()).await.err().expect("gives up");
    assert!(matches!(reason, CloseReason::ConnectTimedOut { .. }), "{reason:?}");
}

#[tokio::test]
async fn the_end_of_the_stream_ends_the_link_with_a_call_pending() {
    for is_clean in [true, false] {
        let posted = Arc::new(Notify::new());
        let signal = posted.clone();
        let peer = Peer::start(move |request| match request.is("GET") {
            true => {
                let last = if is_clean { end() } else { Step::Reset };
                vec![stream(), chunk(&at("/m")), Step::Until(signal.clone()), last, Step::Close]
            }
            false => accepted(),
        })
        .await;
        let mut client = dial(&peer).await;
        client.put(&call(2, "tools/call")).expect("is taken");
        peer.until_requests(2).await;
        posted.notify_one();
        let reason = client.end().await;
        assert!(matches!(reason, CloseReason::Io { kind: IoKind::StreamLost, .. }), "{reason:?}");
        assert!(client.put(&call(3, "tools/call")).is_err(), "nothing is taken any more");
    }
}

#[tokio::test]
async fn a_failed_post_ends_its_call_alone() {
    let posted = Arc::new(Notify::new());
    let signal = posted.clone();
    let peer = Peer::start(move |request| match request.method.as_str() {
        "GET" => open_stream("/m", vec![Step::Until(signal.clone()), chunk(&event(&result(3)))]),
        _ if request.id() == 2 => respond("500", "", "no"),
        _ => accepted(),
    })
    .await;
    let mut client = dial(&peer).await;
    client.put(&call(2, "tools/call")).expect("is taken");
    client.put(&call(3, "tools/call")).expect("is taken");
    let failed = client.receive().await;
    assert!(
        matches!(failed, Ok(InFrame::Failed { id: 2, reason: CloseReason::Status { status: 500, .. } })),
        "{failed:?}"
    );
    posted.notify_one();
    client.receives_result(3).await;
}

#[tokio::test]
async fn a_session_that_is_gone_fails_its_call_as_refused_and_ends_the_link() {
    let peer = Peer::start(|request| match request.is("GET") {
        true => open_stream("/m?sid=1", vec![]),
        false => respond("404", "", "Could not find session"),
    })
    .await;
    let mut client = dial(&peer).await;
    client.negotiated(ProtocolVersion::V2024_11_05);
    client.put(&call(2, "tools/call")).expect("is taken");
    let failed = client.receive().await;
    let expired = CloseReason::SessionExpired { status: 404 };
    assert!(
        matches!(&failed, Ok(InFrame::Failed { id: 2, reason }) if reason.to_string() == expired.to_string()),
        "{failed:?}"
    );
    assert!(matches!(client.end().await, CloseReason::SessionExpired { .. }));
}

#[tokio::test]
async fn a_slow_post_does_not_hold_up_the_next() {
    let peer = Peer::start(|request| match request.method.as_str() {
        "GET" => open_stream("/m", vec![]),
        _ if request.id() == 2 => vec![Step::Hold],
        _ => accepted(),
    })
    .await;
    let client = dial(&peer).await;
    client.put(&call(2, "tools/call")).expect("is taken");
    client.put(&call(3, "tools/call")).expect("is taken");
    peer.until_requests(3).await;
}

#[tokio::test]
async fn what_follows_the_initialized_notification_waits_for_its_acknowledgement() {
    let release = Arc::new(Notify::new());
    let gate = release.clone();
    let peer = Peer::start(move |request| {
        if request.is("GET") {
            return open_stream("/m", vec![]);
        }
        if request.calls("notifications/initialized") {
            let mut steps = vec![Step::Until(gate.clone())];
            steps.extend(accepted());
            return steps;
        }
        accepted()
    })
    .await;
    let client = dial(&peer).await;
    client.put(&note("notifications/initialized")).expect("is taken");
    client.put(&call(2, "tools/list")).expect("is taken");
    client.put(&call(3, "tools/list")).expect("is taken");
    peer.until_requests(2).await;
    assert!(peer.seen()[1].calls("notifications/initialized"));
    release.notify_one();
    peer.until_requests(4).await;
}

#[tokio::test]
async fn an_answer_to_the_server_does_not_wait_behind_calls_that_wait_for_it() {
    let peer = Peer::start(|request| match request.method.as_str() {
        "GET" => open_stream("/m", vec![]),
        _ if request.calls("tools/call") => vec![Step::Hold],
        _ => accepted(),
    })
    .await;
    let client = Client::dial_sse(spec(&peer), |settings| settings.http_posts_max = 1).await.expect("dials");
    client.put(&call(2, "tools/call")).expect("is taken");
    client.put(&call(3, "tools/call")).expect("is taken");
    client.put(&result(7)).expect("is taken");
    peer.until_requests(3).await;
    assert!(peer.seen_by("POST").iter().any(|request| request.body == result(7)));
}

#[tokio::test]
async fn posts_over_their_number_wait_in_order_and_their_bytes_are_bounded() {
    let release = Arc::new(Notify::new());
    let gate = release.clone();
    let peer = Peer::start(move |request| {
        if request.is("GET") {
            return open_stream("/m", vec![]);
        }
        let mut steps = vec![Step::Until(gate.clone())];
        steps.extend(accepted());
        steps
    })
    .await;
    let set = |settings: &mut callboard_core::settings::Settings| {
        settings.http_posts_max = 1;
        settings.wire_frame_bytes_max = 100;
    };
    let client = Client::dial_sse(spec(&peer), set).await.expect("dials");
    for id in 2..6 {
        client.put(&call(id, "tools/call")).expect("is taken");
    }
    let taken = (6..20).take_while(|id| client.put(&call(*id, "tools/call")).is_ok()).count();
    assert!(taken < 14, "the queue has an end");
    for count in 0..4 {
        peer.until_requests(2 + count).await;
        release.notify_one();
    }
    let ids: Vec<u64> = peer.seen_by("POST").iter().take(4).map(Request::id).collect();
    assert_eq!(ids, [2, 3, 4, 5]);
}

#[tokio::test]
async fn an_event_over_the_limit_ends_its_call_alone() {
    let large = format!(r#"{{"jsonrpc":"2.0","id":2,"result":"{}"}}"#, "x".repeat(200));
    let peer =
        Peer::start(move |_| open_stream("/m", vec![chunk(&event(&large)), chunk(&event(&note("after")))]))
            .await;
    let mut client =
        Client::dial_sse(spec(&peer), |settings| settings.wire_frame_bytes_max = 100).await.expect("dials");
    let received = client.receive().await;
    assert!(matches!(received, Ok(InFrame::TooLarge { id: Some(2), limit: 100 })), "{received:?}");
    assert_eq!(client.receive_note().await, "after");
}

#[tokio::test]
async fn nothing_is_sent_after_the_close() {
    let peer = Peer::start(|request| match request.is("GET") {
        true => open_stream("/m", vec![]),
        false => accepted(),
    })
    .await;
    let mut client = dial(&peer).await;
    client.close().await;
    peer.until_closed(1).await;
    assert!(matches!(client.put(&call(2, "tools/call")), Err(CloseReason::Cancelled)));
    assert_eq!(peer.seen().len(), 1);
}

#[tokio::test]
async fn a_redirect_of_the_stream_moves_what_its_endpoint_is_relative_to() {
    let peer = Peer::start(|request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/mcp") => respond("307", "Location: /v2/sse\r\n", ""),
        ("GET", _) => open_stream("messages", vec![]),
        _ => accepted(),
    })
    .await;
    let client = dial(&peer).await;
    client.put(&call(2, "tools/call")).expect("is taken");
    peer.until_requests(3).await;
    assert_eq!(peer.seen_by("POST")[0].path, "/v2/messages");
}

#[tokio::test]
async fn only_an_address_without_a_type_may_be_tried_as_http_sse() {
    let peer = Peer::start(|_| open_stream("/m", vec![])).await;
    let dialer = callboard_transports::Transports::default();
    for (kind, may) in [
        (RemoteKind::Probe, true),
        (RemoteKind::Streamable, false),
        (RemoteKind::Sse, false),
        (RemoteKind::WebSocket, false),
    ] {
        let spec = HttpSpec { kind, ..spec(&peer) };
        let dialing = dialer.dial_fallback(peer::request(&spec, None, |_| {}));
        assert_eq!(dialing.is_some(), may, "{kind:?}");
        let Some(dialing) = dialing else { continue };
        let link = timeout(BOUND, dialing).await.expect("in time").expect("dials");
        assert!(matches!(link.send, SendHalf::Duplex(_)));
    }
}
