//! One server's connection: the thin actor around [`ConnMachine`].
//!
//! Ownership: the registry owns this actor; it owns the machine, the timers, the dial under way and the IO
//! task of the current generation (through the core's stop signal).
//! Control path: messages become events, `step` decides, effects are carried out here; what changed is
//! published as a snapshot. Data path: none. Calls use the published core and never come here.

mod causes;
mod effects;
pub(super) mod messages;
pub(super) mod replace;
pub(super) mod tools;

pub(crate) use messages::{Close, Command};
pub(crate) use replace::{EntryDisabled, Remove, Replace, leads_to_the_same};

use crate::actor::connector::{ConnectorActor, Permit, Pool, Ticket};
use crate::conn_core::ConnCore;
use crate::environment::Environment;
use crate::event::EventKind;
use crate::guard;
use crate::handle::{ConnShared, ConnSnapshot, Tools, ToolsState};
use crate::io_task::Gone;
use crate::machine::{ConnMachine, DisabledBy, Event, Phase, Rules, State};
use crate::port::{Admitted, Generation};
use crate::telemetry;
use crate::view;
use actix::prelude::*;
use causes::Ending;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// One server's connection.
pub struct ConnectionActor {
    env: Arc<Environment>,
    server: Admitted,
    shared: Arc<ConnShared>,
    connector: Addr<ConnectorActor>,
    rules: Rules,
    machine: ConnMachine,
    /// The request for a permit that has not been given back, granted or not.
    ticket: Option<Ticket>,
    permit: Option<Permit>,
    overdue: Option<SpawnHandle>,
    timer: Option<SpawnHandle>,
    dial: Option<AbortHandle>,
    /// Attempts of which something may be left that the next one must not meet.
    leaving: Vec<Gone>,
    /// Attempts of earlier entries, beside which the next one may begin.
    replaced: Vec<Gone>,
    core: Option<Arc<ConnCore>>,
    /// Earlier generations whose last exchanges may still be under way.
    ending: Vec<Weak<ConnCore>>,
    listening: Option<AbortHandle>,
    tools: Tools,
    refresh: Refresh,
    closing: bool,
}

/// Where the refreshing of the tool list stands: at most one fetch under way and one asked for.
#[derive(Default)]
struct Refresh {
    under_way: bool,
    asked_for: bool,
    scheduled: Option<SpawnHandle>,
    /// Refreshes in quick succession; each one doubles the pause before the next.
    storm: u32,
    last: Option<Instant>,
    applied: u64,
}

impl ConnectionActor {
    /// Starts the actor of one server, under guard.
    pub(crate) fn start(shared: Arc<ConnShared>, connector: Addr<ConnectorActor>) -> Addr<ConnectionActor> {
        let env = shared.env.clone();
        let (server, machine) = {
            let snapshot = shared.snapshot.load();
            (snapshot.server.clone(), snapshot.machine.clone())
        };
        let rules = rules(&env, &server);
        env.states.entered(shape(&machine.state).0);
        guard::start(move |_| ConnectionActor {
            env,
            server,
            shared,
            connector,
            rules,
            machine,
            ticket: None,
            permit: None,
            overdue: None,
            timer: None,
            dial: None,
            leaving: Vec::new(),
            replaced: Vec::new(),
            core: None,
            ending: Vec::new(),
            listening: None,
            tools: Tools::default(),
            refresh: Refresh::default(),
            closing: false,
        })
    }

    fn pool(&self) -> Pool {
        match self.server.spec().transport.is_local() {
            true => Pool::Local,
            false => Pool::Remote,
        }
    }

    /// Takes an event: decides, carries out, publishes.
    fn step(&mut self, event: Event, context: &mut Context<Self>) {
        let before = shape(&self.machine.state);
        let lived = self.machine.live();
        let ending = lived.and_then(|_| causes::ending(&event, self.closing));
        // A copy, so that a panic of the machine leaves the state as it was.
        let (machine, effects) = self.machine.clone().step(event, Instant::now(), &self.rules);
        self.machine = machine;
        if !matches!(self.machine.state, State::Connected { .. }) {
            self.forget_core();
        }
        for effect in effects {
            self.carry_out(effect, context);
        }
        if let Some(ending) = ending
            && lived != self.machine.live()
        {
            self.tell_loss(lived.unwrap_or_default(), before.0 == "connected", ending);
        }
        let after = shape(&self.machine.state);
        if before.0 != after.0 {
            self.env.states.left(before.0);
            self.env.states.entered(after.0);
        }
        if before != after {
            let is_phase = before.0 == after.0 && after.1 != Some(view::phase_word(Phase::Dormant));
            match is_phase {
                true => self.shared.publish_phase(self.snapshot()),
                false => self.publish(),
            }
            let cause = cause(&self.machine.state);
            let event = EventKind::StateChanged { state: after.0, phase: after.1, cause };
            self.tell(self.machine.generation, event);
        }
    }

    fn tell(&self, generation: Generation, event: EventKind) {
        self.env.emit(self.server.name(), generation, event);
    }

