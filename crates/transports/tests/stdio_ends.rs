//! How children end, by themselves and by us, and that nothing is left of them.
#![cfg(target_os = "linux")]

mod common;

use callboard_core::port::{CloseReason, ExitInfo, ServerSpec};
use callboard_core::settings::Settings;
use common::*;
use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// Well under any grace of these tests, and well over what a scheduler of a busy machine adds.
const SOON: Duration = Duration::from_millis(1_000);

/// Graces that nobody who waits for them would be called quick.
fn patient() -> Settings {
    settings(|settings| {
        settings.stdio_close_grace = Duration::from_secs(8);
        settings.stdio_term_grace = Duration::from_secs(8);
    })
}

fn hasty() -> Settings {
    settings(|settings| {
        settings.stdio_close_grace = Duration::from_millis(150);
        settings.stdio_term_grace = Duration::from_millis(150);
    })
}

#[tokio::test]
async fn f308_the_reason_has_exit_and_stderr() {
    for (text, exit) in [
        ("echo bad luck >&2; exit 3", ExitInfo::Code(3)),
        ("echo bad luck >&2; kill -9 $$", ExitInfo::Signal(9)),
        ("echo bad luck >&2; exec 1>&-; exit 0", ExitInfo::Code(0)),
    ] {
        let mut link = dial_script(&unique("exit"), text, Settings::default()).await;
        match end(&mut link).await {
            CloseReason::Ended { exit: Some(found), stderr_tail } => {
                assert_eq!((found, stderr_tail.as_str()), (exit, "bad luck\n"), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
        close(link).await;
    }
}

#[tokio::test]
async fn a_server_that_ends_at_the_end_of_input_costs_no_delay() {
    let name = unique("polite");
    let mut link = dial(ServerSpec::stdio(&name, "cat", [""; 0]), patient()).await.expect("starts");
    send(&link, r#"{"method":"a"}"#).expect("sent");
    next_method(&mut link).await;
    assert!(close(link).await < SOON);
    assert!(processes_of(&name).is_empty());
}

#[tokio::test]
async fn f302_a_shell_pipe_ends_with_its_input() {
    let name = unique("pipe");
    let mut link = dial_script(&name, r#"cat | cat | cat"#, patient()).await;
    send(&link, r#"{"method":"a"}"#).expect("sent");
    next_method(&mut link).await;
    assert!(close(link).await < SOON);
    assert!(processes_of(&name).is_empty());
}

#[tokio::test]
async fn f304_a_deaf_server_is_killed_after_both_graces() {
    let name = unique("deaf");
    let text = r#"trap '' TERM; echo '{"method":"a"}'; while :; do sleep 1; done"#;
    let mut link = dial_script(&name, text, hasty()).await;
    next_method(&mut link).await;
    assert!(close(link).await >= Duration::from_millis(300));
    assert!(processes_of(&name).is_empty());
}

#[tokio::test]
async fn a_server_that_obeys_sigterm_gets_it_after_the_first_grace() {
    let name = unique("term");
    let text = r#"trap 'exit 0' TERM; echo '{"method":"a"}'; while :; do sleep 0.01; done"#;
    let settings = settings(|settings| {
        settings.stdio_close_grace = Duration::from_millis(150);
        settings.stdio_term_grace = Duration::from_secs(8);
    });
    let mut link = dial_script(&name, text, settings).await;
    next_method(&mut link).await;
    assert!(close(link).await < SOON);
    assert!(processes_of(&name).is_empty());
}

#[tokio::test]
async fn f301_a_grandchild_that_holds_stdout_does_not_hold_the_link() {
    let name = unique("holder");
    let text = r#"sleep 100 & echo '{"method":"a"}'; echo sorry >&2; exit 5"#;
    let mut link = dial_script(&name, text, patient()).await;
    assert_eq!(next_method(&mut link).await, "a");
    let start = Instant::now();
    let reason = end(&mut link).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    match reason {
        CloseReason::Ended { exit: Some(ExitInfo::Code(5)), stderr_tail } => {
            assert_eq!(stderr_tail, "sorry\n")
        }
        other => panic!("{other:?}"),
    }
    assert!(close(link).await < SOON, "the first grace is the leader's");
    assert!(processes_of(&name).is_empty());
}

#[tokio::test]
async fn a_grandchild_that_floods_stdout_does_not_hold_the_link() {
    let name = unique("flooder");
    let mut link = dial_script(&name, r#"yes '{"method":"a"}' & exit 6"#, patient()).await;
    let start = Instant::now();
    let reason = end(&mut link).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(matches!(reason, CloseReason::Ended { exit: Some(ExitInfo::Code(6)), .. }), "{reason:?}");
    close(link).await;
    assert!(processes_of(&name).is_empty());
}

#[tokio::test]
async fn f303_a_deaf_grandchild_is_killed_after_the_second_grace() {
    let name = unique("deaf-grandchild");
    let text = r#"(trap '' TERM; echo '{"method":"a"}'; while :; do sleep 1; done) & exit 0"#;
    let mut link = dial_script(&name, text, hasty()).await;
    next_method(&mut link).await;
    close(link).await;
    assert!(processes_of(&name).is_empty());
}

#[tokio::test]
async fn a_server_that_closes_its_output_and_lives_ends_the_link() {
    let name = unique("mute");
    let mut link = dial_script(&name, "exec 1>&-; exec sleep 100", Settings::default()).await;
    let start = Instant::now();
    let reason = end(&mut link).await;
    assert!(matches!(reason, CloseReason::Ended { exit: None, .. }), "{reason:?}");
    assert!(start.elapsed() < SOON);
    drop(link);
    eventually("the group is killed", || processes_of(&name).is_empty()).await;
}

#[tokio::test]
async fn a_server_that_closes_its_input_ends_the_link() {
    let name = unique("earless");
    let text = r#"exec 0<&-; echo '{"method":"a"}'; exec sleep 100"#;
    let mut link = dial_script(&name, text, Settings::default()).await;
    next_method(&mut link).await;
    let refused = send(&link, r#"{"id":1,"method":"x"}"#).expect_err("nobody reads");
    assert!(matches!(refused, CloseReason::Io { .. }), "{refused:?}");
    assert!(matches!(end(&mut link).await, CloseReason::Io { .. }));
    drop(link);
    eventually("the group is killed", || processes_of(&name).is_empty()).await;
}

#[tokio::test]
async fn a_dropped_link_leaves_no_process_and_no_zombie() {
    let name = unique("dropped");
    let text = r#"trap '' TERM; sleep 100 & echo '{"method":"a"}'; wait"#;
    let mut link = dial_script(&name, text, patient()).await;
    next_method(&mut link).await;
    let leader = link.diagnostics.process_id().expect("has a process");
    assert!(!processes_of(&name).is_empty());
    drop(link);
    eventually("the group is killed", || processes_of(&name).is_empty()).await;
    eventually("the leader is reaped", || !std::fs::exists(format!("/proc/{leader}")).expect("asked")).await;
}

#[tokio::test]
async fn a_close_that_is_given_up_kills_at_once() {
    let name = unique("impatient");
    let text = r#"trap '' TERM; echo '{"method":"a"}'; while :; do sleep 1; done"#;
    let mut link = dial_script(&name, text, patient()).await;
    next_method(&mut link).await;
    let start = Instant::now();
    let mut closing = link.closer.close();
    assert!(closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(closing);
    eventually("the group is killed", || processes_of(&name).is_empty()).await;
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_link_that_we_close_ends_as_cancelled() {
    let spec = ServerSpec::stdio(unique("cancelled"), "cat", [""; 0]);
    let mut link = dial(spec, Settings::default()).await.expect("starts");
    let closer = std::mem::replace(&mut link.closer, Box::new(Nothing));
    closer.close().await;
    assert!(matches!(end(&mut link).await, CloseReason::Cancelled));
    assert!(matches!(send(&link, "{}"), Err(CloseReason::Cancelled)));
}

struct Nothing;

impl callboard_core::port::LinkCloser for Nothing {
    fn close(self: Box<Self>) -> callboard_core::port::BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// The futures are dropped at their first wait, then the whole runtime, which waits for starts on their way.
#[test]
fn dropped_dials_and_a_dropped_runtime_leave_nothing() {
    let name = unique("dial");
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    for _ in 0..5 {
        let abandoned = runtime().expect("built");
        abandoned.block_on(async {
            for _ in 0..4 {
                let mut dialing = Box::pin(dial(script(&name, "sleep 100"), patient()));
                assert!(dialing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                tokio::task::yield_now().await;
            }
            let link = dial(script(&name, "sleep 100; sleep 100"), patient()).await.expect("starts");
            std::mem::forget(link.closer);
        });
        drop(abandoned);
    }
    let asking = runtime().expect("built");
    asking.block_on(eventually("nothing is left", || processes_of(&name).is_empty()));
}
