//! Calls that must wait: for a place, for a server that asked to be left alone, for the next connection. And
//! connections that are given up for what their calls meet.

mod peer;

use callboard::{
    Board, CallError, CallOptions, Clock, ConnHandle, Delivery, EventKind, ServerSpec, Settings,
};
use peer::{BOUND, MODERN, Posted, TEXT, http, result, stream, usual, within};
use serde_json::Value;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

fn options() -> CallOptions {
    CallOptions::with_timeout(BOUND)
}

fn by(caller: &str) -> CallOptions {
    CallOptions { caller: Some(caller.into()), ..options() }
}

fn call(handle: &ConnHandle, tool: &str, options: CallOptions) -> JoinHandle<Result<String, CallError>> {
    let (handle, tool) = (handle.clone(), tool.to_owned());
    tokio::spawn(async move {
        handle.call_tool(&tool, "{}", options).await.map(|reply| reply.text().into_owned())
    })
}

async fn until(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn usually(posted: Posted) {
    match usual(&posted.message) {
        Some(answer) => posted.json("", &answer).await,
        None if posted.http_method == "POST" => posted.respond("202 Accepted", "", "").await,
        None => posted.respond("405 No", "", "").await,
    }
}

/// A board with one HTTP server, which answers the n-th tool call, counted from 0, in this way.
async fn board_of<Taking>(
    settings: Settings,
    answer: impl Fn(usize, Posted) -> Taking + Send + Sync + 'static,
) -> (Board, ConnHandle)
where
    Taking: Future<Output = ()> + Send + 'static,
{
    let calls = AtomicUsize::new(0);
    let answer = Arc::new(answer);
    let url = http(move |posted| {
        let n = match posted.method() {
            "tools/call" => Some(calls.fetch_add(1, Ordering::SeqCst)),
            _ => None,
        };
        let answer = answer.clone();
        async move {
            match n {
                Some(n) => answer(n, posted).await,
                None => usually(posted).await,
            }
        }
    })
    .await;
    let board = Board::builder().settings(settings).server(ServerSpec::http("s", url)).build().await;
    let board = board.expect("a board");
    let handle = board.server("s").expect("a server");
    within(handle.connect(None)).await.expect("connects");
    (board, handle)
}

async fn done(posted: Posted) {
    let answer = result(&posted.message["id"], TEXT);
    posted.json("", &answer).await;
}

async fn event<T>(events: &mut Events, found: impl Fn(EventKind) -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(found) = found(events.recv().await.expect("an event").event) {
                return found;
            }
        }
    })
    .await
}

type Events = tokio::sync::broadcast::Receiver<callboard::BoardEvent>;

#[tokio::test]
async fn a_busy_server_is_left_alone_for_as_long_as_it_asks() {
    let (board, handle) = board_of(Settings::default(), |n, posted| async move {
        match n {
            0 => posted.respond("503 Busy", "Retry-After: 1\r\n", "later").await,
            _ => done(posted).await,
        }
    })
    .await;
    let mut events = board.events();
    let refused = within(call(&handle, "t", options())).await.expect("no panic").expect_err("busy");
    assert_eq!(refused.reason().and_then(|reason| reason.http_status()), Some(503));
    let begun = Instant::now();
    let held = event(&mut events, |event| match event {
        EventKind::QueueHeld { for_ms, status } => Some((for_ms, status)),
        _ => None,
    });
    assert_eq!(held.await, (1_000, 503));
    let waits = call(&handle, "t", options());
    let other = handle.clone();
    let ping = tokio::spawn(async move { other.ping().await.map(|()| Instant::now()) });
    until(|| handle.calls().queued == 2).await;
    let calls = board.status().servers[0].calls;
    assert!(calls.held_for_ms.is_some_and(|ms| ms <= 1_000) && calls.in_flight == 0, "{calls:?}");
    assert_eq!(within(waits).await.expect("no panic").expect("a reply"), "done");
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    // The server knows no ping; what matters is that it was not asked before.
    let _ = within(ping).await.expect("no panic");
    let calls = handle.calls();
    assert_eq!((calls.in_flight, calls.queued, calls.held_for_ms), (0, 0, None));
    board.close().await;
}

