//! Failures of processes that were seen with other clients, against the built command and the board.
//! F304 has a file of its own, `process_rounds.rs`.
#![cfg(target_os = "linux")]

mod common;

use callboard::{Board, CallError, CallOptions, ConnHandle, ServerSpec, Settings};
use common::{Family, PATIENCE, callboard, described, send, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Gone after a failed connect or an ended command: the two graces are 4 s.
const GONE_MAX: Duration = Duration::from_secs(5);

/// "Within seconds": the first gap before a restart is one.
const SERVED_MAX: Duration = Duration::from_secs(10);

/// Runs a command with one server to its end, bounded; its exit code.
#[track_caller]
fn run(family: &Family, entry: Value, words: &[&str]) -> Option<i32> {
    let file = family.write(&BTreeMap::from([("one".to_owned(), entry)]));
    let mut child =
        family.command(callboard()).arg("--config").arg(file).args(words).spawn().expect("starts");
    let mut end = None;
    until(PATIENCE, || {
        end = child.try_wait().expect("an own child");
        end.is_some()
    });
    if end.is_none() {
        child.kill().expect("killed");
        child.wait().expect("reaped");
    }
    end.unwrap_or_else(|| panic!("{words:?} goes on: {}", family.text("stderr"))).code()
}

/// A board with this one server.
async fn board(entry: &Value, settings: Settings) -> (Board, ConnHandle) {
    let words = entry["args"].as_array().expect("words").iter();
    let words = words.map(|word| word.as_str().expect("a text").to_owned());
    let command = entry["command"].as_str().expect("a command");
    let spec = ServerSpec::stdio("one", command, words);
    let board = Board::builder().settings(settings).server(spec).build().await.expect("built");
    let server = board.server("one").expect("just given");
    (board, server)
}

/// The process that answers.
async fn answering(server: &ConnHandle) -> Result<u32, CallError> {
    let answer = timeout(SERVED_MAX, server.call_tool("pid", "{}", CallOptions::default()));
    let reply = answer.await.expect("ends within seconds")?;
    Ok(reply.text().trim().parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f301_a_shell_and_its_child_end_with_the_connect_limit() {
    let family = Family::new("f301");
    let settings = Settings { connect_timeout: Duration::from_millis(700), ..Settings::default() };
    let (board, server) = board(&family.script(r#"echo x; "$@"; :"#, &["--lingers"]), settings).await;
    let connecting = tokio::spawn(async move { server.connect(None).await });
    assert!(until(PATIENCE, || family.living().len() >= 2), "shell and child: {:?}", family.living());
    let failed = timeout(PATIENCE, connecting).await.expect("the limit passes").expect("no panic");
    assert!(failed.is_err(), "a shell is no server");
    family.gone_within(GONE_MAX).expect("nothing is left, although the board lives on");
    board.close().await;
}

#[test]
fn f302_a_shell_pipe_ends_with_the_command() {
    for words in [&["get", "one"][..], &["list", "--health"], &["status"], &["tools"], &["call", "one/pid"]] {
        let family = Family::new("f302");
        let up = family.path().join("up").to_string_lossy().into_owned();
        let entry = family.script(r#"cat | "$@" | cat"#, &["--plain", "--up", &up]);
        assert_eq!(run(&family, entry, words), Some(0), "{words:?}: {}", family.text("stderr"));
        assert!(family.path().join("up").exists(), "{words:?} did not connect");
        family.gone_within(GONE_MAX).unwrap_or_else(|left| panic!("{words:?}: {left}"));
    }
}

#[test]
fn f303_a_grandchild_ends_with_the_list_and_with_the_limit() {
    let given = &["list", "--health"][..];
    let limited = &["status", "--timeout", "1s"][..];
    for (manners, words, code) in [
        (&["--grandchild"][..], given, 0),
        (&["--grandchild", "--deaf"], given, 0),
        (&["--grandchild", "--silent"], limited, 8),
        (&["--grandchild", "--silent", "--deaf"], limited, 8),
    ] {
        let family = Family::new("f303");
        let entry = family.entry(manners);
        assert_eq!(run(&family, entry, words), Some(code), "{manners:?}: {}", family.text("stderr"));
        family.gone_within(GONE_MAX).unwrap_or_else(|left| panic!("{manners:?} {words:?}: {left}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f312_a_killed_server_is_restarted_and_the_next_call_succeeds() {
    let family = Family::new("f312");
    let (board, server) = board(&family.entry(&["--grandchild"]), Settings::default()).await;
    let first = answering(&server).await.expect("answers");
    assert_eq!(server.process_id(), Some(first));
    send(first, libc::SIGKILL);
    assert!(until(PATIENCE, || server.process_id() != Some(first)), "its end was not seen");
    let second = answering(&server).await.expect("served after the restart, without a person");
    assert_ne!(first, second);
    let has_two = || family.living().len() == 2;
    assert!(until(GONE_MAX, has_two), "one server and its child: {:?}", described(&family.living()));
    board.close().await;
    assert!(family.living().is_empty(), "{:?}", described(&family.living()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f314_a_call_to_a_server_that_died_unseen_ends_within_seconds() {
    for manners in [&["--plain"][..], &["--grandchild"], &["--grandchild", "--deaf"]] {
        let family = Family::new("f314");
        let (board, server) = board(&family.entry(manners), Settings::default()).await;
        let first = answering(&server).await.expect("answers");
        send(first, libc::SIGKILL);
        let asked = Instant::now();
        match answering(&server).await {
            Ok(second) => assert_ne!(first, second, "{manners:?}"),
            Err(CallError::TimedOut { .. }) => panic!("{manners:?}: a limit ended it"),
            Err(_) => assert!(asked.elapsed() < Duration::from_secs(2), "{manners:?}: {:?}", asked.elapsed()),
        }
        let second = answering(&server).await.expect("served after the restart");
        assert_ne!(first, second, "{manners:?}");
        board.close().await;
        assert!(family.living().is_empty(), "{manners:?}: {:?}", described(&family.living()));
    }
}
