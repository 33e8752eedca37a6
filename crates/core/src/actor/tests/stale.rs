//! Messages of an earlier generation: counted, told, and without effect.

use super::world::Field;
use crate::actor::connection::{ConnectionActor, messages, replace, tools};
use crate::actor::connector::ConnectorActor;
use crate::catalog::ItemList;
use crate::event::EventKind;
use crate::guard;
use crate::handle::{Command, ConnHandle, ConnShared, ToolsFetched};
use crate::machine::ConnMachine;
use crate::port::{CloseReason, Generation};
use actix::Addr;
use callboard_protocol::list::ListKind;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A connection of generation 2, whose generation 1 was lost, and its actor.
async fn second_generation(field: &Field) -> (Addr<ConnectionActor>, ConnHandle) {
    let connector = guard::start(|_| ConnectorActor::new(3, 3));
    let server = field.server("s").server();
    let machine = ConnMachine::new(None, Instant::now());
    let shared = Arc::new(ConnShared::new(field.env.clone(), server, machine, Box::new(|_| {})));
    let actor = ConnectionActor::start(shared.clone(), connector);
    let handle = ConnHandle::new(shared);
    actor.do_send(messages::Command(Command::Demand));
    field.enters("s", "connected").await;
    field.world.drop_links("one");
    field.enters("s", "backing-off").await;
    field.enters("s", "connected").await;
    field.settle().await;
    assert_eq!((handle.status().generation, handle.state().word()), (2, "connected"));
    (actor, handle)
}

const OLD: Generation = Generation(1);

fn gone() -> Arc<CloseReason> {
    Arc::new(CloseReason::Ended { exit: None, stderr_tail: String::new() })
}

/// The handed case `reconnect-epoch`, for every message that can come late.
#[actix::test]
async fn reconnect_epoch_a_late_message_of_the_old_connection_does_not_hurt_the_new_one() {
    let (field, _) = Field::one().await;
    let (actor, handle) = second_generation(&field).await;
    let list = Arc::new(ItemList::new(ListKind::Tools, Vec::new(), Vec::new()));
    let fetched = ToolsFetched { generation: OLD, sequence: 1_000, result: Ok(list) };
    let told = Arc::new(AtomicU8::new(0xff));
    let messages: [&dyn Fn(); 7] = [
        &|| actor.do_send(messages::IoDown { generation: OLD, reason: gone(), answered: true }),
        &|| actor.do_send(messages::Dialed(OLD)),
        &|| actor.do_send(messages::ConnectDone { generation: OLD, result: Err(gone()) }),
        &|| actor.do_send(messages::PermitOverdue(OLD)),
        &|| actor.do_send(messages::Command(Command::ToolsFetched(fetched.clone()))),
        &|| actor.do_send(tools::ListChanged { generation: OLD, kind: ListKind::Tools, told: told.clone() }),
        &|| actor.do_send(tools::RefreshTools(OLD)),
    ];
    for send in messages {
        send();
        let dropped = field
            .event("s", |event| match &event.event {
                EventKind::StaleDropped { of_generation, what } => {
                    Some((event.generation, *of_generation, *what))
                }
                _ => None,
            })
            .await;
        assert_eq!((dropped.0, dropped.1), (2, 1), "{}", dropped.2);
        assert_eq!((handle.status().generation, handle.state().word()), (2, "connected"), "{}", dropped.2);
    }
    actor.do_send(replace::DrainOverdue(OLD));
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!((handle.status().generation, handle.state().word()), (2, "connected"));
    assert_eq!(handle.tools().await.expect("tools").items.len(), 1, "an old list replaced nothing");
    assert_eq!(field.world.count("one#2 tools/list"), 1, "an old change refreshed nothing");
    let (done, _) = mpsc::channel(1);
    actor.do_send(messages::Close(done));
    field.close().await;
}
