//! What a person does: reconnect, switch off, switch on, close everything.

use super::world::{Dial, Field, auth, entry, refused};
use crate::call::CallOptions;
use crate::port::{CloseReason, EraPin};
use crate::settings::Settings;
use crate::status::StateView;
use std::time::Duration;
use tokio::time::Instant;

#[actix::test]
async fn reconnect_leads_out_of_every_state_but_off() {
    let missing = CloseReason::Spawn { command: "one".into(), message: "none".into(), not_found: true };
    for (state, reason) in [("failed", missing), ("needs-auth", auth()), ("backing-off", refused())] {
        let (field, handle) = Field::one().await;
        field.world.set("one", |server| server.dial = Dial::Fails(reason));
        handle.demand();
        field.enters("s", state).await;
        field.world.set("one", |server| server.dial = Dial::Opens);
        let began = Instant::now();
        handle.reconnect();
        field.enters("s", "connected").await;
        assert_eq!(began.elapsed(), Duration::ZERO, "{state}");
        field.close().await;
    }
    let (field, handle) = Field::one().await;
    handle.disable();
    handle.reconnect();
    field.settle().await;
    assert!(matches!(handle.state(), StateView::Disabled { by: "user" }));
    field.close().await;
}

#[actix::test]
async fn reconnect_gives_up_an_attempt_that_hangs() {
    for phase in ["dialing", "handshaking"] {
        let (field, handle) = Field::one().await;
        field.world.set("one", |server| match phase {
            "dialing" => server.dial = Dial::Hangs,
            _ => server.greets = false,
        });
        handle.demand();
        field.enters("s", phase).await;
        field.world.set("one", |server| (server.dial, server.greets) = (Dial::Opens, true));
        let began = Instant::now();
        handle.reconnect();
        field.enters("s", "connected").await;
        assert_eq!((began.elapsed(), field.world.alive()), (Duration::ZERO, (1, 0)), "{phase}");
        field.close().await;
    }
}

#[actix::test]
async fn reconnect_starts_no_process_beside_the_one_that_ends() {
    let (field, handle) = Field::one().await;
    field.world.set("one", |server| server.closing = Duration::from_secs(2));
    handle.connect(None).await.expect("connects");
    let began = Instant::now();
    handle.reconnect();
    field.enters("s", "queued").await;
    // Impatience does not help: the attempt that waits is given up, and the next one waits for the same process.
    handle.reconnect();
    field.settle().await;
    handle.reconnect();
    handle.call_tool("t", "{}", CallOptions::default()).await.expect("served");
    assert_eq!((began.elapsed().as_secs(), field.world.open_most()), (2, 1));
    let world = field.close().await;
    assert_eq!(world.alive(), (0, 0));
}

#[actix::test]
async fn a_child_that_died_of_the_probe_is_gone_before_the_fresh_one_starts() {
    let mut spec = entry("s", "one");
    spec.options.protocol_era = EraPin::Auto;
    let field = Field::new(Settings::default(), vec![spec]).await;
    field.world.set("one", |server| {
        (server.dies_of_a_probe, server.closing) = (true, Duration::from_secs(2));
    });
    field.server("s").connect(None).await.expect("connects");
    assert_eq!((field.world.count("one#1 dial"), field.world.open_most()), (2, 1));
    field.close().await;
}

#[actix::test]
async fn switched_off_in_any_phase_nothing_is_left() {
    for phase in ["dormant", "queued", "dialing", "handshaking", "backing-off", "connected", "failed"] {
        let settings = Settings { connect_local_max: 1, connect_retries_stdio_max: 0, ..Settings::default() };
        let settings = match phase {
            "backing-off" => Settings { connect_retries_stdio_max: 3, ..settings },
            _ => settings,
        };
        let field = Field::new(settings, vec![entry("s", "one"), entry("first", "first")]).await;
        field.world.set("first", |server| server.dial = Dial::Hangs);
        field.world.set("one", |server| match phase {
            "dialing" => server.dial = Dial::Hangs,
            "handshaking" => server.greets = false,
            "backing-off" | "failed" => server.dial = Dial::Fails(refused()),
            _ => {}
        });
        let handle = field.server("s");
        if phase == "queued" {
            field.server("first").demand();
        }
        if phase != "dormant" {
            handle.demand();
            field.enters("s", phase).await;
        }
        handle.disable();
        field.enters("s", "disabled").await;
        field.server("first").disable();
        field.enters("first", "disabled").await;
        field.settle().await;
        assert_eq!(field.world.alive(), (0, 0), "{phase}");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(handle.state().word(), "disabled", "{phase}: no timer brings it back");
        field.world.set("one", |server| (server.dial, server.greets) = (Dial::Opens, true));
        handle.enable();
        handle.connect(None).await.unwrap_or_else(|error| panic!("{phase}: {error}"));
        field.close().await;
    }
}

#[actix::test]
async fn closing_ends_dials_and_handshakes_that_are_under_way() {
    let settings = Settings { connect_local_max: 10, ..Settings::default() };
    let servers = (0..6).map(|n| entry(&format!("s{n}"), ["hangs", "silent", "up"][n % 3])).collect();
    let field = Field::new(settings, servers).await;
    field.world.set("hangs", |server| server.dial = Dial::Hangs);
    field.world.set("silent", |server| (server.greets, server.closing) = (false, Duration::from_secs(3)));
    field.world.set("up", |server| server.closing = Duration::from_secs(2));
    for n in 0..6 {
        field.server(&format!("s{n}")).demand();
    }
    field.enters("s5", "connected").await;
    assert_eq!(field.world.alive(), (4, 2));
    let world = field.close().await;
    assert_eq!(world.alive(), (0, 0));
}

#[actix::test]
async fn closing_in_the_very_moment_of_a_demand_leaves_nothing() {
    for turns in 0..30 {
        let (field, handle) = Field::one().await;
        field.world.set("one", |server| server.closing = Duration::from_secs(1));
        handle.demand();
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let world = field.close().await;
        assert_eq!(world.alive(), (0, 0), "after {turns} turns");
    }
}
