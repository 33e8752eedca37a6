//! What a decision of the machine makes the actor do.

use super::ConnectionActor;
use super::messages::{ConnectDone, Dialed, IoDown, PermitOverdue, TimerDone};
use super::replace::DrainOverdue;
use super::tools::ListChanged;
use crate::actor::connector::{Acquire, Pool, Ticket, Withdraw};
use crate::conn_core::ConnCore;
use crate::connect::{Attempt, Established, connect};
use crate::handle::{ToolsFetched, ToolsState};
use crate::inbound;
use crate::io_task::{AliveToken, Gone};
use crate::listen;
use crate::lists;
use crate::machine::{Effect, Event, State};
use crate::port::Generation;
use crate::telemetry;
use actix::prelude::*;
use callboard_protocol::list::ListKind;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The actor's own fetch of the tools has ended.
#[derive(Message)]
#[rtype(result = "()")]
struct OwnFetchDone(ToolsFetched);

impl Handler<OwnFetchDone> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, OwnFetchDone(fetched): OwnFetchDone, context: &mut Context<Self>) {
        self.own_fetch_done(fetched, context);
    }
}

impl ConnectionActor {
    pub(super) fn carry_out(&mut self, effect: Effect, context: &mut Context<Self>) {
        match effect {
            Effect::RequestPermit => {
                let number = self.env.tickets.fetch_add(1, Ordering::Relaxed);
                let ticket = Ticket { pool: self.pool(), number };
                self.ticket = Some(ticket);
                self.connector.do_send(Acquire { ticket, to: context.address().recipient() });
            }
            Effect::ReleasePermit => {
                if let Some(overdue) = self.overdue.take() {
                    context.cancel_future(overdue);
                }
                if let Some(ticket) = self.ticket.take()
                    && self.permit.take().is_none()
                {
                    self.connector.do_send(Withdraw(ticket));
                }
            }
            Effect::Dial(generation) => self.dial(generation, context),
            Effect::CancelDial => {
                if let Some(dial) = self.dial.take() {
                    dial.abort();
                }
            }
            Effect::CloseLink(generation) => {
                if let Some(core) = self.ended(generation) {
                    core.io.stop();
                }
            }
            Effect::Drain(generation) => self.drain(generation, context),
            Effect::ArmTimer(token, at) => {
                let wait = at.saturating_duration_since(Instant::now());
                let timer = context.run_later(wait, move |_, context| context.notify(TimerDone(token)));
                if let Some(earlier) = self.timer.replace(timer) {
                    context.cancel_future(earlier);
                }
            }
        }
    }

    /// A generation that takes nothing new any more, while something of it is under way.
    pub(super) fn ended(&self, generation: Generation) -> Option<Arc<ConnCore>> {
        self.ending.iter().filter_map(Weak::upgrade).find(|core| core.generation == generation)
    }

    /// What is under way may end, within its limit. The next generation may begin beside it: it is another
    /// server, by its entry.
    fn drain(&mut self, generation: Generation, context: &mut Context<Self>) {
        let Some(core) = self.ended(generation) else { return };
        self.replaced.retain(|gone| !gone.is_gone());
        self.replaced.append(&mut self.leaving);
        let limit = self.env.settings.reconnect_drain;
        if limit.is_zero() {
            core.io.stop();
            return;
        }
        core.drain();
        context.run_later(limit, move |_, context| context.notify(DrainOverdue(generation)));
    }

    /// What the next attempt has to wait for: two processes of one server could be in each other's way.
    fn left_over(&mut self) -> Vec<Gone> {
        self.leaving.retain(|gone| !gone.is_gone());
        match self.pool() {
            Pool::Local => self.leaving.clone(),
            Pool::Remote => Vec::new(),
        }
    }

