//! A path that dies without a word: its connections stay open, and nothing comes over them any more.

mod peer;

use callboard_core::port::HttpSpec;
use callboard_core::settings::Settings;
use peer::{Client, Peer, Step, json, legacy_server, result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Connections that are open when the path dies.
const OPEN: usize = 8;
/// Time enough to tell a dead path from somebody who has changed their mind.
const PATIENCE: Duration = Duration::from_millis(1_100);

/// A server on a path that has died under so many kept connections, and a client that has them.
async fn dead_path() -> (Peer, Client) {
    let dead = Arc::new(AtomicUsize::new(0));
    let turns: Arc<Vec<Arc<Notify>>> = Arc::new((0..OPEN).map(|_| Arc::default()).collect());
    let (is_dead, held) = (dead.clone(), turns.clone());
    let peer = Peer::start(move |request| {
        let mut steps = match held.get(request.id() as usize) {
            _ if request.connection < is_dead.load(Ordering::SeqCst) => return vec![Step::Hold],
            Some(turn) => vec![Step::Until(turn.clone())],
            None => vec![],
        };
        steps.extend(json(&result(request.id())));
        steps
    })
    .await;
    let client = Client::modern(&peer.url).await;
    let at_once = (0..OPEN as u64).map(|id| tokio::spawn(client.start(id, "tools/call")));
    let at_once: Vec<_> = at_once.collect();
    peer.until_requests(OPEN).await;
    turns.iter().for_each(|turn| turn.notify_one());
    for answer in at_once {
        answer.await.expect("no panic").expect("an answer");
    }
    dead.store(OPEN, Ordering::SeqCst);
    (peer, client)
}

#[tokio::test]
async fn a_dead_path_does_not_cost_a_call_for_each_kept_connection() {
    let (_peer, client) = dead_path().await;
    assert!(timeout(PATIENCE, client.start(20, "tools/call")).await.is_err(), "the path is dead");
    client.asks_well(21).await;
}

#[tokio::test]
async fn the_next_link_takes_over_no_connection_of_a_dead_path() {
    let (peer, mut client) = dead_path().await;
    assert!(timeout(PATIENCE, client.start(20, "tools/call")).await.is_err(), "the path is dead");
    client.close().await;
    Client::modern(&peer.url).await.asks_well(21).await;
}

#[tokio::test]
async fn a_standing_stream_is_given_up_within_the_limit_of_a_first_byte() {
    let peer = Peer::start(legacy_server(|request| match request.is("GET") {
        true => vec![Step::Hold],
        false => json(&result(request.id())),
    }))
    .await;
    let spec = HttpSpec { url: peer.url.clone(), ..HttpSpec::default() };
    let set = |settings: &mut Settings| settings.http_first_byte_timeout = Duration::from_millis(60);
    let client = Client::dial_with(spec, set).await.expect("dials");
    client.initialize().await;
    peer.until_requests(4).await;
    assert!(peer.seen_by("GET").len() >= 2);
}
