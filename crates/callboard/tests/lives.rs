//! Boards that come and go, and handlers that fail: nothing is left, nobody is owed an answer.

mod peer;

use callboard::{Board, BoxFuture, CallOptions, ServerName, ServerSpec, Settings, TimelineEntry};
use peer::{http, result, stream, usual, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn two_hundred_boards_leave_no_thread_and_no_descriptor() {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).expect("proc").count();
    let mut before = (0, 0);
    for n in 0..220 {
        let board = Board::builder()
            .server(ServerSpec::in_process("s", "k"))
            .in_process("k", || {
                std::future::ready(stream(|message, lines| {
                    drop(usual(&message).map(|answer| lines.send(answer)));
                }))
            })
            .build()
            .await
            .expect("a board");
        let handle = board.server("s").expect("a server");
        within(handle.connect(None)).await.expect("connects");
        within(board.close()).await;
        within(board.close()).await;
        if n == 19 {
            before = (count("fd"), count("task"));
        }
    }
    let after = (count("fd"), count("task"));
    assert!(after.0 <= before.0 + 8 && after.1 <= before.1 + 8, "{before:?} {after:?}");
}

/// A model that panics whenever it is asked.
struct Broken;

impl callboard::Sampling for Broken {
    fn create_message(
        &self,
        _: ServerName,
        _: Box<serde_json::value::RawValue>,
    ) -> BoxFuture<'static, Result<Box<serde_json::value::RawValue>, String>> {
        Box::pin(async { panic!("as asked") })
    }
}

#[tokio::test]
async fn a_handler_that_panics_still_owes_each_answer() {
    const ASKED: usize = 40;
    let (answered, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, done) = (answered.clone(), all.clone());
    let board = Board::builder()
        .sampling(Arc::new(Broken))
        .server(ServerSpec::in_process("s", "k"))
        .in_process("k", move || {
            let (counted, done) = (counted.clone(), done.clone());
            std::future::ready(stream(move |message, lines| {
                let ask = |n: usize| {
                    let _ = lines.send(format!(
                        r#"{{"jsonrpc":"2.0","id":"q{n}","method":"sampling/createMessage","params":{{}}}}"#
                    ));
                };
                match message["method"].as_str() {
                    Some("notifications/initialized") => ask(0),
                    None => {
                        assert_eq!(message["error"]["message"], "the client failed to answer");
                        match counted.fetch_add(1, Ordering::Relaxed) + 1 {
                            ASKED => done.notify_one(),
                            n => ask(n),
                        }
                    }
                    Some(_) => drop(usual(&message).map(|answer| lines.send(answer))),
                }
            }))
        })
        .build()
        .await
        .expect("a board");
    let handle = board.server("s").expect("a server");
    within(handle.connect(None)).await.expect("connects");
    within(all.notified()).await;
    within(board.close()).await;
}

#[tokio::test]
async fn a_connection_given_up_leaves_no_stream_of_a_resource_behind() {
    let (ended, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (ends, opened) = (ended.clone(), told.clone());
    let url = http(move |posted| {
        let (ends, opened) = (ends.clone(), opened.clone());
        async move {
            let discovered =
                r#"{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true}}}"#;
            match posted.method() {
                "server/discover" => {
                    let answer = result(&posted.message["id"], discovered);
                    posted.json("", &answer).await;
                }
                "subscriptions/listen" => {
                    let mut socket = posted.events().await;
                    opened.notify_one();
                    let _ = socket.read(&mut [0]).await;
                    ends.notify_one();
                }
                _ => drop(posted.socket.set_zero_linger()),
            }
        }
    })
    .await;
    let board = Board::builder().server(ServerSpec::http("s", url.as_str())).build().await.expect("a board");
    let handle = board.server("s").expect("a server");
    within(handle.subscribe("file:///a")).await.expect("listens");
    within(told.notified()).await;
    for _ in 0..3 {
        within(handle.call_tool("t", "{}", CallOptions::default())).await.expect_err("reset");
    }
    within(ended.notified()).await;
    within(board.close()).await;
}

#[tokio::test]
async fn times_without_end_overflow_no_clock() {
    let never = Duration::MAX;
    let settings = Settings {
        connect_timeout: never,
        probe_timeout: never,
        reconnect_backoff_initial: never,
        reconnect_backoff_max: never,
        stdio_close_grace: never,
        stdio_term_grace: never,
        ..Settings::default()
    };
    let answers = || {
        std::future::ready(stream(|message, lines| {
            drop(usual(&message).map(|answer| lines.send(answer)));
        }))
    };
    let builder = Board::builder().settings(settings).server(ServerSpec::in_process("s", "k"));
    let board = builder.server(ServerSpec::in_process("dead", "none")).in_process("k", answers).build().await;
    let board = board.expect("a board");
    within(board.server("s").expect("a server").connect(None)).await.expect("connects");
    let dead = board.server("dead").expect("a server");
    let mut events = board.events();
    dead.connect(Some(Duration::from_millis(1))).await.expect_err("nobody is there");
    dead.reconnect();
    while !matches!(dead.state().word(), "failed") && dead.status().generation < 2 {
        within(events.recv()).await.expect("an event");
    }
    let panicked = |entry: &TimelineEntry| entry.event == "actor-panicked";
    assert!(!dead.timeline().iter().any(panicked), "{:?}", dead.timeline());
    assert!(within(board.remove("s")).await);
    within(board.close()).await;
}
