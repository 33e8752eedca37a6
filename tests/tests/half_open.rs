//! Peers that say nothing any more and do not end either: a connection whose other side is lost, and a child that
//! stands still.
#![cfg(target_os = "linux")]

mod common;

use callboard::protocol::Era;
use callboard::{
    Board, CallError, CallOptions, ConnHandle, Delivery, EraPin, ServerOptions, ServerSpec, Settings,
};
use callboard_tests::relay::{Relay, Swallowed};
use common::{Family, PATIENCE};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const LIMIT: Duration = Duration::from_millis(500);
/// What a call may take beyond its deadline.
const OVERSHOOT_MAX: Duration = Duration::from_millis(250);
/// What closing a board may take whose server does not answer.
const CLOSE_MAX: Duration = Duration::from_secs(8);

fn chaos_server(family: &Family, what: [&str; 2]) -> Vec<String> {
    let ledger = family.path().join("ledger").display().to_string();
    let words = ["--ledger", &ledger, "--tag", &family.tag, "--life", "120", what[0], what[1]];
    words.map(str::to_owned).to_vec()
}

/// A server over HTTP. Dropped, it ends.
struct Remote(Child, SocketAddr);

impl Remote {
    fn start(family: &Family) -> Remote {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chaos-server"));
        // Number 1 has no relay of its own, and a stream of its own to listen at.
        command.args(chaos_server(family, ["--http", "1"])).args(["--first", "1"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("chaos-server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("addresses ").expect("addresses").parse().expect("an address");
        Remote(child, address)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn board(spec: ServerSpec, settings: Settings) -> (Board, ConnHandle) {
    let options = ServerOptions { protocol_era: EraPin::Pinned(Era::Legacy), ..ServerOptions::default() };
    let spec = ServerSpec { options, ..spec };
    let name = spec.name.clone();
    let board = Board::builder().settings(settings).server(spec).build().await.expect("builds");
    let server = board.server(name.as_str()).expect("admitted");
    server.connect(Some(PATIENCE)).await.expect("connects");
    (board, server)
}

async fn call(server: &ConnHandle) -> Result<String, CallError> {
    let reply = server.call_tool("echo", r#"{"n":7}"#, CallOptions::with_timeout(LIMIT)).await;
    reply.map(|reply| reply.text().into_owned())
}

/// A call to a peer that says nothing ends at its deadline, and nobody claims to know what became of it.
async fn ends_in_time(server: &ConnHandle) {
    let begun = Instant::now();
    let error = call(server).await.expect_err("nobody answers");
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    assert_eq!(error.delivery(), Delivery::Unknown, "{error}");
    let took = begun.elapsed();
    assert!(took >= LIMIT && took <= LIMIT + OVERSHOOT_MAX, "{took:?}");
}

async fn serves_again(server: &ConnHandle) {
    let begun = Instant::now();
    loop {
        match call(server).await {
            Ok(text) => return assert_eq!(text, "7"),
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_path_costs_calls_their_deadline_and_nothing_more() {
    for what in [Swallowed::Requests, Swallowed::Answers, Swallowed::Both] {
        let family = Family::new("half-open");
        let remote = Remote::start(&family);
        let relay = Relay::start(remote.1).await.expect("a relay");
        let spec = ServerSpec::http("far", format!("http://{}/mcp", relay.address()));
        let (board, server) = board(spec, Settings::default()).await;
        assert_eq!(call(&server).await.expect("is answered"), "7");
        relay.swallow(what);
        for _ in 0..2 {
            ends_in_time(&server).await;
        }
        relay.pass();
        serves_again(&server).await;
        relay.swallow(what);
        timeout(CLOSE_MAX, board.close()).await.expect("closes although nobody hears it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listen_stream_that_went_silent_is_opened_anew() {
    let family = Family::new("half-open-listen");
    let remote = Remote::start(&family);
    let relay = Relay::start(remote.1).await.expect("a relay");
    let spec = ServerSpec::http("far", format!("http://{}/mcp", relay.address()));
    let settings = Settings { http_get_idle_timeout: Duration::from_secs(1), ..Settings::default() };
    let (board, server) = board(spec, settings).await;
    // The first call waits for the stream.
    assert_eq!(call(&server).await.expect("is answered"), "7");
    relay.swallow(Swallowed::Both);
    // Takes the one other connection with it, so that what comes later is new.
    ends_in_time(&server).await;
    relay.pass();
    // One may be that on which the call was called off.
    let enough = relay.accepted() + 2;
    assert!(common::until(PATIENCE, || relay.accepted() >= enough), "the dead stream is still held");
    serves_again(&server).await;
    board.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_stands_still_is_replaced_when_asked_for_and_leaves_nothing() {
    let family = Family::new("stopped");
    let words = chaos_server(&family, ["--stdio", "1"]);
    let spec = ServerSpec::stdio("near", env!("CARGO_BIN_EXE_chaos-server"), words);
    let (board, server) = board(spec, Settings::default()).await;
    assert_eq!(call(&server).await.expect("is answered"), "7");
    let stopped = server.process_id().expect("a child");
    common::send(stopped, libc::SIGSTOP);
    ends_in_time(&server).await;
    server.reconnect();
    serves_again(&server).await;
    assert_ne!(server.process_id(), Some(stopped));
    let gone = || !family.living().contains(&stopped) && common::zombies_of(std::process::id()).is_empty();
    assert!(common::until(PATIENCE, gone), "{:?}", common::described(&family.living()));
    board.close().await;
    family.gone_within(PATIENCE).expect("nothing is left");
}
