//! The list of tools in the catalog: fetched with each connection, again when the server says so, and compared
//! with the one before.

use super::{ConnectionActor, REFRESH_PAUSE_MAX};
use crate::catalog::ItemList;
use crate::event::EventKind;
use crate::handle::{ToolsFetched, ToolsState};
use crate::port::Generation;
use crate::telemetry;
use actix::prelude::*;
use callboard_protocol::list::ListKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::time::Instant;

/// The server says that a list has changed.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ListChanged {
    pub generation: Generation,
    pub kind: ListKind,
    /// A bit for each kind that is on its way.
    pub told: Arc<AtomicU8>,
}

/// The pause after a change is over.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RefreshTools(pub Generation);

impl Handler<ListChanged> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, changed: ListChanged, context: &mut Context<Self>) {
        changed.told.fetch_and(!(1 << changed.kind as u8), Ordering::AcqRel);
        let Some(core) = self.core.as_ref().filter(|core| core.generation == changed.generation) else {
            return self.drop_stale(changed.generation, "a change of a list");
        };
        if changed.kind != ListKind::Tools {
            if let Some(session) = core.session() {
                session.invalidate(changed.kind);
            }
            return;
        }
        if self.refresh.under_way {
            self.refresh.asked_for = true;
        } else if self.refresh.scheduled.is_none() {
            self.schedule_refresh(context);
        }
    }
}

impl Handler<RefreshTools> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, RefreshTools(generation): RefreshTools, context: &mut Context<Self>) {
        if self.core.as_ref().is_none_or(|core| core.generation != generation) {
            return self.drop_stale(generation, "a refresh of tools");
        }
        self.refresh.scheduled = None;
        if !self.refresh.under_way {
            self.fetch_tools(context);
        }
    }
}

impl ConnectionActor {
    /// Joins a burst of changes into one refresh; in a storm the pauses grow.
    fn schedule_refresh(&mut self, context: &mut Context<Self>) {
        let debounce = self.env.settings.catalog_refresh_debounce;
        let quiet = self.refresh.last.is_none_or(|last| last.elapsed() > debounce * 10);
        self.refresh.storm = if quiet { 0 } else { (self.refresh.storm + 1).min(8) };
        let pause = (debounce * (1 << self.refresh.storm)).min(REFRESH_PAUSE_MAX);
        let generation = self.machine.generation;
        let timer = context.run_later(pause, move |_, context| context.notify(RefreshTools(generation)));
        self.refresh.scheduled = Some(timer);
    }

    /// Takes a fetched list in, unless a newer one is already known.
    pub(super) fn tools_fetched(&mut self, fetched: ToolsFetched) {
        if self.core.as_ref().is_none_or(|core| core.generation != fetched.generation) {
            return self.drop_stale(fetched.generation, "a list of tools");
        }
        match fetched.result {
            Ok(list) if fetched.sequence > self.refresh.applied => {
                self.refresh.applied = fetched.sequence;
                let difference = self.tools.list.as_deref().map(|old| Difference::new(old, &list));
                let (added, removed) = match &difference {
                    Some(difference) => (difference.added.clone(), difference.removed.clone()),
                    None => (Vec::new(), Vec::new()),
                };
                let event = EventKind::ListFetched {
                    list: ListKind::Tools.key(),
                    items: list.items.len(),
                    problems: list.problems.len(),
                    added,
                    removed,
                };
                telemetry::catalog_tools(self.server.name(), list.items.len());
                self.tools.list = Some(list);
                self.tools.state = ToolsState::Fresh;
                self.tell(fetched.generation, event);
                if let Some(changed) = difference.and_then(Difference::into_event) {
                    self.tell(fetched.generation, changed);
                }
            }
            Ok(_) => return,
            Err(_) if fetched.sequence < self.refresh.applied => return,
            Err(cause) => {
                self.tools.state = match self.tools.list {
                    Some(_) => ToolsState::Stale,
                    None => ToolsState::Failed(cause.clone()),
                };
                let event = EventKind::ListFailed { list: ListKind::Tools.key(), cause };
                self.tell(fetched.generation, event);
            }
        }
        self.publish();
    }

    /// The actor's own fetch has ended; another one follows if a change came meanwhile.
    pub(super) fn own_fetch_done(&mut self, fetched: ToolsFetched, context: &mut Context<Self>) {
        if self.core.as_ref().is_none_or(|core| core.generation != fetched.generation) {
            return self.drop_stale(fetched.generation, "a list of tools");
        }
        self.refresh.under_way = false;
        self.refresh.last = Some(Instant::now());
        self.tools_fetched(fetched);
        if std::mem::take(&mut self.refresh.asked_for) && self.refresh.scheduled.is_none() {
            self.schedule_refresh(context);
        }
    }
}

/// Names in a difference that are told.
const NAMES_TOLD_MAX: usize = 100;

/// How a list differs from the one before.
struct Difference {
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
}

impl Difference {
    fn new(old: &ItemList, new: &ItemList) -> Difference {
        let missing = |from: &ItemList, of: &ItemList| {
            let missing = of.items.iter().filter(|item| from.get(&item.key).is_none());
            missing.take(NAMES_TOLD_MAX).map(|item| item.key.to_string()).collect()
        };
        let changed =
            new.items.iter().filter(|item| old.get(&item.key).is_some_and(|old| old.raw != item.raw));
        Difference {
            added: missing(old, new),
            removed: missing(new, old),
            changed: changed.take(NAMES_TOLD_MAX).map(|item| item.key.to_string()).collect(),
        }
    }

    fn into_event(self) -> Option<EventKind> {
        let Difference { added, removed, changed } = self;
        let differs = !(added.is_empty() && removed.is_empty() && changed.is_empty());
        differs.then_some(EventKind::CatalogChanged { list: ListKind::Tools.key(), added, removed, changed })
    }
}
