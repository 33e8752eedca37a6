//! A new configuration for a running board.

use super::world::{Dial, Field, entry, refused};
use crate::call::{CallError, CallOptions};
use crate::handle::ConnHandle;
use crate::port::{CloseReason, Delivery, ServerSpec};
use crate::settings::Settings;
use crate::status::StateView;
use std::time::Duration;
use tokio::time::Instant;

type Called = tokio::task::JoinHandle<Result<crate::call::ToolReply, CallError>>;

fn call(handle: &ConnHandle) -> Called {
    let handle = handle.clone();
    actix_rt::spawn(async move { handle.call_tool("t", "{}", CallOptions::default()).await })
}

/// A server with one call under way on its first connection.
async fn in_a_call(settings: Settings) -> (Field, ConnHandle, Called) {
    let field = Field::new(settings, vec![entry("s", "one")]).await;
    field.world.set("one", |server| server.answers = false);
    let handle = field.server("s");
    handle.connect(None).await.expect("connects");
    let called = call(&handle);
    field.settle().await;
    assert_eq!(field.world.count("one#1 tools/call"), 1);
    (field, handle, called)
}

fn generation(handle: &ConnHandle) -> u64 {
    handle.status().generation
}

#[actix::test]
async fn what_leads_to_the_same_connection_is_not_touched() {
    let (field, handle) = Field::one().await;
    handle.connect(None).await.expect("connects");
    let mut moved = entry("s", "one");
    moved.source.file = Some("elsewhere.json".into());
    let applied = field.apply(vec![moved]).await;
    assert_eq!((applied.unchanged.len(), applied.replaced.len()), (1, 0));
    field.settle().await;
    let status = handle.status();
    assert_eq!((status.generation, status.state.word()), (1, "connected"));
    assert_eq!(status.source.file.as_deref(), Some("elsewhere.json"), "where it stands is news");
    assert_eq!(field.world.count("one#1 dial"), 1);
    field.close().await;
}

#[actix::test]
async fn servers_come_and_go() {
    let (field, _) = Field::one().await;
    let applied = field.apply(vec![entry("a", "one"), entry("b", "two")]).await;
    assert_eq!((applied.added.len(), applied.removed.len()), (2, 1));
    assert_eq!(field.names(), ["a", "b"]);
    field.server("b").connect(None).await.expect("connects");
    assert!(field.apply(Vec::new()).await.unchanged.is_empty());
    assert_eq!(field.names(), [""; 0]);
    field.settle().await;
    assert_eq!(field.world.alive(), (0, 0));
    field.close().await;
}

#[actix::test]
async fn a_changed_entry_gets_a_new_connection_while_the_old_one_is_drained() {
    let (field, handle, called) = in_a_call(Settings::default()).await;
    let applied = field.apply(vec![entry("s", "two")]).await;
    assert_eq!(applied.replaced.len(), 1);
    // The handle that was kept leads to the new server.
    handle.call_tool("t", "{}", CallOptions::default()).await.expect("served by the new one");
    assert_eq!((field.world.count("two#2 tools/call"), generation(&handle)), (1, 2));
    assert_eq!(field.world.alive().0, 2, "the old one still has a call");
    field.world.answer("one");
    called.await.expect("no panic").expect("what was under way ends well");
    field.enters("s", "connected").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(field.world.alive().0, 1, "and then the old one is gone");
    assert_eq!((field.world.count("two#2 tools/list"), field.world.count("one#1 tools/call")), (1, 1));
    field.close().await;
}

#[actix::test]
async fn draining_is_bounded() {
    let settings = Settings { reconnect_drain: Duration::from_secs(7), ..Settings::default() };
    let (field, _, called) = in_a_call(settings).await;
    let began = Instant::now();
    field.apply(vec![entry("s", "two")]).await;
    let error = called.await.expect("no panic").expect_err("it was never answered");
    assert_eq!((began.elapsed().as_secs(), error.delivery()), (7, Delivery::Unknown), "{error}");
    field.settle().await;
    assert_eq!(field.world.alive().0, 1);
    field.close().await;
}

#[actix::test]
async fn draining_for_no_time_ends_calls_at_once() {
    let settings = Settings { reconnect_drain: Duration::ZERO, ..Settings::default() };
    let (field, _, called) = in_a_call(settings).await;
    let began = Instant::now();
    field.apply(vec![entry("s", "two")]).await;
    let error = called.await.expect("no panic").expect_err("it was never answered");
    assert_eq!((began.elapsed().as_secs(), error.delivery()), (0, Delivery::Unknown), "{error}");
    field.close().await;
}

