//! The way to one server: cheap to clone, safe to keep, the same through every reconnect.

mod calls;
mod places;
mod waiting;

use crate::catalog::ItemList;
use crate::conn_core::ConnCore;
use crate::environment::Environment;
use crate::gate::CallGate;
use crate::machine::{ConnMachine, State};
use crate::port::{Admitted, Generation, ServerName, StderrFeed, StderrLine};
use crate::status::{ServerStatus, StateView};
use crate::telemetry::CallMetrics;
use crate::timeline::{Timeline, TimelineEntry};
use crate::view;
use arc_swap::ArcSwap;
use callboard_protocol::list::ListKind;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{Notify, broadcast};

/// What a handle may ask of the server's actor.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    /// Connect, if nobody has asked before.
    Demand,
    /// Connect anew.
    Reconnect,
    /// Switch on.
    Enable,
    /// Switch off.
    Disable,
    /// Tools were fetched by a caller.
    ToolsFetched(ToolsFetched),
}

/// The outcome of fetching the tools of one generation.
#[derive(Debug, Clone)]
pub(crate) struct ToolsFetched {
    pub generation: Generation,
    /// Counts the fetches of a server; an older one never replaces a newer one.
    pub sequence: u64,
    pub result: Result<Arc<ItemList>, String>,
}

/// Delivers commands to the server's actor.
pub(crate) type CommandSink = Box<dyn Fn(Command) + Send + Sync>;

/// What is known of a server's tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools {
    pub list: Option<Arc<ItemList>>,
    pub state: ToolsState,
}

impl Tools {
    /// A catalog made of either says the same.
    fn looks_like(&self, other: &Tools) -> bool {
        let is_same_list = match (&self.list, &other.list) {
            (Some(list), Some(other)) => Arc::ptr_eq(list, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same_list && (self.state == ToolsState::Fresh) == (other.state == ToolsState::Fresh)
    }
}

/// How good a list of tools is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ToolsState {
    /// Never fetched.
    #[default]
    None,
    /// Being fetched for the first time in this generation.
    Fetching,
    /// Of this generation.
    Fresh,
    /// Of an earlier generation, or could not be refreshed.
    Stale,
    /// Could not be fetched, and there is no earlier one.
    Failed(String),
}

/// One published moment of a connection.
pub(crate) struct ConnSnapshot {
    /// What is dialed; another one once the entry has changed.
    pub server: Admitted,
    pub machine: ConnMachine,
    pub attempts_max: u32,
    pub core: Option<Arc<ConnCore>>,
    pub tools: Tools,
}

pub(crate) struct ConnShared {
    name: ServerName,
    pub env: Arc<Environment>,
    pub snapshot: ArcSwap<ConnSnapshot>,
    /// Told of each moment that is published. Wakes in the order of waiting, so that a simulated run can be repeated.
    pub changed: Notify,
    /// As `changed`, but for those who wait for tools: still while they are being fetched.
    pub tools_changed: Notify,
    pub sequence: AtomicU64,
    pub timeline: Arc<Timeline>,
    /// The places for calls; they outlive each connection.
    pub gate: Arc<CallGate>,
    /// What its children write to stderr, one after another.
    pub stderr: StderrFeed,
    demanded: AtomicBool,
    /// Commands that change what a snapshot says, as they were given and as they were carried out.
    given: AtomicU64,
    carried_out: AtomicU64,
    commands: CommandSink,
}

impl ConnShared {
    pub(crate) fn new(
        env: Arc<Environment>,
        server: Admitted,
        machine: ConnMachine,
        commands: CommandSink,
    ) -> ConnShared {
        let name = server.name().clone();
        let timeline = env.timelines.begin(&name);
        let metrics = CallMetrics::new(&name);
        let gate = CallGate::new(in_flight_max(&env, &server), env.settings.call_queue_max, metrics);
        let snapshot = ConnSnapshot { server, machine, attempts_max: 0, core: None, tools: Tools::default() };
        ConnShared {
            name,
            timeline,
            gate: Arc::new(gate),
            stderr: StderrFeed::default(),
            env,
            snapshot: ArcSwap::from_pointee(snapshot),
            changed: Notify::new(),
            tools_changed: Notify::new(),
            sequence: AtomicU64::new(1),
            demanded: AtomicBool::new(false),
            given: AtomicU64::new(0),
            carried_out: AtomicU64::new(0),
            commands,
        }
    }

    fn give(&self, command: Command) {
        self.given.fetch_add(1, Ordering::AcqRel);
        (self.commands)(command);
    }

    /// One of the commands that were given has been carried out, and what came of it will be published.
    pub(crate) fn note_carried_out(&self) {
        self.carried_out.fetch_add(1, Ordering::AcqRel);
    }

    /// Of the commands that were given up to now, none will be carried out any more.
    pub(crate) fn forget_commands(&self) {
        self.carried_out.store(self.given.load(Ordering::Acquire), Ordering::Release);
    }

    /// Nobody will carry out a command again.
    pub(crate) fn end_commands(&self) {
        self.carried_out.store(u64::MAX / 2, Ordering::Release);
    }

    /// The snapshot is older than what was asked for.
    pub(crate) fn is_behind(&self) -> bool {
        self.carried_out.load(Ordering::Acquire) < self.given.load(Ordering::Acquire)
    }

