//! The guard for our own death. The test runs itself as the process that dies.
#![cfg(target_os = "linux")]

mod common;

use callboard_core::port::Link;
use callboard_core::settings::Settings;
use common::*;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// Set in the process that dies: the name of its servers.
const ROLE: &str = "CALLBOARD_TEST_DYING_PARENT_OF";

/// What the dying process prints when its servers run.
const READY: &str = "both servers run";

#[tokio::test]
async fn f304_the_guard_ends_the_groups_of_a_killed_parent() {
    if let Ok(name) = std::env::var(ROLE) {
        return hold_servers(&name).await;
    }
    let name = unique("guarded");
    let mut parent = Command::new(std::env::current_exe().expect("own path"));
    parent.args(["--exact", "f304_the_guard_ends_the_groups_of_a_killed_parent", "--nocapture"]);
    parent.env(ROLE, &name).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut parent = parent.spawn().expect("started");
    let id = parent.id().expect("runs");
    let mut lines = BufReader::new(parent.stdout.take().expect("piped")).lines();
    let ready =
        async { while !lines.next_line().await.expect("read").expect("still runs").contains(READY) {} };
    timeout(PATIENCE, ready).await.expect("ready");

    let guard = guards_of(id)[0];
    for ignored in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        signal(guard, ignored);
    }
    assert!(processes_of(&name).len() >= 4);
    parent.kill().await.expect("killed");
    eventually("no server is left", || processes_of(&name).is_empty()).await;
    eventually("no guard is left", || !std::fs::exists(format!("/proc/{guard}")).expect("asked")).await;
}

/// A deaf and a polite server, each with a child of its own, neither of which minds the end of its input. The
/// guard that knew of the first is killed, so the one that comes with the second must be told of both.
async fn hold_servers(name: &str) {
    let own = std::process::id();
    let _deaf = server(name, "trap '' TERM;").await;
    eventually("the guard runs", || !guards_of(own).is_empty()).await;
    signal(guards_of(own)[0], libc::SIGKILL);
    eventually("the guard is dead", || guards_of(own).is_empty()).await;
    let _polite = server(name, "").await;
    eventually("another guard runs", || !guards_of(own).is_empty()).await;
    println!("{READY}");
    std::future::pending::<()>().await;
}

async fn server(name: &str, trap: &str) -> Link {
    let text = format!(r#"{trap} sleep 100 & echo '{{"method":"a"}}'; wait"#);
    let mut link = dial_script(name, &text, Settings::default()).await;
    next_method(&mut link).await;
    link
}

fn signal(process: libc::pid_t, signal: libc::c_int) {
    // SAFETY: a signal to a process of this test; no memory is involved.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

fn guards_of(parent: u32) -> Vec<libc::pid_t> {
    let children = children_of(parent).into_iter();
    let guards = children.filter(|(_, command)| command.contains("callboard-guard"));
    guards.map(|(id, _)| libc::pid_t::try_from(id).expect("small")).collect()
}