#[actix::test]
async fn a_call_that_waits_for_a_place_goes_to_the_new_connection() {
    let mut narrow = entry("s", "one");
    narrow.options.in_flight_max = Some(1);
    let field = Field::new(Settings::default(), vec![narrow]).await;
    field.world.set("one", |server| server.answers = false);
    let handle = field.server("s");
    handle.connect(None).await.expect("connects");
    let first = call(&handle);
    field.settle().await;
    let second = call(&handle);
    field.settle().await;
    field.apply(vec![entry("s", "two")]).await;
    second.await.expect("no panic").expect("served by the new one");
    assert_eq!((field.world.count("one#1 tools/call"), field.world.count("two#2 tools/call")), (1, 1));
    field.world.answer("one");
    first.await.expect("no panic").expect("served by the old one");
    field.close().await;
}

#[actix::test]
async fn a_caller_that_goes_away_ends_the_draining() {
    let (field, _, called) = in_a_call(Settings::default()).await;
    field.apply(vec![entry("s", "two")]).await;
    field.enters("s", "connected").await;
    called.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(field.world.alive().0, 1);
    field.close().await;
}

#[actix::test]
async fn a_change_during_a_dial_gives_the_dial_up() {
    let (field, handle) = Field::one().await;
    field.world.set("one", |server| server.dial = Dial::Hangs);
    handle.demand();
    field.enters("s", "dialing").await;
    field.apply(vec![entry("s", "two")]).await;
    handle.connect(None).await.expect("the new one is good");
    assert_eq!((generation(&handle), field.world.alive()), (2, (1, 0)));
    field.close().await;
}

#[actix::test]
async fn a_change_during_a_handshake_gives_the_handshake_up() {
    let (field, handle) = Field::one().await;
    field.world.set("one", |server| server.greets = false);
    handle.demand();
    field.enters("s", "handshaking").await;
    field.apply(vec![entry("s", "two")]).await;
    handle.connect(None).await.expect("the new one is good");
    assert_eq!((generation(&handle), field.world.alive()), (2, (1, 0)));
    field.close().await;
}

#[actix::test]
async fn a_change_during_a_backoff_is_tried_at_once() {
    let (field, handle) = Field::one().await;
    field.world.set("one", |server| server.dial = Dial::Fails(refused()));
    handle.demand();
    field.enters("s", "backing-off").await;
    let began = Instant::now();
    field.apply(vec![entry("s", "two")]).await;
    handle.connect(None).await.expect("the new one is good");
    assert_eq!(began.elapsed(), Duration::ZERO);
    field.close().await;
}

#[actix::test]
async fn a_change_while_the_old_link_closes_does_not_wait_for_another_server() {
    let (field, handle) = Field::one().await;
    field.world.set("one", |server| server.closing = Duration::from_secs(3));
    handle.connect(None).await.expect("connects");
    field.world.drop_links("one");
    field.enters("s", "backing-off").await;
    field.apply(vec![entry("s", "two")]).await;
    handle.connect(None).await.expect("the new one is good");
    assert_eq!(field.world.count("two#2 dial"), 1);
    let world = field.close().await;
    assert_eq!(world.alive(), (0, 0));
}

#[actix::test]
async fn two_changes_in_a_row_leave_the_last_one() {
    let (field, handle, called) = in_a_call(Settings::default()).await;
    field.registry.do_send(crate::actor::registry::Apply {
        servers: callboard_policy::admit([entry("s", "two")]).admitted,
        disabled: Vec::new(),
        kept: Vec::new(),
    });
    field.apply(vec![entry("s", "three")]).await;
    handle.call_tool("t", "{}", CallOptions::default()).await.expect("served");
    assert!(field.world.log().iter().any(|line| line.starts_with("three#") && line.ends_with("tools/call")));
    field.world.answer("one");
    called.await.expect("no panic").expect("the first one is drained all the same");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(field.world.alive(), (1, 0));
    field.close().await;
}

#[actix::test]
async fn there_and_back_again_leaves_one_connection_of_the_first_kind() {
    let (field, handle) = Field::one().await;
    handle.connect(None).await.expect("connects");
    field.apply(vec![entry("s", "two")]).await;
    field.apply(vec![entry("s", "one")]).await;
    handle.call_tool("t", "{}", CallOptions::default()).await.expect("served");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(field.world.alive(), (1, 0));
    field.close().await;
}

#[actix::test]
async fn a_failed_server_is_tried_again_when_its_entry_changes() {
    let (field, handle) = Field::one().await;
    let missing = CloseReason::Spawn { command: "one".into(), message: "none".into(), not_found: true };
    field.world.set("one", |server| server.dial = Dial::Fails(missing));
    handle.connect(None).await.expect_err("it does not exist");
    field.apply(vec![entry("s", "two")]).await;
    field.enters("s", "connected").await;
    field.close().await;
}

