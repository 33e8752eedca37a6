//! The registry: the table of servers, and the only writer of it.
//!
//! Ownership: the board owns the registry; it owns the connector and one connection actor a server.
//! Control path: `Add`, `Apply`, `Remove`, `Direct` and `CloseAll` come in; commands go on to the connections. Data
//! path: the table of handles, which everybody reads as a snapshot.

mod changes;
mod table;

pub use changes::{Add, Applied, Apply, Remove};
pub use table::ServerTable;

use changes::Changes;

use crate::actor::connection::{self, ConnectionActor, Replace, leads_to_the_same};
use crate::actor::connector::ConnectorActor;
use crate::environment::Environment;
use crate::guard::{self, Panicked};
use crate::handle::{Command, ConnHandle, ConnShared};
use crate::machine::{ConnMachine, Dice, DisabledBy};
use crate::port::{Admitted, ServerName};
use actix::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A handle's command, on its way to the connection.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Direct {
    pub server: ServerName,
    /// Which server of this name: a handle that was kept must not reach one that came later.
    pub life: u64,
    pub command: Command,
}

/// Ends every connection. The sender is dropped once that is under way everywhere.
#[derive(Message)]
#[rtype(result = "()")]
pub struct CloseAll(
    /// Dropped when every connection has been told.
    pub mpsc::Sender<()>,
);

/// The table of servers, and the only writer of it.
pub struct RegistryActor {
    env: Arc<Environment>,
    table: Arc<ServerTable>,
    connector: Addr<ConnectorActor>,
    connections: BTreeMap<ServerName, Slot>,
    lives: u64,
    changes: Changes,
}

/// One server of the table.
struct Slot {
    connection: Addr<ConnectionActor>,
    life: u64,
    server: Admitted,
    /// Its entry switches it off.
    is_off: bool,
}

impl RegistryActor {
    /// Starts a registry and its connector on the current arbiter, under guard.
    pub fn start(env: Arc<Environment>, table: Arc<ServerTable>) -> Addr<RegistryActor> {
        let (local, remote) = (env.settings.connect_local_max, env.settings.connect_remote_max);
        let connector = guard::start(move |_| ConnectorActor::new(local, remote));
        guard::start(move |_| RegistryActor {
            env,
            table,
            connector,
            connections: BTreeMap::new(),
            lives: 0,
            changes: Changes::default(),
        })
    }
}

impl Actor for RegistryActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(4_096);
    }
}

impl RegistryActor {
    fn take_in(&mut self, server: Admitted, context: &mut Context<Self>) -> ConnHandle {
        let name = server.name().clone();
        self.lives += 1;
        let life = self.lives;
        let registry = context.address().recipient::<Direct>().downgrade();
        let to = name.clone();
        let commands = Box::new(move |command| {
            // Bounded although `do_send` ignores the mailbox's limit: a handle asks once a published state.
            if let Some(registry) = registry.upgrade() {
                registry.do_send(Direct { server: to.clone(), life, command });
            }
        });
        let is_off = !server.spec().enabled;
        let dice = Dice::forked(self.env.seed, name.as_str());
        let machine = ConnMachine::new(is_off.then_some(DisabledBy::Entry), Instant::now()).with_dice(dice);
        let shared = Arc::new(ConnShared::new(self.env.clone(), server.clone(), machine, commands));
        let connection = ConnectionActor::start(shared.clone(), self.connector.clone());
        self.connections.insert(name, Slot { connection, life, server, is_off });
        ConnHandle::new(shared)
    }

    fn take_out(&mut self, name: &ServerName, done: mpsc::Sender<()>) -> bool {
        let Some(slot) = self.connections.remove(name) else { return false };
        slot.connection.do_send(connection::Remove(done));
        true
    }
}

impl Slot {
    /// Takes another entry; true when that changes more than where it stands.
    fn replace(&mut self, server: Admitted) -> bool {
        let changes = self.is_off || !leads_to_the_same(self.server.spec(), server.spec());
        if changes || self.server != server {
            self.connection.do_send(Replace(server.clone()));
        }
        (self.is_off, self.server) = (false, server);
        changes
    }
}

impl Handler<Direct> for RegistryActor {
    type Result = ();

    fn handle(&mut self, Direct { server, life, command }: Direct, _: &mut Context<Self>) {
        if let Some(slot) = self.connections.get(&server).filter(|slot| slot.life == life) {
            slot.connection.do_send(connection::Command(command));
        }
    }
}

impl Handler<CloseAll> for RegistryActor {
    type Result = ();

    fn handle(&mut self, CloseAll(done): CloseAll, context: &mut Context<Self>) {
        for slot in self.connections.values() {
            slot.connection.do_send(connection::Close(done.clone()));
        }
        self.connections.clear();
        context.stop();
    }
}

impl Handler<Panicked> for RegistryActor {
    type Result = ();

    fn handle(&mut self, panicked: Panicked, context: &mut Context<Self>) {
        // The step that panicked is lost, those after it are not.
        self.go_on(context);
        tracing::error!(restarted = panicked.restarted, "the registry panicked; its table is as it was");
    }
}
