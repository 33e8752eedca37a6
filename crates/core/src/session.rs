//! What a handshake agreed on. Lists and instructions live and die with it.

use crate::catalog::ItemList;
use crate::dialect::{Dialect, ModernDialect};
use crate::listen::{ListenState, ResourceListens};
use callboard_protocol::list::ListKind;
use callboard_protocol::message::{PeerFeatures, PeerInfo};
use callboard_protocol::{Era, ProtocolVersion};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A finished handshake. Only the handshake makes one.
pub(crate) struct Session {
    /// What the server said of itself.
    pub peer: PeerInfo,
    /// What it declared.
    pub features: PeerFeatures,
    pub(crate) dialect: Arc<dyn Dialect>,
    pub(crate) modern: Option<Arc<ModernDialect>>,
    pub(crate) listen: ListenState,
    pub(crate) resources: ResourceListens,
    lists: Mutex<BTreeMap<ListKind, Cached>>,
}

/// A list other than the tools. A change that is told while it is being fetched makes the fetched one old.
#[derive(Default)]
struct Cached {
    changes: u64,
    list: Option<Arc<ItemList>>,
}

impl Session {
    pub(crate) fn legacy(peer: PeerInfo, dialect: Arc<dyn Dialect>) -> Session {
        Session::new(peer, dialect, None)
    }

    pub(crate) fn modern(peer: PeerInfo, dialect: Arc<ModernDialect>) -> Session {
        Session::new(peer, dialect.clone(), Some(dialect))
    }

    fn new(peer: PeerInfo, dialect: Arc<dyn Dialect>, modern: Option<Arc<ModernDialect>>) -> Session {
        let (listen, resources) = (ListenState::default(), ResourceListens::default());
        Session {
            features: peer.features(),
            peer,
            dialect,
            modern,
            listen,
            resources,
            lists: Mutex::default(),
        }
    }

    /// A list other than the tools, as it was fetched in this session.
    pub(crate) fn cached(&self, kind: ListKind) -> Option<Arc<ItemList>> {
        self.lists.lock().get(&kind)?.list.clone()
    }

    /// How often a list was said to have changed.
    pub(crate) fn changes(&self, kind: ListKind) -> u64 {
        self.lists.lock().get(&kind).map_or(0, |cached| cached.changes)
    }

    /// Keeps a list whose fetch began when it had changed so often, unless it has changed since.
    pub(crate) fn cache(&self, kind: ListKind, list: Arc<ItemList>, changes: u64) {
        let mut lists = self.lists.lock();
        let cached = lists.entry(kind).or_default();
        if cached.changes == changes {
            cached.list = Some(list);
        }
    }

    /// Forgets a list that is said to have changed.
    pub(crate) fn invalidate(&self, kind: ListKind) {
        let mut lists = self.lists.lock();
        let cached = lists.entry(kind).or_default();
        cached.changes += 1;
        cached.list = None;
    }

    /// The revision spoken.
    pub(crate) fn version(&self) -> ProtocolVersion {
        self.dialect.version()
    }

    /// Its era.
    pub(crate) fn era(&self) -> Era {
        self.version().era()
    }
}
