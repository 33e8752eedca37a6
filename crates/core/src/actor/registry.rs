//! The registry: the table of servers, and the only writer of it.
//!
//! Ownership: the board owns the registry; it owns the connector and one connection actor a server.
//! Control path: `Add`, `Direct` and `CloseAll` come in; commands go on to the connections. Data path: the
//! table of handles, which everybody reads as a snapshot.

use crate::actor::connection::{self, ConnectionActor};
use crate::actor::connector::ConnectorActor;
use crate::catalog::{CatalogSnapshot, ServerCatalog};
use crate::environment::Environment;
use crate::guard::{self, Panicked};
use crate::handle::{Command, ConnHandle, ConnShared, ToolsState};
use crate::machine::{ConnMachine, DisabledBy};
use crate::port::{Admitted, ServerName};
use actix::prelude::*;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
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

/// A handle's command, on its way to the connection.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Direct {
    pub server: ServerName,
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
        let catalog = CatalogSnapshot::new(
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
    connections: BTreeMap<ServerName, Addr<ConnectionActor>>,
}

impl RegistryActor {
    /// Starts a registry and its connector on the current arbiter, under guard.
    pub fn start(env: Arc<Environment>, table: Arc<ServerTable>) -> Addr<RegistryActor> {
        let (local, remote) = (env.settings.connect_local_max, env.settings.connect_remote_max);
        let connector = guard::start(move |_| ConnectorActor::new(local, remote));
        guard::start(move |_| RegistryActor { env, table, connector, connections: BTreeMap::new() })
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

impl RegistryActor {
    fn take_in(&mut self, server: Admitted, context: &mut Context<Self>) -> ConnHandle {
        let name = server.name().clone();
        let registry = context.address().recipient::<Direct>().downgrade();
        let to = name.clone();
        let commands = Box::new(move |command| {
            // Bounded although `do_send` ignores the mailbox's limit: a handle asks once a published state.
            if let Some(registry) = registry.upgrade() {
                registry.do_send(Direct { server: to.clone(), command });
            }
        });
        let disabled = (!server.spec().enabled).then_some(DisabledBy::Entry);
        let machine = ConnMachine::new(disabled, Instant::now());
        let shared = Arc::new(ConnShared::new(self.env.clone(), server, machine, commands));
        let connection = ConnectionActor::start(shared.clone(), self.connector.clone());
        self.connections.insert(name, connection);
        ConnHandle::new(shared)
    }
}

impl Handler<Direct> for RegistryActor {
    type Result = ();

    fn handle(&mut self, Direct { server, command }: Direct, _: &mut Context<Self>) {
        if let Some(connection) = self.connections.get(&server) {
            connection.do_send(connection::Command(command));
        }
    }
}

impl Handler<CloseAll> for RegistryActor {
    type Result = ();

    fn handle(&mut self, CloseAll(done): CloseAll, context: &mut Context<Self>) {
        for connection in self.connections.values() {
            connection.do_send(connection::Close(done.clone()));
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
