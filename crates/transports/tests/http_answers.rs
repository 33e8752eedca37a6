//! Answers to POSTs: what is a reply, what goes to the receive half, what is no answer at all.

mod peer;

use callboard_core::port::{CloseReason, HttpSpec, InFrame, IoKind};
use callboard_protocol::{Frame, ReplyBody};
use peer::{Client, Peer, Step, chunk, end, event, events, is_result, json, note, respond, result, stream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;

/// A client and a peer that answers every POST like this.
async fn answered(steps: impl Fn(u64) -> Vec<Step> + Send + Sync + 'static) -> (Client, Peer) {
    let peer = Peer::start(move |request| steps(request.id())).await;
    (Client::modern(&peer.url).await, peer)
}

fn typed(status: &str, media: &str, body: &str) -> Vec<Step> {
    respond(status, &format!("Content-Type: {media}\r\n"), body)
}

#[tokio::test]
async fn json_and_streams_are_both_read_whatever_the_case_of_their_type() {
    let (client, _peer) = answered(|id| match id % 2 {
        0 => typed("200", "Application/JSON; Charset=\"UTF-8\"", &result(id)),
        _ => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream;charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
            vec![Step::Send(head.into()), chunk(&event(&result(id))), end()]
        }
    })
    .await;
    for id in 2..6 {
        client.asks_well(id).await;
    }
    assert!(client.activity.0.load(Ordering::Relaxed) >= 8, "headers and bytes are signs of life");
}

#[tokio::test]
async fn connections_are_kept_after_json_and_after_streams() {
    let (client, peer) = answered(|id| match id % 2 {
        0 => json(&result(id)),
        // The end of the stream comes later than the reply, within the time of the drain.
        _ => vec![stream(), chunk(&event(&result(id))), Step::Wait(Duration::from_millis(5)), end()],
    })
    .await;
    for id in 2..8 {
        client.asks_well(id).await;
        // A notification would take a second connection if the first were not free in time.
        tokio::task::yield_now().await;
    }
    let connections: Vec<usize> = peer.seen().iter().map(|request| request.connection).collect();
    assert!(connections.iter().max() <= Some(&1), "{connections:?}");
}

#[tokio::test]
async fn a_reply_is_returned_before_its_stream_ends() {
    let (client, peer) = answered(|id| vec![stream(), chunk(&event(&result(id))), Step::Hold]).await;
    client.asks_well(2).await;
    peer.until_closed(1).await;
}

#[tokio::test]
async fn messages_around_a_reply_go_to_the_receive_half_in_order() {
    let (mut client, _peer) = answered(|id| {
        let text = [event(&note("a")), event(&note("b")), event(&result(id)), event(&note("c"))].concat();
        vec![stream(), chunk(&text), chunk(&event(&note("d"))), end()]
    })
    .await;
    client.asks_well(2).await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(client.receive_note().await, name);
    }
}

#[tokio::test]
async fn a_batch_is_taken_apart() {
    let (mut client, _peer) =
        answered(|id| json(&format!("[{},{},{}]", note("a"), result(id), result(77)))).await;
    client.asks_well(2).await;
    assert_eq!(client.receive_note().await, "a");
    let Ok(InFrame::Frame(Frame::Reply(other))) = client.receive().await else { panic!("no reply") };
    assert_eq!(other.id.own(), Some(77));
}

