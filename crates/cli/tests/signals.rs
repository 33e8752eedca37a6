//! How a command ends before its time: Ctrl-C, SIGTERM, a second Ctrl-C, a reader that goes away.
#![cfg(unix)]

mod common;

use common::{Home, Run, builtin, finish, hanging};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

/// What `sh` does when it is told to end: nothing. The trap is set once the file is there.
const DEAF: &str = "trap '' TERM INT; touch deaf-started; while true; do sleep 1000 <&- ; done";

/// Waits until a process of this home runs this command line.
fn wait_for(home: &Home, part: &str) {
    let begun = Instant::now();
    while !home.processes().iter().any(|line| line.contains(part)) {
        assert!(begun.elapsed() < Duration::from_secs(20), "no {part}: {:?}", home.processes());
        std::thread::yield_now();
    }
}

fn signal(child: &Child, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(child.id()).expect("a pid");
    // SAFETY: kill takes plain numbers and touches no memory of ours.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn interrupted(words: &[&str], which: libc::c_int) -> Run {
    let home = Home::with(json!({ "hang": hanging(), "time": builtin(&["time"]) }));
    let child = home.command(words).spawn().expect("starts");
    wait_for(&home, if words[0] == "status" { "sleep 1000" } else { "builtin time" });
    let sent = Instant::now();
    signal(&child, which);
    let run = finish(child, sent).exits(130);
    home.assert_nothing_left();
    run
}

#[test]
fn ctrl_c_sigterm_and_sighup_end_a_command_within_a_second() {
    for which in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let run = interrupted(&["call", "time/wait", "ms=600000"], which);
        assert_eq!(run.stderr, "error: cancelled\n");
        assert!(run.took < Duration::from_secs(1), "{run:?}");
    }
    let run = interrupted(&["call", "time/wait", "ms=600000", "--json"], libc::SIGINT);
    assert_eq!(run.error()["code"], "cancelled");
}

#[test]
fn a_child_that_hears_sigterm_alone_costs_one_grace() {
    let run = interrupted(&["status"], libc::SIGINT);
    assert!(run.took < Duration::from_secs(4), "{run:?}");
}

#[test]
fn a_second_ctrl_c_kills_a_deaf_child_at_once() {
    let home = Home::with(json!({ "deaf": { "command": "sh", "args": ["-c", DEAF] } }));
    let mut child = home.command(&["status"]).spawn().expect("starts");
    let begun = Instant::now();
    while !home.path().join("deaf-started").exists() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    let sent = Instant::now();
    // Two that come too close are one, so an impatient person it is.
    while child.try_wait().expect("a child").is_none() {
        assert!(sent.elapsed() < Duration::from_secs(20));
        signal(&child, libc::SIGINT);
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let run = finish(child, sent).exits(130);
    assert!(run.took < Duration::from_secs(1), "{run:?}");
    home.assert_nothing_left();
}

#[test]
fn watching_tells_what_happens_until_it_is_ended() {
    let home = Home::with(json!({ "time": builtin(&["time"]) }));
    let mut child = home.command(&["status", "--watch", "--json"]).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || -> serde_json::Value {
        let line = lines.next().expect("goes on").expect("reads");
        serde_json::from_str(&line).expect("an object a line")
    };
    let mut state = || next()["servers"][0]["state"]["type"].as_str().expect("a state").to_owned();
    while state() != "connected" {}
    for pid in home.pids("builtin time") {
        // SAFETY: kill takes plain numbers and touches no memory of ours.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    assert_eq!(state(), "pending");
    while state() != "connected" {}
    signal(&child, libc::SIGINT);
    finish(child, Instant::now()).exits(130);
    home.assert_nothing_left();
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let home = Home::with(json!({ "time": builtin(&["time"]) }));
    let mut child = home.command(&["tools", "--schema"]).spawn().expect("starts");
    drop(child.stdout.take());
    let run = finish(child, Instant::now());
    assert!(!run.stderr.contains("panicked"), "{run:?}");
    home.assert_nothing_left();
}