    /// As many places as the entry of the server now says.
    pub(crate) fn resize_gate(&self, server: &Admitted) {
        self.gate.resize(in_flight_max(&self.env, server));
    }

    /// Publishes a moment and wakes everybody who waits for a change.
    pub(crate) fn publish(&self, snapshot: ConnSnapshot) {
        let is_fetching = snapshot.core.is_some() && snapshot.tools.state == ToolsState::Fetching;
        let is_same_catalog = snapshot.tools.looks_like(&self.snapshot.load().tools);
        self.publish_phase(snapshot);
        if !is_same_catalog {
            self.env.bump();
        }
        self.changed.notify_waiters();
        if !is_fetching {
            self.tools_changed.notify_waiters();
        }
    }

    /// Publishes a moment that nobody waits for: another phase of the same state. Each waking of a waiter on
    /// another thread costs more than the step itself.
    pub(crate) fn publish_phase(&self, snapshot: ConnSnapshot) {
        self.demanded.store(false, Ordering::Release);
        self.snapshot.store(Arc::new(snapshot));
    }
}

fn in_flight_max(env: &Environment, server: &Admitted) -> usize {
    server.spec().options.in_flight_max.unwrap_or(env.settings.call_in_flight_max)
}

/// The way to one server.
#[derive(Clone)]
pub struct ConnHandle(Arc<ConnShared>);

impl ConnHandle {
    pub(crate) fn new(shared: Arc<ConnShared>) -> ConnHandle {
        ConnHandle(shared)
    }

    /// The host's name of the server.
    pub fn name(&self) -> &ServerName {
        &self.0.name
    }

    /// What the server is doing.
    pub fn state(&self) -> StateView {
        view::state(&self.0.snapshot.load())
    }

    /// The server's line of a status.
    pub fn status(&self) -> ServerStatus {
        view::server(&self.0.snapshot.load(), self.calls())
    }

    /// What may be dialed under this name at present.
    pub fn server(&self) -> Admitted {
        self.0.snapshot.load().server.clone()
    }

    /// What happened to the server of late, oldest first; at most 64 entries.
    pub fn timeline(&self) -> Vec<TimelineEntry> {
        self.0.timeline.entries()
    }

    /// Instructions for the model, cut at `catalog.instructions_chars_max`; none while not connected.
    pub fn instructions(&self) -> Option<String> {
        let snapshot = self.0.snapshot.load();
        let instructions = snapshot.core.as_ref()?.session()?.peer.instructions.as_deref()?;
        let (head, was_cut) =
            callboard_protocol::text::cut(instructions, self.0.env.settings.catalog_instructions_chars_max);
        Some(if was_cut { format!("{head}… [cut]") } else { head.to_owned() })
    }

    /// The raw capabilities that the server declared; none while not connected.
    pub fn capabilities(&self) -> Option<String> {
        let snapshot = self.0.snapshot.load();
        let raw = snapshot.core.as_ref()?.session()?.peer.capabilities.clone()?;
        Some(callboard_protocol::json::text(&raw).to_owned())
    }

    /// The process id of a stdio server, while connected.
    pub fn process_id(&self) -> Option<u32> {
        self.0.snapshot.load().core.as_ref()?.diagnostics.process_id()
    }

    /// The last of a stdio server's stderr, while connected or in the cause of its end.
    pub fn stderr_tail(&self) -> String {
        let snapshot = self.0.snapshot.load();
        if let Some(core) = &snapshot.core {
            return core.diagnostics.stderr_tail(self.0.env.settings.stderr_tail_bytes);
        }
        let reason = match &snapshot.machine.state {
            State::Pending { last, .. } => last.as_ref(),
            State::Failed { reason, .. } | State::NeedsAuth { reason, .. } => Some(reason),
            State::Connected { .. } | State::Disabled { .. } => None,
        };
        reason.and_then(|reason| reason.stderr_tail()).unwrap_or_default().to_owned()
    }

    /// What a stdio server writes to stderr from now on, line by line, through all its connections. A reader that
    /// lags more than 1,024 lines behind loses the oldest, and is told how many.
    pub fn stderr_lines(&self) -> broadcast::Receiver<StderrLine> {
        self.0.stderr.follow()
    }

    /// Asks for a connection and returns at once.
    pub fn demand(&self) {
        if !self.0.demanded.swap(true, Ordering::AcqRel) {
            (self.0.commands)(Command::Demand);
        }
    }

    /// Drops the connection or the attempt to make one, if there is one, and connects anew at once; a failed server
    /// and one that waits for a login are tried again. A server that is switched off stays so.
    pub fn reconnect(&self) {
        self.0.give(Command::Reconnect);
    }

    /// Switches the server on again.
    pub fn enable(&self) {
        self.0.give(Command::Enable);
    }

    /// Switches the server off; its calls fail.
    pub fn disable(&self) {
        self.0.give(Command::Disable);
    }

    pub(crate) fn tools_snapshot(&self) -> Tools {
        self.0.snapshot.load().tools.clone()
    }

    /// Oddities of the lists that were fetched, in words.
    pub fn list_problems(&self) -> Vec<String> {
        let tools = self.tools_snapshot().list;
        let problems = tools.iter().flat_map(|list| &list.problems);
        problems.map(|p| format!("{} {}: {}", ListKind::Tools.key(), p.item, p.message)).collect()
    }
}

impl fmt::Debug for ConnHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnHandle").field("name", self.name()).field("state", &self.state().word()).finish()
    }
}