#[tokio::test]
async fn an_error_without_an_id_is_this_requests_error() {
    let (client, _peer) =
        answered(|_| json(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#)).await;
    let reply = client.ask(2, "tools/call").await.expect("a reply");
    assert_eq!(reply.id.own(), Some(2));
    assert!(matches!(reply.body, ReplyBody::Error(_)), "{reply:?}");
}

#[tokio::test]
async fn a_broken_text_that_names_the_call_ends_it() {
    for is_stream in [false, true] {
        let (client, _peer) = answered(move |id| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":NaN}}}}"#);
            if is_stream { events(&event(&text)) } else { json(&text) }
        })
        .await;
        let reply = client.ask(2, "tools/call").await.expect("a reply");
        assert!(matches!(reply.body, ReplyBody::Invalid(_)), "{reply:?}");
    }
}

#[tokio::test]
async fn no_body_is_no_reply() {
    for steps in [
        || respond("202", "", ""),
        || respond("204", "", ""),
        || typed("200", "application/json", ""),
        || typed("202", "text/plain", "Accepted"),
        || typed("200", "text/html", ""),
        || vec![stream(), end()],
        || events(&event(&note("other"))),
        || json(&result(77)),
    ] {
        let (client, _peer) = answered(move |_| steps()).await;
        let reason = client.fails(2).await;
        assert!(matches!(reason, CloseReason::NoReply), "{reason:?}");
    }
}

#[tokio::test]
async fn what_is_no_json_rpc_is_shown() {
    for (steps, want) in [
        ((|| typed("200", "text/html", "<html>Sign in</html>")) as fn() -> _, "<html>Sign in</html>"),
        (|| typed("200", "application/json", "hello \u{1b}[1m"), "hello [1m"),
        (|| events(&event(r#"{"fault":"Session not found"}"#)), r#"{"fault":"Session not found"}"#),
    ] {
        let (client, _peer) = answered(move |_| steps()).await;
        match client.fails(2).await {
            CloseReason::NotRpc { excerpt, .. } => assert_eq!(excerpt, want),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn events_of_other_names_comments_and_odd_line_ends_do_not_matter() {
    let (client, _peer) = answered(|id| {
        let text = format!(
            ": hi\r\rfoo: bar\r\revent: ping\rdata: {{}}\r\revent: message\rdata: {}\r\r",
            result(id)
        );
        vec![stream(), chunk("\u{feff}"), chunk(&text), Step::Hold]
    })
    .await;
    client.asks_well(2).await;
}

#[tokio::test]
async fn an_announced_body_over_the_limit_is_not_read() {
    let peer = Peer::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000001\r\n\r\n";
        vec![Step::Send(head.into()), Step::Hold]
    })
    .await;
    let spec = HttpSpec { url: peer.url.clone(), ..HttpSpec::default() };
    let client =
        Client::dial_with(spec, |settings| settings.wire_frame_bytes_max = 1_000_000).await.expect("dials");
    assert!(matches!(client.fails(2).await, CloseReason::TooLarge { limit: 1_000_000 }));
    peer.until_closed(1).await;
}

#[tokio::test]
async fn a_body_or_event_that_grows_over_the_limit_fails_its_call_at_once() {
    for head in ["application/json", "text/event-stream"] {
        let peer = Peer::start(move |request| {
            let id = request.id();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: {head}\r\nTransfer-Encoding: chunked\r\n\r\n");
            let start = format!("data: {{\"id\":{id},\"result\":{{\"a\":\"");
            let start = start.strip_prefix("data: ").filter(|_| head.contains("json")).unwrap_or(&start);
            let more = "x".repeat(600);
            vec![Step::Send(head.into()), chunk(start), chunk(&more), chunk(&more), Step::Hold]
        })
        .await;
        let spec = HttpSpec { url: peer.url.clone(), ..HttpSpec::default() };
        let client =
            Client::dial_with(spec, |settings| settings.wire_frame_bytes_max = 1_000).await.expect("dials");
        let reason = client.fails(2).await;
        assert!(matches!(reason, CloseReason::TooLarge { limit: 1_000 }), "{reason:?}");
        peer.until_closed(1).await;
    }
}

#[tokio::test]
async fn a_large_event_of_another_call_does_not_fail_this_one() {
    let peer = Peer::start(|request| {
        let large = format!("data: {{\"id\":77,\"result\":{{\"a\":\"{}\"}}}}\n\n", "x".repeat(2_000));
        events(&(large + &event(&result(request.id()))))
    })
    .await;
    let spec = HttpSpec { url: peer.url.clone(), ..HttpSpec::default() };
    let mut client =
        Client::dial_with(spec, |settings| settings.wire_frame_bytes_max = 1_000).await.expect("dials");
    client.asks_well(2).await;
    assert!(matches!(client.receive().await, Ok(InFrame::TooLarge { id: Some(77), limit: 1_000 })));
}

#[tokio::test]
async fn a_stream_that_breaks_is_lost_and_a_body_that_breaks_is_cut() {
    let (client, _peer) = answered(|_| vec![stream(), chunk(&event(&note("a"))), Step::Close]).await;
    let reason = client.fails(2).await;
    assert!(matches!(reason, CloseReason::Io { kind: IoKind::StreamLost, .. }), "{reason:?}");
    let (client, _peer) = answered(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
        vec![Step::Send(head.into()), Step::Close]
    })
    .await;
    let reason = client.fails(2).await;
    assert!(matches!(reason, CloseReason::Io { kind: IoKind::BodyCut, .. }), "{reason:?}");
}

#[tokio::test]
async fn a_dropped_call_closes_its_stream() {
    let (client, peer) = answered(|_| vec![stream(), chunk(": work\n\n"), Step::Hold]).await;
    let mut call = client.start(2, "tools/call");
    tokio::select! {
        biased;
        answer = &mut call => panic!("{answer:?}"),
        () = async {
            while client.activity.0.load(Ordering::Relaxed) < 2 {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    drop(call);
    peer.until_closed(1).await;
}

#[tokio::test]
async fn a_slow_call_does_not_hold_up_a_fast_one() {
    let gate = Arc::new(Notify::new());
    let slow = gate.clone();
    let (client, _peer) = answered(move |id| {
        let mut steps = if id == 2 { vec![Step::Until(slow.clone())] } else { vec![] };
        steps.extend(json(&result(id)));
        steps
    })
    .await;
    let slow = tokio::spawn(client.start(2, "tools/call"));
    client.asks_well(3).await;
    gate.notify_one();
    is_result(slow.await.expect("no panic"), 2);
}

#[tokio::test]
async fn notices_do_not_wait_behind_calls() {
    let gate = Arc::new(Notify::new());
    let held = gate.clone();
    let peer = Peer::start(move |request| match request.id() {
        0 => respond("202", "", ""),
        id => [vec![Step::Until(held.clone())], json(&result(id))].into_iter().flatten().collect(),
    })
    .await;
    let spec = HttpSpec { url: peer.url.clone(), ..HttpSpec::default() };
    let client = Client::dial_with(spec, |settings| settings.http_posts_max = 1).await.expect("dials");
    let first = tokio::spawn(client.start(2, "tools/call"));
    let second = tokio::spawn(client.start(3, "tools/call"));
    peer.until_requests(1).await;
    client.notify("notifications/cancelled").await.expect("acknowledged");
    assert_eq!(peer.seen().len(), 2, "one call and the notice; the other call waits");
    gate.notify_one();
    assert!(first.await.expect("no panic").is_ok());
    gate.notify_one();
    assert!(second.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn any_success_acknowledges_a_notice() {
    for steps in [
        || respond("200", "", ""),
        || json(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#),
        || typed("202", "text/html", "<p>ok</p>"),
        || vec![stream(), Step::Hold],
    ] {
        let peer = Peer::start(move |_| steps()).await;
        let client = Client::modern(&peer.url).await;
        client.notify("notifications/initialized").await.expect("acknowledged");
    }
    let peer = Peer::start(|_| respond("500", "", "no")).await;
    let reason = Client::modern(&peer.url).await.notify("n").await.expect_err("refused");
    assert_eq!(reason.http_status(), Some(500));
}

#[tokio::test]
async fn a_total_limit_ends_a_post_but_no_listen() {
    let peer = Peer::start(|request| match request.calls("subscriptions/listen") {
        true => vec![
            stream(),
            chunk(&event(&note("acknowledged"))),
            Step::Wait(Duration::from_millis(150)),
            chunk(&event(&result(request.id()))),
            end(),
        ],
        false => vec![Step::Hold],
    })
    .await;
    let spec = HttpSpec { url: peer.url.clone(), ..HttpSpec::default() };
    let set = |settings: &mut callboard_core::settings::Settings| {
        settings.http_post_total_timeout = Duration::from_millis(50);
    };
    let mut client = Client::dial_with(spec, set).await.expect("dials");
    let reason = client.fails(2).await;
    assert!(matches!(reason, CloseReason::Io { kind: IoKind::TimedOut, .. }), "{reason:?}");
    is_result(client.start_with(3, "subscriptions/listen", &[], true).await, 3);
    assert_eq!(client.receive_note().await, "acknowledged");
}
