//! Calls against servers that fall silent, die, flood and forget: each ends once, in time, and alone.

mod peer;

use callboard::{Board, CallError, CallOptions, ServerSpec, Settings};
use peer::{BOUND, LEGACY, MODERN, TEXT, error, event, http, result, stream, usual, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

fn options() -> CallOptions {
    CallOptions::with_timeout(BOUND)
}

async fn board(settings: Settings, url: &str) -> Board {
    let server = ServerSpec::http("s", url);
    Board::builder().settings(settings).server(server).build().await.expect("a board")
}

/// "At once" of failure-classes.md, with room for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn who_waits_for_a_connection_learns_that_the_board_was_dropped() {
    let server = ServerSpec::in_process("s", "k");
    let board = Board::builder()
        .in_process("k", std::future::pending::<std::io::Result<tokio::io::DuplexStream>>)
        .server(server)
        .build()
        .await
        .expect("a board");
    let handle = board.server("s").expect("a server");
    let call = tokio::spawn(async move { handle.call_tool("t", "{}", CallOptions::default()).await });
    let mut events = board.events();
    while within(events.recv()).await.expect("an event").server != "s" {}
    drop(board);
    let ended = tokio::time::timeout(AT_ONCE, call).await.expect("it hangs").expect("no panic");
    assert!(matches!(ended, Err(CallError::Closed)), "{ended:?}");
}

#[tokio::test]
async fn a_call_that_waited_for_its_connection_has_all_of_its_first_byte_time() {
    let url = http(|posted| async move {
        match posted.method() {
            "initialize" => {
                tokio::time::sleep(Duration::from_millis(700)).await;
                let answer = result(&posted.message["id"], LEGACY);
                posted.json("", &answer).await;
            }
            "tools/call" => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let answer = result(&posted.message["id"], TEXT);
                posted.json("", &answer).await;
            }
            _ => match usual(&posted.message) {
                Some(answer) => posted.json("", &answer).await,
                None => posted.respond("405 No", "", "").await,
            },
        }
    })
    .await;
    let settings = Settings { http_first_byte_timeout: Duration::from_millis(600), ..Settings::default() };
    let board = board(settings, &url).await;
    let handle = board.server("s").expect("a server");
    let reply = within(handle.call_tool("t", "{}", CallOptions::default())).await;
    assert_eq!(reply.expect("a reply").text(), "done");
    board.close().await;
}

