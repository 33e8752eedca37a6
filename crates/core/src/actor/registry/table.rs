//! The table of servers as everybody reads it, and the catalog made of it.

use crate::catalog::{CatalogSnapshot, ServerCatalog};
use crate::environment::Environment;
use crate::handle::{ConnHandle, ToolsState};
use crate::port::ServerName;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The table of servers as everybody reads it, and the catalog made of it.
pub struct ServerTable {
    env: Arc<Environment>,
    pub(super) handles: ArcSwap<BTreeMap<ServerName, ConnHandle>>,
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