    /// A connection, or an attempt to make one, has ended.
    fn tell_loss(&self, generation: Generation, was_connected: bool, ending: Ending) {
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now).as_millis() as u64;
        let (attempt, next_try_in_ms) = match &self.machine.state {
            State::Pending { phase, attempt, .. } => match phase {
                Phase::BackingOff { until: at, .. } => (*attempt, Some(until(*at))),
                Phase::Queued | Phase::Dialing(_) | Phase::Handshaking(_) => (*attempt, Some(0)),
                Phase::Dormant => (*attempt, None),
            },
            State::Failed { attempts, slow_retry, .. } => (*attempts, slow_retry.map(|(at, _)| until(at))),
            State::Connected { .. } | State::NeedsAuth { .. } | State::Disabled { .. } => (0, None),
        };
        let Ending { word, text, signal } = ending;
        if was_connected && matches!(self.machine.state, State::Pending { .. }) {
            telemetry::reconnecting(self.server.name(), word);
        }
        self.tell(
            generation,
            EventKind::LinkLost { cause: text.into_owned(), signal, attempt, next_try_in_ms },
        );
    }

    /// Counts and tells a message of an earlier generation, which its handler drops.
    fn drop_stale(&self, of: Generation, what: &'static str) {
        telemetry::stale_event(self.server.name());
        self.tell(self.machine.generation, EventKind::StaleDropped { of_generation: of.0, what });
    }

    /// The lists of a session that has ended stay as the last good ones, marked stale.
    fn forget_core(&mut self) {
        let Some(core) = self.core.take() else { return };
        self.ending.retain(|core| core.strong_count() > 0);
        self.ending.push(Arc::downgrade(&core));
        if let Some(listening) = self.listening.take() {
            listening.abort();
        }
        self.tools.state = if self.tools.list.is_some() { ToolsState::Stale } else { ToolsState::None };
        self.refresh = Refresh { applied: self.refresh.applied, ..Refresh::default() };
    }

    /// Ends every generation, with the exchanges of those that take nothing new any more.
    fn end_all(&mut self) {
        for core in self.core.iter().cloned().chain(self.ending.drain(..).filter_map(|core| core.upgrade())) {
            core.io.stop();
        }
    }

    fn publish(&self) {
        self.shared.publish(self.snapshot());
    }

    fn snapshot(&self) -> ConnSnapshot {
        ConnSnapshot {
            server: self.server.clone(),
            machine: self.machine.clone(),
            attempts_max: self.machine.attempts_max(&self.rules),
            core: self.core.clone(),
            tools: self.tools.clone(),
        }
    }
}

/// Whoever drops the actor ends its connection: a board that is dropped, a thread that ends. Who waits for a
/// connection learns that there will be none.
impl Drop for ConnectionActor {
    fn drop(&mut self) {
        if !matches!(self.machine.state, State::Disabled { .. }) {
            self.env.states.left(shape(&self.machine.state).0);
            self.machine.state = State::Disabled { by: DisabledBy::User, since: Instant::now() };
            self.env.states.entered(shape(&self.machine.state).0);
            self.forget_core();
        }
        self.shared.end_commands();
        self.publish();
        self.end_all();
        if let Some(task) = self.dial.take() {
            task.abort();
        }
        if let Some(task) = self.listening.take() {
            task.abort();
        }
        self.env.states.left(shape(&self.machine.state).0);
        telemetry::catalog_tools(self.server.name(), 0);
        self.env.timelines.end(self.server.name(), &self.shared.timeline);
    }
}

impl Actor for ConnectionActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(1_024);
    }
}

/// State and phase as words; a change of either is published.
fn shape(state: &State) -> (&'static str, Option<&'static str>) {
    match state {
        State::Pending { phase, .. } => ("pending", Some(view::phase_word(*phase))),
        State::Connected { .. } => ("connected", None),
        State::NeedsAuth { .. } => ("needs-auth", None),
        State::Failed { .. } => ("failed", None),
        State::Disabled { .. } => ("disabled", None),
    }
}

fn cause(state: &State) -> Option<String> {
    match state {
        State::Pending { phase: Phase::BackingOff { .. }, last, .. } => {
            last.as_ref().map(|reason| reason.to_string())
        }
        State::NeedsAuth { reason, .. } | State::Failed { reason, .. } => Some(reason.to_string()),
        State::Pending { .. } | State::Connected { .. } | State::Disabled { .. } => None,
    }
}

fn rules(env: &Environment, server: &Admitted) -> Rules {
    let settings = &env.settings;
    let remote = !server.spec().transport.is_local();
    let retries = if remote { settings.connect_retries_max } else { settings.connect_retries_stdio_max };
    Rules {
        remote,
        reconnect: remote || settings.reconnect_stdio,
        first_attempts_max: 1 + retries as u32,
        attempts_max: settings.reconnect_attempts_max as u32,
        backoff_initial: settings.reconnect_backoff_initial,
        backoff_max: settings.reconnect_backoff_max,
        backoff_factor: settings.reconnect_backoff_factor,
        jitter: settings.reconnect_jitter,
        reset_after: settings.reconnect_reset_after,
        slow_retry: settings.reconnect_slow_retry,
    }
}

/// Longest pause between refreshes in a storm of changes.
const REFRESH_PAUSE_MAX: Duration = Duration::from_secs(30);