/// A server whose tool `long` streams more notices than an inbox holds, once `dies` has lost its connection.
async fn streaming(go: Arc<Notify>, finish: bool) -> String {
    http(move |posted| {
        let go = go.clone();
        async move {
            let id = posted.message["id"].clone();
            match (posted.method(), posted.message["params"]["name"].as_str()) {
                ("tools/call", Some("long")) => {
                    let mut socket = posted.events().await;
                    event(&mut socket, r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"begun"}}"#).await;
                    go.notified().await;
                    for n in 0..2_000 {
                        let progress = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":{n}}}}}"#);
                        event(&mut socket, &progress).await;
                    }
                    if finish {
                        event(&mut socket, &result(&id, TEXT)).await;
                    } else {
                        std::future::pending::<()>().await;
                    }
                }
                ("tools/call", _) => drop(posted),
                _ => match usual(&posted.message) {
                    Some(answer) => posted.json("", &answer).await,
                    None if posted.http_method == "GET" => posted.respond("405 No", "", "").await,
                    None => posted.respond("202 Accepted", "", "").await,
                },
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_streaming_call_outlives_the_end_of_its_generation() {
    for finish in [true, false] {
        let go = Arc::new(Notify::new());
        let url = streaming(go.clone(), finish).await;
        let board = board(Settings { health_strikes_max: 1, ..Settings::default() }, &url).await;
        let handle = board.server("s").expect("a server");
        within(handle.connect(None)).await.expect("connects");
        let mut events = board.events();
        let progressed = Arc::new(AtomicUsize::new(0));
        let counted = progressed.clone();
        let long = handle.clone();
        let call = tokio::spawn(async move {
            let progress: callboard::ProgressSink = Arc::new(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            long.call_tool("long", "{}", CallOptions { progress: Some(progress), ..CallOptions::default() })
                .await
        });
        while !format!("{:?}", within(events.recv()).await.expect("an event")).contains("begun") {}
        // One strike ends the generation for new calls.
        within(handle.call_tool("dies", "{}", CallOptions::default())).await.expect_err("dies");
        go.notify_one();
        if finish {
            assert_eq!(within(call).await.expect("no panic").expect("a reply").text(), "done");
            // The reply does not wait for the last notices before it.
            assert!(progressed.load(Ordering::Relaxed) > 256);
            within(board.close()).await;
            continue;
        }
        while progressed.load(Ordering::Relaxed) < 2_000 {
            tokio::task::yield_now().await;
        }
        let begun = Instant::now();
        within(board.close()).await;
        let ended =
            tokio::time::timeout(AT_ONCE, call).await.expect("it outlives the board").expect("no panic");
        assert!(matches!(ended, Err(CallError::Lost { .. })), "{ended:?}");
        assert!(begun.elapsed() < AT_ONCE, "closing took {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_flood_of_pings_over_http_does_not_become_a_flood_of_posts() {
    let answers = Arc::new(AtomicUsize::new(0));
    let counted = answers.clone();
    let url = http(move |posted| {
        let counted = counted.clone();
        async move {
            let id = posted.message["id"].clone();
            match posted.method() {
                "tools/call" => {
                    let mut socket = posted.events().await;
                    for n in 0..5_000 {
                        event(&mut socket, &format!(r#"{{"jsonrpc":"2.0","id":"p{n}","method":"ping"}}"#))
                            .await;
                    }
                    event(&mut socket, &result(&id, TEXT)).await;
                }
                "" if posted.http_method == "POST" => {
                    // Takes the answer to a ping and never acknowledges it.
                    counted.fetch_add(1, Ordering::Relaxed);
                    std::future::pending::<()>().await;
                }
                _ => match usual(&posted.message) {
                    Some(answer) => posted.json("", &answer).await,
                    None if posted.http_method == "GET" => posted.respond("405 No", "", "").await,
                    None => posted.respond("202 Accepted", "", "").await,
                },
            }
        }
    })
    .await;
    let board = board(Settings::default(), &url).await;
    let handle = board.server("s").expect("a server");
    assert_eq!(within(handle.call_tool("t", "{}", options())).await.expect("a reply").text(), "done");
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks < 600, "{tasks} tasks");
    within(board.close()).await;
    assert!(answers.load(Ordering::Relaxed) <= 256);
}

#[tokio::test]
async fn a_server_that_forgets_every_session_is_not_initialised_for_ever() {
    let initialized = Arc::new(AtomicUsize::new(0));
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, called) = (initialized.clone(), calls.clone());
    let url = http(move |posted| {
        let (counted, called) = (counted.clone(), called.clone());
        async move {
            match posted.method() {
                "initialize" => {
                    let n = counted.fetch_add(1, Ordering::Relaxed);
                    let answer = result(&posted.message["id"], LEGACY);
                    posted.json(&format!("Mcp-Session-Id: n{n}\r\n"), &answer).await;
                }
                "server/discover" => {
                    let answer = error(&posted.message["id"], -32601);
                    posted.json("", &answer).await;
                }
                "notifications/initialized" => posted.respond("202 Accepted", "", "").await,
                method => {
                    called.fetch_add(usize::from(method == "tools/call"), Ordering::Relaxed);
                    posted.respond("404 Not Found", "", "").await;
                }
            }
        }
    })
    .await;
    let settings = Settings { reconnect_backoff_initial: Duration::from_millis(50), ..Settings::default() };
    let board = board(settings, &url).await;
    let handle = board.server("s").expect("a server");
    within(handle.call_tool("t", "{}", options())).await.expect_err("refused");
    while within(async { handle.state().word() }).await != "failed" {
        let mut events = board.events();
        let _ = tokio::time::timeout(Duration::from_millis(100), events.recv()).await;
    }
    assert!(initialized.load(Ordering::Relaxed) <= 7, "{initialized:?}");
    assert!(calls.load(Ordering::Relaxed) <= 2, "{calls:?}");
    within(board.close()).await;
}

#[tokio::test]
async fn a_session_lost_under_64_calls_is_renewed_once() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let performed = Arc::new(AtomicUsize::new(0));
    let (counted, done) = (sessions.clone(), performed.clone());
    let url = http(move |posted| {
        let (counted, done) = (counted.clone(), done.clone());
        async move {
            let id = posted.message["id"].clone();
            match posted.method() {
                "initialize" => {
                    let n = counted.fetch_add(1, Ordering::Relaxed) + 1;
                    posted.json(&format!("Mcp-Session-Id: n{n}\r\n"), &result(&id, LEGACY)).await;
                }
                "tools/call" if posted.head.contains("mcp-session-id: n1") => {
                    posted.respond("404 Not Found", "", "").await;
                }
                "tools/call" => {
                    done.fetch_add(1, Ordering::Relaxed);
                    posted.json("", &result(&id, TEXT)).await;
                }
                _ => match usual(&posted.message) {
                    Some(answer) => posted.json("", &answer).await,
                    None if posted.http_method == "GET" => posted.respond("405 No", "", "").await,
                    None => posted.respond("202 Accepted", "", "").await,
                },
            }
        }
    })
    .await;
    let board = board(Settings::default(), &url).await;
    let handle = board.server("s").expect("a server");
    within(handle.connect(None)).await.expect("connects");
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let handle = handle.clone();
            tokio::spawn(async move { handle.call_tool("t", "{}", options()).await })
        })
        .collect();
    for call in calls {
        within(call).await.expect("no panic").expect("a reply");
    }
    assert_eq!((sessions.load(Ordering::Relaxed), performed.load(Ordering::Relaxed)), (2, 64));
    within(board.close()).await;
}

#[tokio::test]
async fn a_question_to_a_person_ends_with_its_connection_and_with_the_board() {
    struct Absent(Arc<Notify>);
    impl callboard::Elicitation for Absent {
        fn elicit(
            &self,
            _: callboard::ElicitRequest,
        ) -> callboard::BoxFuture<'static, callboard::ElicitAnswer> {
            self.0.notify_one();
            Box::pin(std::future::pending())
        }
    }
    for closes in [false, true] {
        let (asked, die) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let calls = Arc::new(AtomicUsize::new(0));
        let (dying, counted) = (die.clone(), calls.clone());
        let board = Board::builder()
            .settings(Settings { reconnect_stdio: false, ..Settings::default() })
            .elicitation(Arc::new(Absent(asked.clone())))
            .server(ServerSpec::in_process("s", "k"))
            .in_process("k", move || {
                let (dying, counted) = (dying.clone(), counted.clone());
                let (ours, theirs) = tokio::io::duplex(64 * 1024);
                tokio::spawn(async move {
                    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
                    let (read, mut write) = tokio::io::split(theirs);
                    let mut lines = BufReader::new(read).lines();
                    loop {
                        let line = tokio::select! {
                            biased;
                            () = dying.notified() => return,
                            line = lines.next_line() => line,
                        };
                        let Ok(Some(line)) = line else { return };
                        let message: serde_json::Value = serde_json::from_str(&line).expect("JSON");
                        let id = &message["id"];
                        let answer = match message["method"].as_str() {
                            Some("server/discover") => result(id, MODERN),
                            Some("tools/call") => {
                                counted.fetch_add(1, Ordering::Relaxed);
                                result(id, r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"who?"}}}}"#)
                            }
                            Some("tools/list") => result(id, r#"{"tools":[]}"#),
                            _ => continue,
                        };
                        write.write_all(format!("{answer}\n").as_bytes()).await.expect("writes");
                    }
                });
                std::future::ready(Ok(ours))
            })
            .build()
            .await
            .expect("a board");
        let handle = board.server("s").expect("a server");
        let call = tokio::spawn(async move { handle.call_tool("t", "{}", CallOptions::default()).await });
        within(asked.notified()).await;
        match closes {
            true => within(board.close()).await,
            false => die.notify_one(),
        }
        let ended = tokio::time::timeout(AT_ONCE, call).await.expect("it hangs").expect("no panic");
        let ended = ended.expect_err("nobody answered");
        assert!(matches!(ended, CallError::Lost { .. }), "{ended:?}");
        assert_eq!(ended.delivery(), callboard::Delivery::Unknown);
        assert_eq!(
            calls.load(Ordering::Relaxed),
            1,
            "a call whose first round was answered is never begun anew"
        );
        within(board.close()).await;
    }
}

#[tokio::test]
async fn a_hundred_callers_of_whom_many_give_up_get_their_own_answers() {
    let cancelled = Arc::new(AtomicUsize::new(0));
    let counted = cancelled.clone();
    let board = Board::builder()
        .server(ServerSpec::in_process("s", "k"))
        .in_process("k", move || {
            let counted = counted.clone();
            std::future::ready(stream(move |message, lines| {
                let id = message["id"].clone();
                match message["method"].as_str() {
                    Some("tools/call") => {
                        let n = message["params"]["arguments"]["n"].as_u64().expect("a number");
                        if n % 3 == 0 {
                            return;
                        }
                        // Also twice, also under ids that nobody waits for, also as a text.
                        let answer = |id: &serde_json::Value| {
                            result(id, &format!(r#"{{"content":[{{"type":"text","text":"{n}"}}]}}"#))
                        };
                        let _ = lines.send(answer(&serde_json::Value::from(id.to_string())));
                        let _ = lines.send(answer(&id));
                        let _ = lines
                            .send(answer(&serde_json::Value::from(id.as_u64().expect("ours") + 100_000)));
                    }
                    Some("notifications/cancelled") => drop(counted.fetch_add(1, Ordering::Relaxed)),
                    _ => drop(usual(&message).map(|answer| lines.send(answer))),
                }
            }))
        })
        .build()
        .await
        .expect("a board");
    let handle = board.server("s").expect("a server");
    within(handle.connect(None)).await.expect("connects");
    let calls: Vec<_> = (0..300_u64)
        .map(|n| {
            let handle = handle.clone();
            tokio::spawn(async move {
                let arguments = format!(r#"{{"n":{n}}}"#);
                let limit = if n % 6 == 0 { Duration::from_millis(150) } else { BOUND };
                let call = handle.call_tool("t", &arguments, CallOptions::with_timeout(limit));
                match n % 6 {
                    // Silence: the caller goes away.
                    3 => drop(
                        tokio::time::timeout(Duration::from_millis(150), call).await.expect_err("silence"),
                    ),
                    0 => assert!(matches!(
                        call.await,
                        Err(CallError::TimedOut { .. } | CallError::QueueFull { .. })
                    )),
                    _ => assert_eq!(call.await.expect("a reply").text(), n.to_string()),
                }
            })
        })
        .collect();
    for call in calls {
        within(call).await.expect("no panic");
    }
    // The connection is as it was.
    let reply = within(handle.call_tool("t", r#"{"n":1}"#, options())).await.expect("a reply");
    assert_eq!(reply.text(), "1");
    assert!(cancelled.load(Ordering::Relaxed) > 0);
    within(board.close()).await;
}

#[tokio::test]
async fn a_call_whose_time_is_up_before_it_is_sent_is_not_sent() {
    let called = Arc::new(AtomicUsize::new(0));
    let counted = called.clone();
    let board = Board::builder()
        .server(ServerSpec::in_process("s", "k"))
        .in_process("k", move || {
            let counted = counted.clone();
            std::future::ready(stream(move |message, lines| {
                counted.fetch_add(usize::from(message["method"] == "tools/call"), Ordering::Relaxed);
                drop(usual(&message).map(|answer| lines.send(answer)));
            }))
        })
        .build()
        .await
        .expect("a board");
    let handle = board.server("s").expect("a server");
    within(handle.connect(None)).await.expect("connects");
    let options = CallOptions::with_timeout(Duration::from_nanos(1));
    let error = within(handle.call_tool("t", "{}", options)).await.expect_err("too late");
    assert_eq!(error.delivery(), callboard::Delivery::NotSent);
    let endless =
        CallOptions { idle_timeout: Some(Duration::MAX), ..CallOptions::with_timeout(Duration::MAX) };
    let waiting = handle.clone();
    let call = tokio::spawn(async move { waiting.call_tool("t", "{}", endless).await });
    while called.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    within(board.close()).await;
    assert!(begun.elapsed() < AT_ONCE);
    assert!(matches!(within(call).await.expect("no panic"), Err(CallError::Lost { .. })));
    assert_eq!(called.load(Ordering::Relaxed), 1);
}