#[tokio::test]
async fn a_held_call_ends_at_its_own_deadline_and_says_what_the_server_asked_for() {
    let (board, handle) = board_of(Settings::default(), |_, posted| async move {
        posted.respond("429 Slow down", "Retry-After: 30\r\n", "").await;
    })
    .await;
    let refused = within(call(&handle, "t", options())).await.expect("no panic").expect_err("busy");
    assert_eq!(refused.delivery(), Delivery::Refused);
    let short = CallOptions::with_timeout(Duration::from_millis(200));
    let error = within(call(&handle, "t", short)).await.expect("no panic").expect_err("held");
    assert!(matches!(error, CallError::TimedOut { clock: Clock::Queue, delivery: Delivery::NotSent, .. }));
    let text = error.to_string();
    assert!(text.contains("answered HTTP 429 and asked to wait another 29"), "{text}");
    // What waits ends with the board, not with the hold.
    let waits = call(&handle, "t", options());
    until(|| handle.calls().queued == 1).await;
    within(board.close()).await;
    assert!(matches!(within(waits).await.expect("no panic"), Err(CallError::Closed)));
}

#[tokio::test]
async fn a_hold_survives_a_reconnect() {
    let (board, handle) = board_of(Settings::default(), |n, posted| async move {
        match n {
            0 => posted.respond("429 Slow down", "Retry-After: 1\r\n", "").await,
            _ => done(posted).await,
        }
    })
    .await;
    let _ = within(call(&handle, "t", options())).await;
    let begun = Instant::now();
    let waits = call(&handle, "t", options());
    until(|| handle.calls().queued == 1).await;
    let before = handle.status().generation;
    handle.reconnect();
    until(|| handle.status().generation > before).await;
    assert!(handle.calls().held_for_ms.is_some());
    assert_eq!(within(waits).await.expect("no panic").expect("a reply"), "done");
    assert!(begun.elapsed() >= Duration::from_millis(800), "{:?}", begun.elapsed());
    board.close().await;
}

/// A body that ends before its length is reached.
async fn cut(mut posted: Posted) {
    use tokio::io::AsyncWriteExt;
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let _ = posted.socket.write_all(head).await;
}

