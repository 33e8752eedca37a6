//! The registry: the table of servers, and the only writer of it.
//!
//! Ownership: the board owns the registry; it owns the connector and one connection actor a server.
//! Control path: `Add`, `Apply`, `Remove`, `Direct` and `CloseAll` come in; commands go on to the connections. Data path: the
//! table of handles, which everybody reads as a snapshot.

use crate::actor::connection::{self, ConnectionActor, EntryDisabled, Replace, leads_to_the_same};
use crate::actor::connector::ConnectorActor;
use crate::catalog::{CatalogSnapshot, ServerCatalog};
use crate::environment::Environment;
use crate::event::EventKind;
use crate::guard::{self, Panicked};
use crate::handle::{Command, ConnHandle, ConnShared, ToolsState};
use crate::machine::{ConnMachine, Dice, DisabledBy};
use crate::port::{Admitted, Generation, ServerName};
use actix::prelude::*;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Takes servers in. One that is known under its name stays.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Add {
    /// Who may be dialed.
    pub servers: Vec<Admitted>,
}

/// Makes the table the one of a new configuration. Servers whose entries lead to the same connection stay as
/// they are; a server whose entry is another one is connected anew, while what is under way on the old connection
/// may end within `reconnect.drain_ms`.
#[derive(Message)]
#[rtype(result = "Applied")]
pub struct Apply {
    /// Who may be dialed: all of them.
    pub servers: Vec<Admitted>,
    /// Entries that switch themselves off. One that is known stays in the table, switched off.
    pub disabled: Vec<ServerName>,
}

/// What a new configuration has changed, each list by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, MessageResponse)]
pub struct Applied {
    /// Were not there before.
    pub added: Vec<ServerName>,
    /// Have another entry now, or are switched on or off by it.
    pub replaced: Vec<ServerName>,
    /// Are not there any more.
    pub removed: Vec<ServerName>,
    /// Are as they were.
    pub unchanged: Vec<ServerName>,
}

/// Takes one server out. False when there is none of this name.
#[derive(Message)]
#[rtype(result = "bool")]
pub struct Remove {
    /// Which.
    pub server: ServerName,
    /// Dropped once nothing that was started for it is left.
    pub done: mpsc::Sender<()>,
}

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

/// The table of servers as everybody reads it, and the catalog made of it.
pub struct ServerTable {
    env: Arc<Environment>,
    handles: ArcSwap<BTreeMap<ServerName, ConnHandle>>,
    catalog: ArcSwap<(u64, Arc<CatalogSnapshot>)>,
    building: Mutex<()>,
}

impl ServerTable {
    /// An empty table.
    pub fn new(env: Arc<Environment>) -> ServerTable {
        ServerTable {
            env,
            handles: ArcSwap::default(),
            catalog: ArcSwap::from_pointee((0, Arc::default())),
            building: Mutex::new(()),
        }
    }

    /// The handles, by name.
    pub fn handles(&self) -> Arc<BTreeMap<ServerName, ConnHandle>> {
        self.handles.load_full()
    }

    /// The tools of all servers under safe names: a pure function of what the connections have published,
    /// made anew when somebody looks and something has changed.
    pub fn catalog(&self) -> Arc<CatalogSnapshot> {
        let current = self.env.version.load(Ordering::Acquire);
        {
            let known = self.catalog.load();
            if known.0 == current {
                return known.1.clone();
            }
        }
        let _one_builder = self.building.lock();
        let current = self.env.version.load(Ordering::Acquire);
        let known = self.catalog.load();
        if known.0 == current {
            return known.1.clone();
        }
        let handles = self.handles();
        let servers = handles.iter().map(|(name, handle)| {
            let tools = handle.tools_snapshot();
            let stale = tools.state != ToolsState::Fresh;
            (name.clone(), ServerCatalog { handle: handle.clone(), tools: tools.list, stale })
        });
        let settings = &self.env.settings;
        let catalog = known.1.renewed(
            servers.collect(),
            settings.names_chars_max,
            settings.catalog_description_chars_max,
        );
        let catalog = Arc::new(catalog);
        self.catalog.store(Arc::new((current, catalog.clone())));
        catalog
    }
}

/// The table of servers, and the only writer of it.
pub struct RegistryActor {
    env: Arc<Environment>,
    table: Arc<ServerTable>,
    connector: Addr<ConnectorActor>,
    connections: BTreeMap<ServerName, Slot>,
    lives: u64,
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
        guard::start(move |_| RegistryActor { env, table, connector, connections: BTreeMap::new(), lives: 0 })
    }
}

impl Actor for RegistryActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(4_096);
    }
}

impl Handler<Add> for RegistryActor {
    type Result = ();

    fn handle(&mut self, Add { servers }: Add, context: &mut Context<Self>) {
        let mut handles = (*self.table.handles()).clone();
        for server in servers {
            let name = server.name().clone();
            if !self.connections.contains_key(&name) {
                handles.insert(name, self.take_in(server, context));
            }
        }
        self.table.handles.store(Arc::new(handles));
        self.env.bump();
    }
}

impl Handler<Apply> for RegistryActor {
    type Result = Applied;

    fn handle(&mut self, Apply { servers, disabled }: Apply, context: &mut Context<Self>) -> Applied {
        let mut handles = (*self.table.handles()).clone();
        let mut applied = Applied::default();
        let named: BTreeSet<&ServerName> = servers.iter().map(Admitted::name).chain(&disabled).collect();
        let gone: Vec<ServerName> =
            self.connections.keys().filter(|name| !named.contains(name)).cloned().collect();
        for name in gone {
            handles.remove(&name);
            let (done, _) = mpsc::channel(1);
            self.take_out(&name, done);
            applied.removed.push(name);
        }
        for server in servers {
            let name = server.name().clone();
            match self.connections.get_mut(&name) {
                None => {
                    handles.insert(name.clone(), self.take_in(server, context));
                    applied.added.push(name);
                }
                Some(slot) => match slot.replace(server) {
                    true => applied.replaced.push(name),
                    false => applied.unchanged.push(name),
                },
            }
        }
        for name in disabled {
            match self.connections.get_mut(&name) {
                Some(slot) if !slot.is_off => {
                    slot.is_off = true;
                    slot.connection.do_send(EntryDisabled);
                    applied.replaced.push(name);
                }
                Some(_) => applied.unchanged.push(name),
                None => {}
            }
        }
        self.table.handles.store(Arc::new(handles));
        self.env.bump();
        applied
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

impl Handler<Remove> for RegistryActor {
    type Result = bool;

    fn handle(&mut self, Remove { server, done }: Remove, _: &mut Context<Self>) -> bool {
        let is_known = self.take_out(&server, done);
        if is_known {
            let mut handles = (*self.table.handles()).clone();
            handles.remove(&server);
            self.table.handles.store(Arc::new(handles));
            self.env.bump();
        }
        is_known
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
        self.env.emit(&name, Generation::default(), EventKind::ServerAdded);
        self.connections.insert(name, Slot { connection, life, server, is_off });
        ConnHandle::new(shared)
    }

    fn take_out(&mut self, name: &ServerName, done: mpsc::Sender<()>) -> bool {
        let Some(slot) = self.connections.remove(name) else { return false };
        slot.connection.do_send(connection::Remove(done));
        true
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

    fn handle(&mut self, panicked: Panicked, _: &mut Context<Self>) {
        tracing::error!(restarted = panicked.restarted, "the registry panicked; its table is as it was");
    }
}
