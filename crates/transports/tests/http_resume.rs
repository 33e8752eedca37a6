//! Resuming the stream of a request, in the era that can.

mod peer;

use callboard_core::port::{CloseReason, IoKind};
use peer::{Client, Peer, Request, Step, chunk, end, event, events, json, legacy_server, result, stream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The first event of a stream that wants to be resumed: an id, a time, no data.
fn priming(id: &str, retry_ms: u64) -> String {
    format!("id: {id}\nretry: {retry_ms}\ndata:\n\n")
}

fn resumes(peer: &Peer) -> Vec<Request> {
    peer.seen_by("GET").into_iter().filter(|get| get.header("last-event-id").is_some()).collect()
}

/// A server with sessions that has no standing stream; `resumed` answers GETs with an id.
async fn server(
    posted: impl Fn(u64) -> Vec<Step> + Send + Sync + 'static,
    resumed: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static,
) -> Peer {
    Peer::start(legacy_server(move |request| {
        match (request.method.as_str(), request.header("last-event-id")) {
            ("POST", _) => posted(request.id()),
            ("GET", Some(id)) => resumed(id),
            _ => peer::respond("405", "", ""),
        }
    }))
    .await
}

#[tokio::test]
async fn a_reply_comes_on_the_resumed_stream_after_the_time_that_was_asked_for() {
    for is_broken in [false, true] {
        let peer = server(
            move |_| vec![stream(), chunk(&priming("e1", 400)), if is_broken { Step::Close } else { end() }],
            |id| match id {
                "e1" => events(&event(&result(2))),
                other => panic!("{other}"),
            },
        )
        .await;
        let client = Client::legacy(&peer.url).await;
        client.asks_well(2).await;
        let seen = peer.seen();
        let post = seen.iter().find(|request| request.calls("tools/call")).expect("was posted");
        let gap = resumes(&peer)[0].at - post.at;
        assert!(gap >= Duration::from_millis(350) && gap <= Duration::from_millis(600), "{gap:?}");
        assert_eq!(resumes(&peer)[0].header("mcp-session-id"), Some("S-1"));
    }
}

#[tokio::test]
async fn a_stream_may_be_polled_as_long_as_it_brings_something_new() {
    let polls = AtomicUsize::new(0);
    let peer = server(
        |_| events(&priming("0", 5)),
        move |id| match polls.fetch_add(1, Ordering::SeqCst) + 1 {
            8 => events(&event(&result(2))),
            next => {
                assert_eq!(id, (next - 1).to_string());
                events(&priming(&next.to_string(), 5))
            }
        },
    )
    .await;
    Client::legacy(&peer.url).await.asks_well(2).await;
    assert_eq!(resumes(&peer).len(), 8);
}

#[tokio::test]
async fn a_resume_that_brings_nothing_is_given_up() {
    let peer = server(|_| events(&priming("e1", 10)), |_| vec![stream(), end()]).await;
    let reason = Client::legacy(&peer.url).await.fails(2).await;
    assert!(matches!(reason, CloseReason::Io { kind: IoKind::ResumeGivenUp, .. }), "{reason:?}");
    assert_eq!(resumes(&peer).len(), 3);
}

#[tokio::test]
async fn a_refused_resume_is_given_up_at_once() {
    let peer = server(|_| events(&priming("e1", 10)), |_| peer::respond("405", "", "")).await;
    let reason = Client::legacy(&peer.url).await.fails(2).await;
    assert!(matches!(reason, CloseReason::Io { kind: IoKind::ResumeGivenUp, .. }), "{reason:?}");
    assert_eq!(resumes(&peer).len(), 1);
}

#[tokio::test]
async fn a_resume_that_meets_no_session_says_so() {
    let peer = server(|_| events(&priming("e1", 10)), |_| peer::respond("404", "", "")).await;
    let mut client = Client::legacy(&peer.url).await;
    let reason = client.fails(2).await;
    assert!(matches!(reason, CloseReason::SessionExpired { status: 404 }), "{reason:?}");
    client.close().await;
    assert!(peer.seen_by("DELETE").is_empty());
}

#[tokio::test]
async fn without_an_event_id_the_outcome_is_unknown_at_once() {
    let peer = server(
        |_| vec![stream(), chunk(": work\n\n"), Step::Close],
        |_| panic!("there is nothing to resume after"),
    )
    .await;
    let reason = Client::legacy(&peer.url).await.fails(2).await;
    assert!(matches!(reason, CloseReason::Io { kind: IoKind::StreamLost, .. }), "{reason:?}");
    assert_eq!(reason.delivery(), callboard_core::port::Delivery::Unknown);
}

#[tokio::test]
async fn two_streams_resume_each_with_its_own_id() {
    let peer = server(
        |id| events(&priming(&format!("of-{id}"), 20)),
        |id| events(&event(&result(id.strip_prefix("of-").expect("ours").parse().expect("a number")))),
    )
    .await;
    let client = Client::legacy(&peer.url).await;
    let (first, second) = (client.start(2, "tools/call"), client.start(3, "tools/call"));
    let (first, second) = tokio::join!(first, second);
    peer::is_result(first, 2);
    peer::is_result(second, 3);
}

#[tokio::test]
async fn no_resume_once_the_reply_is_there() {
    let peer = server(
        |id| events(&(priming("e1", 1) + "id: e2\n" + &event(&result(id)))),
        |_| panic!("the reply was there"),
    )
    .await;
    let client = Client::legacy(&peer.url).await;
    client.asks_well(2).await;
    client.asks_well(3).await;
    assert!(resumes(&peer).is_empty());
}

#[tokio::test]
async fn priming_before_the_initialize_reply_is_fine() {
    let peer = Peer::start(|request| match request.is("POST") {
        true => events(&(priming("0", 3_000) + &event(&result(request.id())))),
        false => peer::respond("405", "", ""),
    })
    .await;
    Client::legacy(&peer.url).await.asks_well(2).await;
}

#[tokio::test]
async fn the_modern_era_never_resumes() {
    let peer = Peer::start(|request| match request.is("POST") {
        true => events(&priming("e1", 1)),
        false => json(""),
    })
    .await;
    let reason = Client::modern(&peer.url).await.fails(2).await;
    assert!(matches!(reason, CloseReason::NoReply), "{reason:?}");
    assert!(peer.seen_by("GET").is_empty());
}

#[tokio::test]
async fn a_dropped_call_resumes_no_more() {
    let peer = server(|_| events(&priming("e1", 50)), |_| vec![stream(), end()]).await;
    let mut client = Client::legacy(&peer.url).await;
    let mut call = client.start(2, "tools/call");
    let two_resumes = async {
        while resumes(&peer).len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        answer = &mut call => panic!("{answer:?}"),
        () = two_resumes => {}
    }
    drop(call);
    // Longer than the gap before the third resume.
    client.stays_quiet(Duration::from_millis(300)).await;
    assert_eq!(resumes(&peer).len(), 2);
}
