//! The catalog through a loss and after it.

use super::world::{Dial, Field, refused};
use crate::event::EventKind;
use crate::port::ServerName;
use std::time::Duration;

const BEFORE: &str = r#"{"name":"same","inputSchema":{}},{"name":"gone","inputSchema":{}},
    {"name":"other","description":"a","inputSchema":{}}"#;
const AFTER: &str = r#"{"name":"same","inputSchema":{}},{"name":"new","inputSchema":{}},
    {"name":"other","description":"b","inputSchema":{}}"#;

#[actix::test]
async fn a_list_that_changed_while_the_server_was_away_is_told_as_a_difference() {
    let (field, handle) = Field::one().await;
    field.world.set("one", |server| server.tools = BEFORE);
    handle.tools().await.expect("tools");
    let stale = |field: &Field| field.catalog().servers[&ServerName::new("s")].stale;
    assert_eq!((field.catalog().len(), stale(&field)), (3, false));
    field.world.set("one", |server| (server.dial, server.tools) = (Dial::Fails(refused()), AFTER));
    field.world.drop_links("one");
    field.enters("s", "backing-off").await;
    let catalog = field.catalog();
    assert_eq!((catalog.len(), stale(&field)), (3, true), "the last good list is kept");
    assert!(catalog.find("mcp__s__gone").is_some_and(|tool| tool.stale), "and its names still route");
    field.world.set("one", |server| server.dial = Dial::Opens);
    handle.connect(None).await.expect("comes back");
    let difference = field
        .event("s", |event| match &event.event {
            EventKind::CatalogChanged { list, added, removed, changed } => {
                Some((*list, added.clone(), removed.clone(), changed.clone()))
            }
            _ => None,
        })
        .await;
    let names = |name: &str| vec![name.to_owned()];
    assert_eq!(difference, ("tools", names("new"), names("gone"), names("other")));
    assert_eq!((field.catalog().len(), stale(&field)), (3, false));
    assert!(field.catalog().find("mcp__s__gone").is_none());
    field.close().await;
}

#[actix::test]
async fn the_first_list_and_one_that_is_the_same_are_no_difference() {
    let (field, handle) = Field::one().await;
    handle.tools().await.expect("tools");
    field.world.say_changed("one");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(field.world.count("one#1 tools/list"), 2, "it was fetched again");
    field.forget_events();
    handle.reconnect();
    field.enters("s", "queued").await;
    handle.tools().await.expect("tools");
    let words: Vec<String> = handle.timeline().into_iter().map(|entry| entry.event).collect();
    assert!(!words.contains(&"catalog-changed".to_owned()), "{words:?}");
    assert_eq!(words.iter().filter(|word| *word == "list-fetched").count(), 3, "{words:?}");
    field.close().await;
}

#[actix::test]
async fn a_loss_is_told_with_its_cause_and_what_follows() {
    let (field, handle) = Field::one().await;
    handle.connect(None).await.expect("connects");
    field.world.drop_links("one");
    let lost = field
        .event("s", |event| match &event.event {
            EventKind::LinkLost { cause, signal, attempt, next_try_in_ms } => {
                Some((event.generation, cause.clone(), *signal, *attempt, *next_try_in_ms))
            }
            _ => None,
        })
        .await;
    assert_eq!(lost, (1, "connection reset: cut".into(), Some("ECONNRESET"), 0, Some(1_000)));
    let timeline = handle.timeline();
    let lost = timeline.iter().find(|entry| entry.event == "link-lost").expect("recorded");
    assert_eq!((lost.generation, lost.cause.as_deref()), (1, Some("connection reset: cut")));
    field.close().await;
}