#[actix::test]
async fn a_server_nobody_asked_for_stays_dormant_when_its_entry_changes() {
    let (field, handle) = Field::one().await;
    field.apply(vec![entry("s", "two")]).await;
    field.settle().await;
    assert!(matches!(handle.state(), StateView::Pending { phase: "dormant", .. }));
    handle.connect(None).await.expect("connects");
    assert_eq!(field.world.count("two#1 dial"), 1);
    field.close().await;
}

#[actix::test]
async fn a_removed_server_leaves_nothing_and_its_handle_says_so() {
    let (field, handle, called) = in_a_call(Settings::default()).await;
    field.world.set("one", |server| server.closing = Duration::from_secs(3));
    assert!(field.remove("s").await);
    assert_eq!(field.world.alive(), (0, 0), "it was waited for");
    let error = called.await.expect("no panic").expect_err("its server is gone");
    assert_eq!(error.delivery(), Delivery::Unknown, "{error}");
    let error = handle.call_tool("t", "{}", CallOptions::default()).await.expect_err("removed");
    assert_eq!(error.to_string(), "server s is not connected: it was removed from the board");
    assert_eq!((error.code(), error.delivery()), ("not-connected", Delivery::NotSent));
    handle.reconnect();
    handle.enable();
    field.settle().await;
    assert_eq!(field.world.alive(), (0, 0), "and a kept handle starts nothing");
    assert!(!field.remove("s").await);
    let words: Vec<String> = handle.timeline().into_iter().map(|entry| entry.event).collect();
    assert_eq!(words.last().map(String::as_str), Some("removed"), "{words:?}");
    field.close().await;
}

#[actix::test]
async fn a_server_that_is_removed_in_any_phase_leaves_nothing() {
    for phase in ["queued", "dialing", "handshaking", "backing-off"] {
        let settings = Settings { connect_local_max: 1, ..Settings::default() };
        let field = Field::new(settings, vec![entry("s", "one"), entry("first", "first")]).await;
        field.world.set("first", |server| server.dial = Dial::Hangs);
        field.world.set("one", |server| match phase {
            "dialing" => server.dial = Dial::Hangs,
            "handshaking" => server.greets = false,
            "backing-off" => server.dial = Dial::Fails(refused()),
            _ => {}
        });
        let handle = field.server("s");
        if phase == "queued" {
            field.server("first").demand();
        }
        let waiting = call(&handle);
        field.enters("s", phase).await;
        assert!(field.remove("s").await);
        let error = waiting.await.expect("no panic").expect_err("removed");
        assert_eq!(error.delivery(), Delivery::NotSent, "{phase}: {error}");
        field.remove("first").await;
        assert_eq!(field.world.alive(), (0, 0), "{phase}");
        field.close().await;
    }
}

#[actix::test]
async fn a_name_may_be_used_again_and_old_handles_do_not_reach_the_new_server() {
    let (field, old) = Field::one().await;
    old.connect(None).await.expect("connects");
    field.remove("s").await;
    field.apply(vec![entry("s", "two")]).await;
    let new = field.server("s");
    new.connect(None).await.expect("connects");
    old.disable();
    old.reconnect();
    field.settle().await;
    assert_eq!((generation(&new), new.state().word()), (1, "connected"));
    assert_eq!((old.state().word(), field.world.count("two#1 dial")), ("disabled", 1));
    field.close().await;
}

fn switched_off(spec: ServerSpec) -> ServerSpec {
    ServerSpec { enabled: false, ..spec }
}

#[actix::test]
async fn an_entry_switches_its_server_off_and_on() {
    let (field, handle, called) = in_a_call(Settings::default()).await;
    let applied = field.apply(vec![switched_off(entry("s", "one"))]).await;
    assert_eq!(applied.replaced.len(), 1);
    field.enters("s", "disabled").await;
    let error = handle.connect(None).await.expect_err("off");
    assert_eq!(error.to_string(), "server s is not connected: it is switched off by its entry");
    field.world.answer("one");
    called.await.expect("no panic").expect("what was under way may end");
    assert_eq!(field.apply(vec![switched_off(entry("s", "one"))]).await.unchanged.len(), 1);
    field.apply(vec![entry("s", "one")]).await;
    handle.connect(None).await.expect("on again");
    field.close().await;
}

#[actix::test]
async fn what_a_person_switched_off_no_entry_switches_on() {
    let (field, handle) = Field::one().await;
    handle.connect(None).await.expect("connects");
    handle.disable();
    field.enters("s", "disabled").await;
    for entry in [entry("s", "one"), switched_off(entry("s", "one")), entry("s", "one"), entry("s", "two")] {
        field.apply(vec![entry]).await;
        field.settle().await;
        assert!(matches!(handle.state(), StateView::Disabled { by: "user" }), "{:?}", handle.state());
    }
    handle.enable();
    handle.connect(None).await.expect("on again");
    assert!(field.world.log().iter().any(|line| line == "two#2 dial"), "with the entry of now");
    field.close().await;
}
