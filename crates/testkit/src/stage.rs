//! A world with a board in it, while it runs: what a test does with the servers, and the way to the board.

use crate::callers;
use crate::scenario::UserWish;
use crate::world::World;
use callboard_core::actor::registry::ServerTable;
use callboard_core::catalog::CatalogSnapshot;
use callboard_core::handle::ConnHandle;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// A running world with a board in it. Cheap to clone.
#[derive(Clone)]
pub struct Stage {
    world: Arc<World>,
    table: Arc<ServerTable>,
    names: Arc<Vec<String>>,
    tools: Arc<Vec<u32>>,
}

/// The caller that a test itself is.
const TEST: u32 = u32::MAX;

impl Stage {
    pub(crate) fn new(
        world: Arc<World>,
        table: Arc<ServerTable>,
        names: Vec<String>,
        tools: Vec<u32>,
    ) -> Stage {
        Stage { world, table, names: Arc::new(names), tools: Arc::new(tools) }
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn handle(&self, server: u32) -> Option<ConnHandle> {
        self.table.handles().get(self.names.get(server as usize)?.as_str()).cloned()
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = (u32, ConnHandle)> {
        let numbers = 0..self.names.len() as u32;
        numbers.filter_map(|number| self.handle(number).map(|handle| (number, handle)))
    }

    pub(crate) fn servers_len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn tools_of(&self, server: u32) -> u32 {
        self.tools[server as usize]
    }

    pub(crate) fn wish(&self, server: u32, wish: UserWish) {
        let Some(handle) = self.handle(server) else { return };
        self.world.wish(server, wish);
        match wish {
            UserWish::Reconnect => handle.reconnect(),
            UserWish::Disable => handle.disable(),
            UserWish::Enable => handle.enable(),
        }
    }

    /// The way to a server; none for one that policy keeps out.
    pub fn server(&self, name: &str) -> Option<ConnHandle> {
        self.table.handles().get(name).cloned()
    }

    /// The tools of all servers, as an agent sees them.
    pub fn catalog(&self) -> Arc<CatalogSnapshot> {
        self.table.catalog()
    }

    /// Since the world began, in virtual milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.world.now_ms()
    }

    /// Lets virtual time pass.
    pub async fn wait(&self, time: Duration) {
        sleep(time).await;
    }

    /// A server goes away: its links end, and it cannot be reached until it is brought up.
    pub fn take_down(&self, name: &str) {
        self.with(name, |world, server| world.take_down(server, u64::MAX));
    }

    /// A server is there again.
    pub fn bring_up(&self, name: &str) {
        self.with(name, World::bring_up);
    }

    /// The links of a server end; it can be reached again at once.
    pub fn drop_links(&self, name: &str) {
        self.with(name, |world, server| world.take_down(server, 0));
    }

    /// A link of an earlier generation ends, however late.
    pub fn late_close(&self, name: &str, generation: u64) {
        self.with(name, |world, server| world.end_line_of(server, generation));
    }

    /// A server forgets its sessions.
    pub fn expire_sessions(&self, name: &str) {
        self.with(name, World::expire);
    }

    /// A server has exactly these tools from now on, and says so.
    pub fn set_tools(&self, name: &str, tools: Vec<String>) {
        self.with(name, |world, server| world.set_tools(server, tools));
    }

    /// The user asks for something.
    pub fn user(&self, name: &str, wish: UserWish) {
        if let Some(server) = self.world.server_number(name) {
            self.wish(server, wish);
        }
    }

    /// Calls a tool of a server as one of the world's callers does, entered in the books: gives how it ended, in
    /// the words of [`crate::CallRecord::outcome`].
    pub async fn call(&self, name: &str, tool: &str, limit: Duration) -> &'static str {
        let Some(server) = self.world.server_number(name) else { return "not-connected" };
        callers::call(self, server, TEST, tool, limit.as_millis() as u64, None).await
    }

    /// How often each tool of a server was performed.
    pub fn performed(&self, name: &str) -> BTreeMap<String, u64> {
        self.world.server_number(name).map(|server| self.world.performed(server)).unwrap_or_default()
    }

    fn with(&self, name: &str, act: impl FnOnce(&World, u32)) {
        if let Some(server) = self.world.server_number(name) {
            act(&self.world, server);
        }
    }
}
