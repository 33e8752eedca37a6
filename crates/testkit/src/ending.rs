//! The end of a world: all faults are over, everything must be well again; then the board is closed.

use crate::callers;
use crate::looks::look_at_catalog;
use crate::model::Stand;
use crate::scenario::{Fault, Scenario, UserWish};
use crate::stage::Stage;
use actix::Addr;
use callboard_core::actor::registry::{CloseAll, RegistryActor};
use callboard_core::environment::Environment;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// How long a server may take until it is of use again once its faults are over: an attempt that hangs, the
/// longest gap, and a margin. A `Retry-After` comes on top.
const BACK_WITHIN_MS: u64 = 120_000;
/// The limit of one call that finds out.
const PROBE_MS: u64 = 40_000;
/// How long lists may take to settle after that: the longest pause in a storm, twice, and one limit of a request.
const QUIET: Duration = Duration::from_secs(130);

/// All faults end. Every server that may be there must be of use again.
pub(crate) async fn recover(stage: Stage, scenario: Scenario) {
    stage.world().calm_down();
    let asked = scenario.servers.iter().flat_map(|plan| &plan.faults).filter_map(|fault| match fault {
        Fault::Busy { retry_after_s, .. } => Some(retry_after_s * 1_000),
        _ => None,
    });
    let within_ms = BACK_WITHIN_MS + asked.max().unwrap_or(0);
    let tasks: Vec<_> = stage
        .handles()
        .map(|(server, _)| Handle::current().spawn(come_back(stage.clone(), server, within_ms)))
        .collect();
    for task in tasks {
        let _ = task.await;
    }
    sleep(QUIET).await;
    stage.world().look_around();
    settled(&stage);
}

async fn come_back(stage: Stage, server: u32, within_ms: u64) {
    let until_ms = stage.world().now_ms() + within_ms;
    let mut last = "nothing";
    while stage.world().now_ms() < until_ms {
        match stage.world().stand(server) {
            Stand::Failed { .. } | Stand::NeedsAuth => stage.wish(server, UserWish::Reconnect),
            Stand::Disabled => stage.wish(server, UserWish::Enable),
            Stand::Dormant
            | Stand::Queued { .. }
            | Stand::Trying { .. }
            | Stand::Connected { .. }
            | Stand::BackingOff { .. } => {}
        }
        // The user's word is on its way; the next moment shows what it came to.
        sleep(Duration::from_millis(1)).await;
        let calling = callers::call(&stage, server, 0, "t0", PROBE_MS, None);
        last = timeout(Duration::from_millis(PROBE_MS * 2), calling).await.unwrap_or("no end of a call");
        if last == "ok" {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    let detail = format!("not of use within {within_ms} ms after its faults: {last}");
    stage.world().broke("back-when-it-may", Some(server), detail);
}

/// What must be so once nothing has happened for a while.
fn settled(stage: &Stage) {
    let world = stage.world();
    if world.calls_open() > 0 {
        world.broke("ends-once", None, format!("{} calls never ended", world.calls_open()));
    }
    let held = world.permits_held();
    if held > 0 {
        world.broke("dial-permits", None, format!("{held} permits are out, and nobody is dialed"));
    }
    look_at_catalog(stage);
    for (server, handle) in stage.handles() {
        if !matches!(world.stand(server), Stand::Connected { .. }) {
            world.broke("back-when-it-may", Some(server), format!("is {:?} at the end", world.stand(server)));
        }
        let calls = handle.calls();
        if (calls.in_flight, calls.queued) != (0, 0) {
            world.broke("places-balance", Some(server), format!("{calls:?} and nobody calls"));
        }
    }
}

/// Closes the board. Nothing may be left of it.
pub(crate) async fn close(
    stage: Stage,
    env: Arc<Environment>,
    registry: Addr<RegistryActor>,
    mut alive: mpsc::Receiver<()>,
) {
    let world = stage.world();
    world.begin_closing();
    env.release();
    let (told, mut all_told) = mpsc::channel(1);
    registry.do_send(CloseAll(told));
    drop(registry);
    let _ = all_told.recv().await;
    if timeout(CLOSE_LIMIT, alive.recv()).await.is_err() {
        world.broke("nothing-left", None, format!("the board has not closed within {CLOSE_LIMIT:?}"));
    }
    // What the board does not wait for must be over soon as well.
    sleep(CLOSE_LIMIT).await;
    let lines = world.lines_open();
    if lines > 0 {
        world.broke("nothing-left", None, format!("{lines} links are open after the board was closed"));
    }
    // This task is the one that may be there.
    let tasks = Handle::current().metrics().num_alive_tasks();
    if tasks > 1 {
        world.broke("nothing-left", None, format!("{tasks} tasks run after the board was closed"));
    }
}

/// What closing may take: the graces of children, and a little.
const CLOSE_LIMIT: Duration = Duration::from_secs(7);