async fn strikes(events: &mut Events) -> (u32, String) {
    event(events, |event| match event {
        EventKind::Strikes { strikes, cause } => Some((strikes, cause)),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn three_terminal_failures_in_a_row_end_a_connection() {
    let (board, handle) = board_of(Settings::default(), |n, posted| async move {
        match n {
            0..3 => cut(posted).await,
            _ => done(posted).await,
        }
    })
    .await;
    let (mut events, generation) = (board.events(), handle.status().generation);
    for n in 1..=3 {
        let error = within(call(&handle, "t", options())).await.expect("no panic").expect_err("cut");
        assert_eq!(error.reason().and_then(|r| r.signal()).map(|s| s.as_str()), Some("terminated"));
        let (strikes, cause) = strikes(&mut events).await;
        assert_eq!((strikes, cause.contains("3 in a row")), (n, n == 3), "{cause}");
        assert!(cause.starts_with("terminated: "), "{cause}");
    }
    assert_eq!(within(call(&handle, "t", options())).await.expect("no panic").expect("a reply"), "done");
    assert_eq!((handle.status().generation, handle.calls().strikes), (generation + 1, 0));
    board.close().await;
}

#[tokio::test]
async fn answers_in_between_do_not_keep_a_sick_connection_for_ever() {
    let (board, handle) = board_of(Settings::default(), |n, posted| async move {
        match n % 2 {
            0 if n < 9 => cut(posted).await,
            _ => done(posted).await,
        }
    })
    .await;
    let (mut events, generation) = (board.events(), handle.status().generation);
    for n in 0..9 {
        let ended = within(call(&handle, "t", options())).await.expect("no panic");
        assert_eq!(ended.is_ok(), n % 2 == 1, "{n}");
        if n % 2 == 0 {
            let (strikes, cause) = strikes(&mut events).await;
            assert_eq!((strikes, cause.contains("5 of the last 9")), (1, n == 8), "{cause}");
        }
    }
    assert_eq!(within(call(&handle, "t", options())).await.expect("no panic").expect("a reply"), "done");
    assert_eq!(handle.status().generation, generation + 1);
    board.close().await;
}

#[tokio::test]
async fn a_server_that_answers_errors_is_well() {
    let (board, handle) = board_of(Settings::default(), |n, posted| async move {
        match n % 2 {
            0 => posted.respond("503 Busy", "", "later").await,
            _ => {
                let answer = peer::error(&posted.message["id"], -32000);
                posted.json("", &answer).await;
            }
        }
    })
    .await;
    let generation = handle.status().generation;
    for _ in 0..12 {
        assert!(within(call(&handle, "t", options())).await.expect("no panic").is_err());
    }
    assert_eq!((handle.status().generation, handle.calls().strikes), (generation, 0));
    board.close().await;
}

/// A server in this process that tells of each tool call, and answers it when it is let.
struct Slow {
    board: Board,
    handle: ConnHandle,
    called: mpsc::UnboundedReceiver<String>,
    answer: mpsc::UnboundedSender<()>,
}

async fn slow(settings: Settings) -> Slow {
    let (tell, called) = mpsc::unbounded_channel();
    let (answer, answers) = mpsc::unbounded_channel();
    let answers = Arc::new(Mutex::new(answers));
    let board = Board::builder()
        .settings(settings)
        .server(ServerSpec::in_process("s", "k"))
        .in_process("k", move || {
            let (tell, answers) = (tell.clone(), answers.clone());
            std::future::ready(stream(move |message, lines| {
                if message["method"] != "tools/call" {
                    return drop(usual(&message).map(|answer| lines.send(answer)));
                }
                let _ = tell.send(message["params"]["name"].as_str().expect("a name").to_owned());
                let (answers, lines) = (answers.clone(), lines.clone());
                tokio::spawn(async move {
                    let let_go = answers.lock().await.recv().await;
                    let_go.map(|()| lines.send(result(&message["id"], TEXT)))
                });
            }))
        })
        .build()
        .await
        .expect("a board");
    let handle = board.server("s").expect("a server");
    within(handle.connect(None)).await.expect("connects");
    Slow { board, handle, called, answer }
}

fn one_at_a_time() -> Settings {
    Settings { call_in_flight_max: 1, ..Settings::default() }
}

#[tokio::test]
async fn one_caller_with_many_calls_does_not_keep_another_waiting() {
    let mut slow = slow(one_at_a_time()).await;
    let mut calls = vec![call(&slow.handle, "first", by("a"))];
    assert_eq!(within(slow.called.recv()).await.as_deref(), Some("first"));
    for (n, (tool, caller)) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")].into_iter().enumerate() {
        calls.push(call(&slow.handle, tool, by(caller)));
        until(|| slow.handle.calls().queued == n + 1).await;
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        slow.answer.send(()).expect("a server");
        order.push(within(slow.called.recv()).await.expect("a call"));
    }
    assert_eq!(order, ["a1", "b1", "a2", "a3"]);
    slow.answer.send(()).expect("a server");
    for call in calls {
        assert_eq!(within(call).await.expect("no panic").expect("a reply"), "done");
    }
    assert_eq!(slow.handle.calls().in_flight, 0);
    slow.board.close().await;
}

#[tokio::test]
async fn a_call_that_waits_for_a_place_outlives_the_connection() {
    let mut slow = slow(one_at_a_time()).await;
    let lost = call(&slow.handle, "lost", options());
    assert_eq!(within(slow.called.recv()).await.as_deref(), Some("lost"));
    let waits = call(&slow.handle, "waits", options());
    until(|| slow.handle.calls().queued == 1).await;
    slow.handle.reconnect();
    let lost = within(lost).await.expect("no panic").expect_err("its connection has ended");
    assert_eq!(lost.delivery(), Delivery::Unknown);
    assert_eq!(within(slow.called.recv()).await.as_deref(), Some("waits"));
    // The lost call still has an answer coming to it at the server, where nobody reads it.
    slow.answer.send(()).expect("a server");
    slow.answer.send(()).expect("a server");
    assert_eq!(within(waits).await.expect("no panic").expect("a reply"), "done");
    slow.board.close().await;
}

#[tokio::test]
async fn a_call_that_waits_in_vain_says_what_was_before_it() {
    let mut slow = slow(Settings { call_queue_max: 1, ..one_at_a_time() }).await;
    let _first = call(&slow.handle, "first", options());
    assert_eq!(within(slow.called.recv()).await.as_deref(), Some("first"));
    let waits = call(&slow.handle, "waits", options());
    until(|| slow.handle.calls().queued == 1).await;
    let error = within(call(&slow.handle, "t", options())).await.expect("no panic").expect_err("full");
    assert_eq!(error.to_string(), "the queue of server s is full (1 calls wait; call.queue_max)");
    waits.abort();
    until(|| slow.handle.calls().queued == 0).await;
    let short = CallOptions::with_timeout(Duration::from_millis(100));
    let error = within(call(&slow.handle, "t", short)).await.expect("no panic").expect_err("late");
    let text = error.to_string();
    assert!(
        text.starts_with("tools/call t, behind 1 calls in flight (call.in_flight_max), timed out"),
        "{text}"
    );
    slow.board.close().await;
}

#[tokio::test]
async fn a_switched_off_server_lets_nobody_wait_for_a_place() {
    let mut slow = slow(one_at_a_time()).await;
    let _first = call(&slow.handle, "first", options());
    assert_eq!(within(slow.called.recv()).await.as_deref(), Some("first"));
    let waits = call(&slow.handle, "waits", options());
    until(|| slow.handle.calls().queued == 1).await;
    slow.handle.disable();
    let error = within(waits).await.expect("no panic").expect_err("switched off");
    assert!(matches!(error, CallError::NotConnected { .. }), "{error}");
    slow.board.close().await;
}

#[tokio::test]
async fn a_slow_call_is_told_of_while_it_is_under_way() {
    let mut slow = slow(Settings { call_slow_after: Duration::from_millis(50), ..Settings::default() }).await;
    let mut events = slow.board.events();
    let waits = call(&slow.handle, "snail", options());
    assert_eq!(within(slow.called.recv()).await.as_deref(), Some("snail"));
    let told = event(&mut events, |event| match event {
        EventKind::SlowCall { tool, elapsed_ms } => Some((tool, elapsed_ms)),
        _ => None,
    });
    let (tool, elapsed_ms) = told.await;
    assert!(tool == "snail" && elapsed_ms >= 50, "{tool} {elapsed_ms}");
    slow.answer.send(()).expect("a server");
    assert_eq!(within(waits).await.expect("no panic").expect("a reply"), "done");
    slow.board.close().await;
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// What the server is given as `_meta` of a call with this trace context.
async fn meta_of(is_modern: bool, traceparent: &str) -> Value {
    let (tell, mut told) = mpsc::unbounded_channel();
    let board = Board::builder()
        .server(ServerSpec::in_process("s", "k"))
        .in_process("k", move || {
            let tell = tell.clone();
            std::future::ready(stream(move |message, lines| {
                let answer = match message["method"].as_str() {
                    Some("server/discover") if is_modern => Some(result(&message["id"], MODERN)),
                    Some("tools/call") => {
                        let _ = tell.send(message["params"]["_meta"].clone());
                        let text = TEXT.replacen('{', r#"{"resultType":"complete","#, 1);
                        Some(result(&message["id"], &text))
                    }
                    _ => usual(&message),
                };
                drop(answer.map(|answer| lines.send(answer)));
            }))
        })
        .build()
        .await
        .expect("a board");
    let handle = board.server("s").expect("a server");
    let options = CallOptions { traceparent: Some(traceparent.into()), ..options() };
    within(handle.call_tool("t", "{}", options)).await.expect("a reply");
    board.close().await;
    told.recv().await.expect("a call")
}

#[tokio::test]
async fn a_trace_context_goes_out_in_both_eras_and_a_false_one_in_none() {
    for is_modern in [false, true] {
        let meta = meta_of(is_modern, TRACE).await;
        assert_eq!(
            (&meta["traceparent"], meta["progressToken"].is_u64()),
            (&Value::from(TRACE), true),
            "{meta}"
        );
        let meta = meta_of(is_modern, "00-x").await;
        assert_eq!((meta.get("traceparent"), meta["progressToken"].is_u64()), (None, true), "{meta}");
    }
}
