//! Changes of the table: one after another, each in turns that leave the arbiter to others in between. Ten thousand
//! servers that come or go at once would keep it for longer than any step may take.

use super::RegistryActor;
use crate::actor::connection::EntryDisabled;
use crate::event::EventKind;
use crate::handle::ConnHandle;
use crate::port::{Admitted, Generation, ServerName};
use actix::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

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
    /// Entries that cannot be used. What is known under their names stays as it is.
    pub kept: Vec<ServerName>,
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

/// Servers that are added, compared or taken out in one turn.
const STEPS_A_TURN: usize = 500;

/// Changes that are under way or wait. Whoever asks waits for the answer, so there are as many as askers.
#[derive(Default)]
pub(super) struct Changes {
    waiting: VecDeque<Asked>,
    work: Option<Work>,
    is_scheduled: bool,
}

struct Asked {
    change: Change,
    reply: oneshot::Sender<Applied>,
}

enum Change {
    Add(Vec<Admitted>),
    Apply(Apply),
    Remove(Remove),
}

/// A change under way.
struct Work {
    steps: std::vec::IntoIter<Step>,
    /// The table as it will be.
    handles: BTreeMap<ServerName, ConnHandle>,
    applied: Applied,
    reply: oneshot::Sender<Applied>,
}

enum Step {
    Add(Admitted),
    Enter(Admitted),
    SwitchOff(ServerName),
    TakeOut(ServerName, mpsc::Sender<()>),
}

/// Time for the next turn.
#[derive(Message)]
#[rtype(result = "()")]
struct GoOn;

// The answers come turns later; no handler waits for them.

impl Handler<Add> for RegistryActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, add: Add, context: &mut Context<Self>) -> Self::Result {
        let answer = self.ask(Change::Add(add.servers), context);
        Box::pin(async move { drop(answer.await) })
    }
}

impl Handler<Apply> for RegistryActor {
    type Result = ResponseFuture<Applied>;

    fn handle(&mut self, apply: Apply, context: &mut Context<Self>) -> Self::Result {
        let answer = self.ask(Change::Apply(apply), context);
        Box::pin(async move { answer.await.unwrap_or_default() })
    }
}

impl Handler<Remove> for RegistryActor {
    type Result = ResponseFuture<bool>;

    fn handle(&mut self, remove: Remove, context: &mut Context<Self>) -> Self::Result {
        let answer = self.ask(Change::Remove(remove), context);
        Box::pin(async move { answer.await.is_ok_and(|applied| !applied.removed.is_empty()) })
    }
}

impl Handler<GoOn> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: GoOn, context: &mut Context<Self>) {
        self.changes.is_scheduled = false;
        self.go_on(context);
    }
}

impl RegistryActor {
    fn ask(&mut self, change: Change, context: &mut Context<Self>) -> oneshot::Receiver<Applied> {
        let (reply, answer) = oneshot::channel();
        self.changes.waiting.push_back(Asked { change, reply });
        self.go_on(context);
        answer
    }

    /// Takes a turn's steps, unless the next turn is on its way.
    pub(super) fn go_on(&mut self, context: &mut Context<Self>) {
        if self.changes.is_scheduled {
            return;
        }
        for _ in 0..STEPS_A_TURN {
            if self.changes.work.is_none() {
                let Some(asked) = self.changes.waiting.pop_front() else { return };
                self.changes.work = Some(self.begin(asked));
            }
            let Some(work) = &mut self.changes.work else { return };
            match work.steps.next() {
                Some(step) => self.take(step, context),
                None => self.finish(),
            }
        }
        self.changes.is_scheduled = true;
        let registry = context.address();
        actix_rt::spawn(async move {
            // Everybody else first: a message sent from here would be handled in this same turn.
            tokio::task::yield_now().await;
            registry.do_send(GoOn);
        });
    }

    fn begin(&self, Asked { change, reply }: Asked) -> Work {
        let steps: Vec<Step> = match change {
            Change::Add(servers) => servers.into_iter().map(Step::Add).collect(),
            Change::Remove(Remove { server, done }) => vec![Step::TakeOut(server, done)],
            Change::Apply(Apply { servers, disabled, kept }) => {
                let named: BTreeSet<&ServerName> =
                    servers.iter().map(Admitted::name).chain(&disabled).chain(&kept).collect();
                let (done, _) = mpsc::channel(1);
                let gone = self.connections.keys().filter(|name| !named.contains(name));
                let mut steps: Vec<Step> =
                    gone.map(|name| Step::TakeOut(name.clone(), done.clone())).collect();
                steps.extend(servers.into_iter().map(Step::Enter));
                steps.extend(disabled.into_iter().map(Step::SwitchOff));
                steps
            }
        };
        let handles = (*self.table.handles()).clone();
        Work { steps: steps.into_iter(), handles, applied: Applied::default(), reply }
    }

    fn take(&mut self, step: Step, context: &mut Context<Self>) {
        let (name, new) = match step {
            Step::Add(server) | Step::Enter(server) if !self.connections.contains_key(server.name()) => {
                let name = server.name().clone();
                (name, Some(self.take_in(server, context)))
            }
            Step::Add(_) => return,
            Step::Enter(server) => {
                let name = server.name().clone();
                let changes = self.connections.get_mut(&name).is_some_and(|slot| slot.replace(server));
                return self.note(name, changes);
            }
            Step::SwitchOff(name) => {
                let Some(slot) = self.connections.get_mut(&name) else { return };
                let changes = !std::mem::replace(&mut slot.is_off, true);
                if changes {
                    slot.connection.do_send(EntryDisabled);
                }
                return self.note(name, changes);
            }
            Step::TakeOut(name, done) => match self.take_out(&name, done) {
                true => (name, None),
                false => return,
            },
        };
        let Some(work) = &mut self.changes.work else { return };
        match new {
            Some(handle) => {
                work.handles.insert(name.clone(), handle);
                work.applied.added.push(name);
            }
            None => {
                work.handles.remove(&name);
                work.applied.removed.push(name);
            }
        }
    }

    fn note(&mut self, name: ServerName, changes: bool) {
        let Some(work) = &mut self.changes.work else { return };
        if changes { &mut work.applied.replaced } else { &mut work.applied.unchanged }.push(name);
    }

    fn finish(&mut self) {
        let Some(Work { handles, applied, reply, .. }) = self.changes.work.take() else { return };
        self.table.handles.store(Arc::new(handles));
        self.env.bump();
        for name in &applied.added {
            // Told once the table leads to it.
            self.env.emit(name, Generation::default(), EventKind::ServerAdded);
        }
        let _ = reply.send(applied);
    }
}
