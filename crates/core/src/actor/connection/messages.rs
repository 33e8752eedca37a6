//! What is told to a connection's actor, and how each message becomes an event.

use super::{ConnectionActor, REFRESH_PAUSE_MAX};
use crate::actor::connector::Granted;
use crate::connect::Established;
use crate::event::EventKind;
use crate::guard::Panicked;
use crate::handle::{self, ToolsFetched, ToolsState};
use crate::machine::{Event, TimerToken};
use crate::port::{CloseReason, Generation};
use actix::prelude::*;
use callboard_protocol::list::ListKind;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A command of a handle.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Command(pub handle::Command);

/// The link is open; the handshake begins.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Dialed(pub Generation);

/// An attempt to connect has ended.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ConnectDone {
    pub generation: Generation,
    pub result: Result<Established, Arc<CloseReason>>,
}

/// The IO task of a generation has ended.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct IoDown {
    pub generation: Generation,
    pub reason: Arc<CloseReason>,
    pub answered: bool,
}

/// An attempt has had its permit for as long as a start may keep others waiting.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PermitOverdue(pub Generation);

/// A timer ran out.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TimerDone(pub TimerToken);

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

/// The board is closing: end everything. The sender is dropped once that is under way.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Close(pub mpsc::Sender<()>);

impl Handler<Command> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Command(command): Command, context: &mut Context<Self>) {
        match command {
            _ if self.closing => {}
            handle::Command::Demand => self.step(Event::Demand, context),
            handle::Command::Reconnect => self.step(Event::Reconnect, context),
            handle::Command::Enable => self.step(Event::Enable, context),
            handle::Command::Disable => {
                self.step(Event::Disable, context);
                self.end_all();
            }
            handle::Command::ToolsFetched(fetched) => self.tools_fetched(fetched),
        }
    }
}

impl Handler<Granted> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Granted(permit): Granted, context: &mut Context<Self>) {
        self.permit = Some(permit);
        self.step(Event::PermitGranted, context);
    }
}

impl Handler<Dialed> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Dialed(generation): Dialed, context: &mut Context<Self>) {
        self.step(Event::Dialed(generation), context);
    }
}

impl Handler<ConnectDone> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, done: ConnectDone, context: &mut Context<Self>) {
        if done.generation != self.machine.generation || self.closing {
            // Of an earlier attempt: dropping it ends its link.
            return;
        }
        self.dial = None;
        match done.result {
            Ok(established) => self.established(established, context),
            Err(reason) => self.step(Event::ConnectFailed(done.generation, reason), context),
        }
    }
}

impl Handler<IoDown> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, down: IoDown, context: &mut Context<Self>) {
        let IoDown { generation, reason, answered } = down;
        self.step(Event::Down { generation, reason, answered }, context);
    }
}

impl Handler<PermitOverdue> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, PermitOverdue(generation): PermitOverdue, _: &mut Context<Self>) {
        if self.machine.generation == generation {
            self.permit = None;
        }
    }
}

impl Handler<TimerDone> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, TimerDone(token): TimerDone, context: &mut Context<Self>) {
        if !self.closing {
            self.step(Event::Timer(token), context);
        }
    }
}

impl Handler<Panicked> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Panicked { restarted }: Panicked, context: &mut Context<Self>) {
        self.env.emit(self.server.name(), self.machine.generation, EventKind::ActorPanicked { restarted });
        self.step(Event::Panicked { restarted }, context);
    }
}

impl Handler<Close> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Close(done): Close, context: &mut Context<Self>) {
        self.closing = true;
        self.step(Event::Disable, context);
        self.end_all();
        context.stop();
        drop(done);
    }
}

impl Handler<ListChanged> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, changed: ListChanged, context: &mut Context<Self>) {
        changed.told.fetch_and(!(1 << changed.kind as u8), Ordering::AcqRel);
        let Some(core) = self.core.as_ref().filter(|core| core.generation == changed.generation) else {
            return;
        };
        if changed.kind != ListKind::Tools {
            if let Some(session) = core.session() {
                session.invalidate(changed.kind);
            }
            return;
        }
        if self.refresh.under_way {
            self.refresh.asked_for = true;
        } else if !self.refresh.scheduled {
            self.schedule_refresh(context);
        }
    }
}

impl Handler<RefreshTools> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, RefreshTools(generation): RefreshTools, context: &mut Context<Self>) {
        self.refresh.scheduled = false;
        if self.core.as_ref().is_some_and(|core| core.generation == generation) && !self.refresh.under_way {
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
        self.refresh.scheduled = true;
        let generation = self.machine.generation;
        context.run_later(pause, move |_, context| context.notify(RefreshTools(generation)));
    }

    /// Takes a fetched list in, unless a newer one is already known.
    pub(super) fn tools_fetched(&mut self, fetched: ToolsFetched) {
        if self.core.as_ref().is_none_or(|core| core.generation != fetched.generation) {
            return;
        }
        match fetched.result {
            Ok(list) if fetched.sequence > self.refresh.applied => {
                self.refresh.applied = fetched.sequence;
                let (added, removed) = difference(self.tools.list.as_deref(), &list);
                let event = EventKind::ListFetched {
                    list: ListKind::Tools.key(),
                    items: list.items.len(),
                    problems: list.problems.len(),
                    added,
                    removed,
                };
                self.tools.list = Some(list);
                self.tools.state = ToolsState::Fresh;
                self.env.emit(self.server.name(), fetched.generation, event);
            }
            Ok(_) => return,
            Err(_) if fetched.sequence < self.refresh.applied => return,
            Err(cause) => {
                self.tools.state = match self.tools.list {
                    Some(_) => ToolsState::Stale,
                    None => ToolsState::Failed(cause.clone()),
                };
                let event = EventKind::ListFailed { list: ListKind::Tools.key(), cause };
                self.env.emit(self.server.name(), fetched.generation, event);
            }
        }
        self.publish();
    }

    /// The actor's own fetch has ended; another one follows if a change came meanwhile.
    pub(super) fn own_fetch_done(&mut self, fetched: ToolsFetched, context: &mut Context<Self>) {
        if self.core.as_ref().is_none_or(|core| core.generation != fetched.generation) {
            return;
        }
        self.refresh.under_way = false;
        self.refresh.last = Some(Instant::now());
        self.tools_fetched(fetched);
        if std::mem::take(&mut self.refresh.asked_for) && !self.refresh.scheduled {
            self.schedule_refresh(context);
        }
    }
}

/// Names in a difference that are told.
const NAMES_TOLD_MAX: usize = 100;

fn difference(
    old: Option<&crate::catalog::ItemList>,
    new: &crate::catalog::ItemList,
) -> (Vec<String>, Vec<String>) {
    let Some(old) = old else { return (Vec::new(), Vec::new()) };
    let names =
        |list: &crate::catalog::ItemList| list.items.iter().map(|i| i.key.clone()).collect::<BTreeSet<_>>();
    let (old, new) = (names(old), names(new));
    let only = |a: &BTreeSet<Box<str>>, b: &BTreeSet<Box<str>>| {
        a.difference(b).take(NAMES_TOLD_MAX).map(|name| name.to_string()).collect()
    };
    (only(&new, &old), only(&old, &new))
}
