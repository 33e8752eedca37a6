//! Lists of servers as they were fetched, and the snapshot of all of them under safe names.

use crate::handle::ConnHandle;
use crate::port::ServerName;
use bytes::Bytes;
use callboard_protocol::list::{Item, ListKind, ListProblem, ToolView};
use callboard_protocol::text::cut;
use callboard_protocol::{HeaderPlan, NameTable, QualifiedName};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One fetched list of one server.
#[derive(Debug, Clone)]
pub struct ItemList {
    /// Which list.
    pub kind: ListKind,
    /// Its items, in the server's order.
    pub items: Vec<Item>,
    /// Header plans of tools that mirror arguments (2026-07-28), by position.
    pub plans: HashMap<usize, HeaderPlan>,
    /// Items that were left out, and other oddities.
    pub problems: Vec<ListProblem>,
    /// When it was fetched.
    pub fetched_at: Instant,
    /// For how long the server allows it to be reused; zero outside 2026-07-28.
    pub ttl: Duration,
    /// It may be shown to callers with other credentials.
    pub public: bool,
    by_key: HashMap<Box<str>, usize>,
}

impl ItemList {
    /// Takes items as fetched; the first of equal keys wins, the others are reported.
    pub fn new(kind: ListKind, items: Vec<Item>, mut problems: Vec<ListProblem>) -> ItemList {
        let mut by_key = HashMap::with_capacity(items.len());
        let mut kept = Vec::with_capacity(items.len());
        for item in items {
            if by_key.contains_key(&item.key) {
                let message = "stands twice; the first one counts".to_owned();
                problems.push(ListProblem { item: item.key.into_string(), message });
                continue;
            }
            by_key.insert(item.key.clone(), kept.len());
            kept.push(item);
        }
        ItemList {
            kind,
            items: kept,
            plans: HashMap::new(),
            problems,
            fetched_at: Instant::now(),
            ttl: Duration::ZERO,
            public: false,
            by_key,
        }
    }

    /// The item with this key.
    pub fn get(&self, key: &str) -> Option<&Item> {
        self.position(key).map(|position| &self.items[position])
    }

    /// Where the item with this key stands.
    pub fn position(&self, key: &str) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// The header plan of a tool.
    pub fn plan(&self, key: &str) -> Option<&HeaderPlan> {
        self.plans.get(&self.position(key)?)
    }
}

/// What may be done with a tool without asking (behaviour profile §9.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Permission {
    /// May be called.
    Allow,
    /// A person is asked first.
    #[default]
    Ask,
    /// May not be called.
    Deny,
}

impl Permission {
    /// The word for it in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Permission::Allow => "allow",
            Permission::Ask => "ask",
            Permission::Deny => "deny",
        }
    }
}

/// One server's part of the catalog.
#[derive(Clone)]
pub struct ServerCatalog {
    /// The way to the server.
    pub handle: ConnHandle,
    /// Its tools; none until they were fetched once.
    pub tools: Option<Arc<ItemList>>,
    /// The tools are those of an earlier connection, or could not be refreshed.
    pub stale: bool,
}

/// The tools of all servers at one moment, under safe names. Shared, never copied per caller.
#[derive(Default)]
pub struct CatalogSnapshot {
    /// The servers, by name.
    pub servers: BTreeMap<ServerName, ServerCatalog>,
    named: Arc<Named>,
    description_chars_max: usize,
}

/// The names of all tools, which depend on nothing but the lists. Naming is what a catalog costs.
#[derive(Default)]
struct Named {
    names: NameTable,
    index: Vec<(ServerName, usize)>,
}

impl CatalogSnapshot {
    /// Names every tool of these servers.
    pub fn new(
        servers: BTreeMap<ServerName, ServerCatalog>,
        names_chars_max: usize,
        description_chars_max: usize,
    ) -> CatalogSnapshot {
        let mut index = Vec::new();
        let mut pairs = Vec::new();
        for (name, server) in &servers {
            for (position, item) in server.tools.iter().flat_map(|tools| tools.items.iter().enumerate()) {
                index.push((name.clone(), position));
                pairs.push((name.as_str(), &*item.key));
            }
        }
        let names = NameTable::new(&pairs, names_chars_max);
        CatalogSnapshot { servers, named: Arc::new(Named { names, index }), description_chars_max }
    }

    /// The same tools as before where that is so, under the names that they have: a server that is lost or comes
    /// back changes how good a list is, seldom the list.
    pub(crate) fn renewed(
        &self,
        servers: BTreeMap<ServerName, ServerCatalog>,
        names_chars_max: usize,
        description_chars_max: usize,
    ) -> CatalogSnapshot {
        let is_same = lists(&self.servers).eq(lists(&servers));
        match is_same {
            true => CatalogSnapshot { servers, named: self.named.clone(), description_chars_max },
            false => CatalogSnapshot::new(servers, names_chars_max, description_chars_max),
        }
    }

    /// Every tool: servers by name, tools in their server's order.
    pub fn tools(&self) -> impl Iterator<Item = ToolEntry<'_>> {
        (0..self.named.index.len()).filter_map(|index| self.entry(index))
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.named.index.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.named.index.is_empty()
    }

    /// The tool that a qualified name leads back to.
    pub fn find(&self, qualified: &str) -> Option<ToolEntry<'_>> {
        self.entry(self.named.names.index_of(qualified)?)
    }

    fn entry(&self, index: usize) -> Option<ToolEntry<'_>> {
        let (server, position) = self.named.index.get(index)?;
        let catalog = self.servers.get(server)?;
        let item = catalog.tools.as_ref()?.items.get(*position)?;
        let name = self.named.names.name(index)?;
        Some(ToolEntry {
            name,
            server,
            handle: &catalog.handle,
            item,
            stale: catalog.stale,
            permission: Permission::Ask,
            description_chars_max: self.description_chars_max,
        })
    }
}

/// Who has which list; a list is known by where it lies, which costs no look into it.
fn lists(
    servers: &BTreeMap<ServerName, ServerCatalog>,
) -> impl Iterator<Item = (&ServerName, *const ItemList)> {
    servers.iter().filter_map(|(name, server)| Some((name, Arc::as_ptr(server.tools.as_ref()?))))
}

/// One tool of a [`CatalogSnapshot`].
#[derive(Clone, Copy)]
pub struct ToolEntry<'a> {
    /// The name for models.
    pub name: &'a QualifiedName,
    /// The server.
    pub server: &'a ServerName,
    /// The way to it.
    pub handle: &'a ConnHandle,
    /// The tool as the server listed it; `item.key` is its raw name.
    pub item: &'a Item,
    /// See [`ServerCatalog::stale`].
    pub stale: bool,
    /// What may be done with it.
    pub permission: Permission,
    description_chars_max: usize,
}

impl<'a> ToolEntry<'a> {
    /// The tool's raw members.
    pub fn view(&self) -> Option<ToolView<'a>> {
        ToolView::read(&self.item.raw)
    }

    /// The description for a model, and whether it was cut at `catalog.description_chars_max`.
    pub fn description(&self) -> (String, bool) {
        let text = self.view().map(|view| view.description_text()).unwrap_or_default();
        let (head, was_cut) = cut(&text, self.description_chars_max);
        match was_cut {
            true => (format!("{head}… [cut]"), true),
            false => (head.to_owned(), false),
        }
    }

    /// The whole tool as the server sent it.
    pub fn raw(&self) -> &'a Bytes {
        &self.item.raw
    }
}