    fn dial(&mut self, generation: Generation, context: &mut Context<Self>) {
        let address = context.address();
        let dialed = address.clone();
        let list_changed = tell_changes(address.clone(), generation);
        telemetry::dialed(self.server.name());
        let left_over = self.left_over();
        let (token, gone) = AliveToken::new(self.env.alive_token());
        self.leaving.push(gone);
        let attempt = Attempt {
            env: self.env.clone(),
            server: self.server.clone(),
            generation,
            gate: self.shared.gate.clone(),
            stderr: self.shared.stderr.clone(),
            list_changed,
            token: token.clone(),
            dialed: Box::new(move || dialed.do_send(Dialed(generation))),
        };
        let settings = &self.env.settings;
        let patience = settings.stdio_close_grace + settings.stdio_term_grace + CLOSE_SLACK;
        let shared = self.shared.clone();
        let task = self.env.runtime.spawn(async move {
            for gone in left_over {
                let _ = timeout(patience, gone.wait()).await;
            }
            let result = connect(attempt).await;
            drop(token);
            let core = result.as_ref().ok().map(|established| established.core.clone());
            address.do_send(ConnectDone { generation, result });
            // The first list is fetched right here: the actor's turn would cost two thread hops.
            if let Some(core) = core.filter(|core| lists_tools(core)) {
                let sequence = shared.sequence.fetch_add(1, Ordering::Relaxed);
                address.do_send(OwnFetchDone(fetched(&core, sequence).await));
            }
        });
        self.dial = Some(task.abort_handle());
        // What makes starts heavy is over by then; a server that hangs must not hold up those that wait.
        let overdue = self.env.settings.probe_timeout;
        self.overdue =
            Some(context.run_later(overdue, move |_, context| context.notify(PermitOverdue(generation))));
    }

    /// The handshake is done: the core is published and watched, lists are fetched, changes listened for.
    pub(super) fn established(&mut self, established: Established, context: &mut Context<Self>) {
        let Established { core, io } = established;
        let generation = core.generation;
        self.core = Some(core.clone());
        self.refresh.under_way = lists_tools(&core);
        self.tools.state = match self.refresh.under_way {
            true => ToolsState::Fetching,
            false => {
                self.tools.list =
                    Some(Arc::new(crate::catalog::ItemList::new(ListKind::Tools, Vec::new(), Vec::new())));
                ToolsState::Fresh
            }
        };
        self.step(Event::Established(generation), context);
        if !matches!(self.machine.state, State::Connected { .. }) {
            return;
        }
        let (address, watched, token) = (context.address(), core.clone(), self.env.alive_token());
        self.env.runtime.spawn(async move {
            let reason = io.ended().await;
            drop(token);
            let answered = watched.io.answered();
            address.do_send(IoDown { generation, reason, answered });
        });
        if core.session().is_some_and(|session| session.modern.is_some() && session.features.list_changed) {
            let list_changed = tell_changes(context.address(), generation);
            let task = self.env.runtime.spawn(listen::keep_listening(core, list_changed));
            self.listening = Some(task.abort_handle());
        }
    }

    pub(super) fn fetch_tools(&mut self, context: &mut Context<Self>) {
        let Some(core) = self.core.clone() else { return };
        self.refresh.under_way = true;
        let address = context.address();
        let sequence = self.shared.sequence.fetch_add(1, Ordering::Relaxed);
        self.env.runtime.spawn(async move {
            address.do_send(OwnFetchDone(fetched(&core, sequence).await));
        });
    }
}

/// What the end of a process may take beyond its graces: the reaping.
const CLOSE_SLACK: Duration = Duration::from_secs(3);

/// Tells the actor of changes, of each kind once until it has looked: no flood of one kind can fill its mailbox
/// or push out a change of another.
fn tell_changes(actor: Addr<ConnectionActor>, generation: Generation) -> inbound::ListChanged {
    let told = Arc::new(AtomicU8::new(0));
    Arc::new(move |kind| {
        let mark = 1 << kind as u8;
        if told.fetch_or(mark, Ordering::AcqRel) & mark == 0 {
            // Bounded although `do_send` ignores the mailbox's limit: one of each kind.
            actor.do_send(ListChanged { generation, kind, told: told.clone() });
        }
    })
}

fn lists_tools(core: &ConnCore) -> bool {
    core.session().is_some_and(|session| session.features.tools)
}

async fn fetched(core: &Arc<ConnCore>, sequence: u64) -> ToolsFetched {
    let result = lists::fetch(core, ListKind::Tools).await.map(Arc::new);
    ToolsFetched { generation: core.generation, sequence, result: result.map_err(|error| error.to_string()) }
}
