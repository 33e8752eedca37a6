//! Ten thousand servers that come, fail, are lost and go all at once: no step may grow with their number squared.

use super::world::{Dial, Field, entry, refused};
use crate::guard::turns;
use crate::settings::Settings;
use std::time::{Duration, Instant};

const SERVERS: usize = 10_000;

/// Far above what a turn takes, far below what a search per server would add up to.
const TURN_MAX: Duration = Duration::from_secs(2);

fn check(what: &str, began: Instant) {
    let longest = turns::take_longest();
    println!("{what}: {} ms in all, longest turns {longest:?}", began.elapsed().as_millis());
    assert!(longest.values().all(|turn| *turn < TURN_MAX), "{what}: {longest:?}");
}

#[actix::test]
async fn ten_thousand_servers_at_once_make_no_step_long() {
    let settings = Settings { connect_local_max: 20, ..Settings::default() };
    let field = Field::new(settings, Vec::new()).await;
    field.world.set("one", |server| server.dial = Dial::Fails(refused()));
    let entries = |command: &str| (0..SERVERS).map(|n| entry(&format!("s{n}"), command)).collect::<Vec<_>>();
    let handles = || field.names().iter().map(|name| field.server(name)).collect::<Vec<_>>();

    let began = Instant::now();
    assert_eq!(field.apply(entries("one")).await.added.len(), SERVERS);
    check("added", began);

    let began = Instant::now();
    handles().iter().for_each(crate::handle::ConnHandle::demand);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(handles().iter().all(|handle| handle.state().word() == "failed"));
    check("failed", began);

    let began = Instant::now();
    field.world.set("one", |server| server.dial = Dial::Opens);
    handles().iter().for_each(crate::handle::ConnHandle::reconnect);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(field.world.alive(), (SERVERS, 0));
    check("connected", began);
    let began = Instant::now();
    assert_eq!(field.catalog().len(), SERVERS);
    println!("catalog made: {} ms", began.elapsed().as_millis());

    let began = Instant::now();
    field.world.drop_links("one");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(field.world.alive(), (0, 0));
    check("lost at once", began);
    let began = Instant::now();
    assert_eq!(field.catalog().len(), SERVERS);
    println!("catalog made anew with stale lists: {} ms", began.elapsed().as_millis());

    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(field.world.alive(), (SERVERS, 0));
    check("back again", began);

    let began = Instant::now();
    assert_eq!(field.apply(entries("one")).await.unchanged.len(), SERVERS);
    check("applied without a change", began);

    let began = Instant::now();
    handles().iter().for_each(crate::handle::ConnHandle::reconnect);
    handles().iter().for_each(crate::handle::ConnHandle::disable);
    field.settle().await;
    check("withdrawn while queued", began);

    let began = Instant::now();
    assert_eq!(field.apply(Vec::new()).await.removed.len(), SERVERS);
    check("removed", began);
    let world = field.close().await;
    assert_eq!(world.alive(), (0, 0));
}
