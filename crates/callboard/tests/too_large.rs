//! A result over the limit: a typed error to its own caller at once, and the connection goes on.

use callboard::protocol::Era;
use callboard::{Board, CallError, CallOptions, CloseReason, EraPin, ServerSpec, Settings};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;

const LIMIT: usize = 1024 * 1024;
/// "At once" of failure-classes.md.
const AT_ONCE: Duration = Duration::from_millis(100);
/// Longest that anything here may take.
const BOUND: Duration = Duration::from_secs(20);

/// Answers the handshake and `small`; of the answer to `big` it writes more than the limit, tells when, and
/// ends the line only when the next request comes.
async fn serve(stream: DuplexStream, passed: mpsc::UnboundedSender<Instant>) {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    let mut unfinished = false;
    while let Ok(Some(line)) = lines.next_line().await {
        if std::mem::take(&mut unfinished) {
            write.write_all(b"\"}]}}\n").await.expect("the client reads");
        }
        let message: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let Some(id) = message.get("id") else { continue };
        let result = match (message["method"].as_str(), message["params"]["name"].as_str()) {
            (Some("initialize"), _) => {
                r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#
            }
            (_, Some("big")) => {
                let start =
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
                write.write_all(start.as_bytes()).await.expect("the client reads");
                write.write_all(&vec![b'x'; LIMIT + 1]).await.expect("the client reads");
                passed.send(Instant::now()).expect("the test waits");
                unfinished = true;
                continue;
            }
            _ => r#"{"content":[{"type":"text","text":"small"}]}"#,
        };
        let reply = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
        write.write_all(reply.as_bytes()).await.expect("the client reads");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_over_the_limit_fails_its_caller_at_once_and_no_other() {
    let (passed, mut told) = mpsc::unbounded_channel();
    let mut spec = ServerSpec::in_process("s", "k");
    spec.options.protocol_era = EraPin::Pinned(Era::Legacy);
    let board = Board::builder()
        .settings(Settings { wire_frame_bytes_max: LIMIT, ..Settings::default() })
        .in_process("k", move || {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            tokio::spawn(serve(theirs, passed.clone()));
            async { Ok(ours) }
        })
        .server(spec)
        .build()
        .await
        .expect("a board");
    let server = board.server("s").expect("a server");
    let options = || CallOptions::with_timeout(BOUND);

    let refused = server.call_tool("big", "{}", options()).await;
    let ended = Instant::now();
    let passed = tokio::time::timeout(BOUND, told.recv()).await.expect("in time").expect("written");
    let Err(CallError::Lost { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(matches!(*reason, CloseReason::TooLarge { limit: LIMIT }), "{reason}");
    let took = ended.saturating_duration_since(passed);
    assert!(took < AT_ONCE, "the error came {took:?} after the limit was passed");

    let generation = server.status().generation;
    assert_eq!(server.call_tool("small", "{}", options()).await.expect("a reply").text(), "small");
    assert_eq!(server.status().generation, generation);
    board.close().await;
}
