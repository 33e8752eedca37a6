//! Fifty children at once, alone in their test process: after the last close nothing is left of any of them,
//! nor of the guard.
#![cfg(target_os = "linux")]

mod common;

use callboard_core::port::ServerSpec;
use callboard_core::settings::Settings;
use common::*;
use futures_util::future::join_all;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_children_come_and_go() {
    let name = unique("fifty");
    let spec = ServerSpec::stdio(&name, "cat", [""; 0]);
    let dials = (0..50).map(|_| tokio::spawn(dial(spec.clone(), Settings::default())));
    let dialed = join_all(dials).await.into_iter();
    let mut links: Vec<_> = dialed.map(|link| link.expect("joins").expect("starts")).collect();
    for link in &mut links {
        send(link, r#"{"method":"a"}"#).expect("sent");
    }
    for link in &mut links {
        assert_eq!(next_method(link).await, "a");
    }
    assert_eq!(processes_of(&name).len(), 50);
    let is_guard = |(_, command): &(u32, String)| command.contains("callboard-guard");
    eventually("one guard watches", || {
        children_of(std::process::id()).iter().filter(|child| is_guard(child)).count() == 1
    })
    .await;
    join_all(links.into_iter().map(close)).await;
    assert_eq!(children_of(std::process::id()), [], "neither children nor guard nor zombies");
}
