//! A board whose configuration changes while it runs.

mod peer;

use callboard::protocol::Era;
use callboard::{Board, CallOptions, EraPin, ServerName, ServerSpec, StateView};
use peer::{stream, usual, within};

fn names(names: &[ServerName]) -> Vec<&str> {
    names.iter().map(ServerName::as_str).collect()
}

async fn board(servers: Vec<ServerSpec>) -> Board {
    let answering = || {
        std::future::ready(stream(|message, lines| {
            let answer = match message["method"].as_str() {
                Some("tools/call") => Some(peer::result(&message["id"], peer::TEXT)),
                _ => usual(&message),
            };
            drop(answer.map(|answer| lines.send(answer)));
        }))
    };
    let builder = Board::builder().servers(servers).seed(7);
    builder.in_process("k", answering).in_process("l", answering).build().await.expect("a board")
}

#[tokio::test]
async fn a_board_takes_a_new_configuration_while_it_runs() {
    let (keep, change, drop) = (
        ServerSpec::in_process("keep", "k"),
        ServerSpec::in_process("change", "k"),
        ServerSpec::in_process("drop", "k"),
    );
    let board = board(vec![keep.clone(), change, drop]).await;
    let handles = board.servers();
    for handle in &handles {
        within(handle.connect(None)).await.expect("connects");
    }
    let mut eager = ServerSpec::in_process("eager", "k");
    eager.options.always_load = true;
    let off = ServerSpec { enabled: false, ..ServerSpec::in_process("off", "k") };
    let applied = within(board.apply(vec![keep, ServerSpec::in_process("change", "l"), eager, off])).await;
    assert_eq!(names(&applied.added), ["eager"]);
    assert_eq!(names(&applied.replaced), ["change"]);
    assert_eq!(names(&applied.removed), ["drop"]);
    assert_eq!(names(&applied.unchanged), ["keep"]);
    assert_eq!(board.admission().disabled.len(), 1);
    for handle in &handles {
        let called = within(handle.call_tool("t", "{}", CallOptions::default())).await;
        match handle.name().as_str() {
            "drop" => {
                let error = called.expect_err("removed");
                assert_eq!(error.to_string(), "server drop is not connected: it was removed from the board");
            }
            _ => drop_reply(called),
        }
    }
    let eager = board.server("eager").expect("a server");
    within(eager.connect(None)).await.expect("connects");
    assert_eq!(eager.status().generation, 1, "it was begun without anybody asking");
    assert!(within(board.remove("keep")).await);
    assert!(!within(board.remove("keep")).await);
    assert!(board.server("keep").is_none());
    let generations: Vec<u64> = handles.iter().map(|handle| handle.status().generation).collect();
    assert_eq!(generations, [2, 1, 1]);
    within(board.close()).await;
    assert!(within(board.apply(Vec::new())).await.removed.is_empty(), "a closed board changes nothing");
}

#[tokio::test]
async fn an_entry_that_cannot_be_used_replaces_nothing_and_is_named() {
    let s = ServerSpec::in_process("s", "k");
    let board = board(vec![s.clone(), ServerSpec::in_process("t", "k")]).await;
    let handle = board.server("s").expect("a server");
    within(handle.connect(None)).await.expect("connects");
    let wrong = vec![
        ServerSpec::http("s", "nonsense"),
        ServerSpec::stdio("new", " ", [""; 0]),
        ServerSpec::in_process("", "k"),
        ServerSpec { enabled: false, ..ServerSpec::http("t", "") },
    ];
    let applied = within(board.apply(wrong)).await;
    let told = [
        "server s has no valid url",
        "server new has an empty command",
        "a server has an empty name",
        "server t has no valid url",
    ];
    assert_eq!(applied.problems, told);
    assert_eq!((applied.added.len(), applied.replaced.len(), applied.removed.len()), (0, 0, 0));
    assert_eq!((applied.admission.admitted.len(), applied.admission.refused.len()), (0, 4));
    assert_eq!(board.servers().len(), 2);
    within(handle.call_tool("t", "{}", CallOptions::default())).await.expect("the old connection");
    assert_eq!(within(board.apply(vec![s])).await.problems, [""; 0], "the good entry is as it was");
    assert_eq!(handle.status().generation, 1);
    within(board.close()).await;
}

fn drop_reply(called: Result<callboard::ToolReply, callboard::CallError>) {
    called.expect("served");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_removed_child_is_gone_when_remove_returns() {
    let board = board(vec![child("sleep 60")]).await;
    let handle = board.server("child").expect("a server");
    within(handle.connect(None)).await.expect("connects");
    let process = handle.process_id().expect("a process");
    assert!(within(board.remove("child")).await);
    assert!(!is_there(process), "the process is still there");
    assert!(matches!(handle.state(), StateView::Disabled { by: "removed" }));
    within(board.close()).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_that_was_replaced_just_before_is_gone_too_when_remove_returns() {
    let board = board(vec![child("sleep 60")]).await;
    let handle = board.server("child").expect("a server");
    within(handle.connect(None)).await.expect("connects");
    let process = handle.process_id().expect("a process");
    assert_eq!(within(board.apply(vec![child("sleep 61")])).await.replaced.len(), 1);
    assert!(within(board.remove("child")).await);
    assert!(!is_there(process), "the process is still there");
    within(board.close()).await;
}

#[cfg(target_os = "linux")]
fn is_there(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}

/// A server that stays, after the end of its input, for as long as this command takes.
#[cfg(target_os = "linux")]
fn child(stays: &str) -> ServerSpec {
    let script = r#"read -r _; printf '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{}}}\n'; cat >/dev/null; "#;
    let mut spec = ServerSpec::stdio("child", "sh", ["-c", &format!("{script}{stays}")]);
    spec.options.protocol_era = EraPin::Pinned(Era::Legacy);
    spec
}
