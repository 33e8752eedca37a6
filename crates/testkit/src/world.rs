//! The world outside the board: simulated servers, the links to them, and the books about both.
//!
//! Everything lives behind one lock on one thread. Whatever enters here first takes in what the board has said
//! until now, so that facts and sayings stand in the order in which they came to be.

mod books;
mod decide;
mod dial;
mod line;

pub(crate) use books::Books;
pub use books::Detail;
pub(crate) use dial::SimDialer;

use crate::ledger::Told;
use crate::model::{Cause, Numbers, Stand, Wish};
use crate::rng::Rng;
use crate::scenario::{Fault, HangPhase, Scenario, ServerPlan, SimEra, Transport, Untruth, UserWish};
use callboard_core::event::{BoardEvent, EventKind};
use callboard_core::port::{CloseReason, ExitInfo, IoKind, ServerName, Unreachable};
use callboard_core::settings::Settings;
use line::Line;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::Instant;

/// The world outside the board.
pub(crate) struct World {
    state: Mutex<State>,
    began: Instant,
}

/// Everything in it.
pub(crate) struct State {
    pub seed: u64,
    pub servers: Vec<SimServer>,
    index: BTreeMap<ServerName, u32>,
    lines: BTreeMap<u64, Line>,
    lines_opened: u64,
    pub books: Books,
    events: Option<broadcast::Receiver<BoardEvent>>,
    /// The faults are over.
    calm: bool,
}

/// What a server offers, and what the board knows of it.
pub(crate) struct Offer {
    pub tools: Vec<String>,
    /// When its tools changed last.
    pub changed_ms: u64,
    /// The board is told of changes as long as it is connected; in the modern era only while it listens.
    pub tells_changes: bool,
    /// The board has had a list of its tools.
    pub is_listed: bool,
}

/// One simulated server.
pub(crate) struct SimServer {
    pub name: ServerName,
    pub plan: Arc<ServerPlan>,
    /// Forks the generator: of its name alone, so that it stays the same when others are left out.
    key: u64,
    down_until_ms: u64,
    /// Counts the times that it forgot its sessions.
    epoch: u64,
    /// Counts the changes of its tools.
    tools_version: u64,
    tools: Vec<String>,
    changed_ms: u64,
    lines: BTreeSet<u64>,
    lines_opened: u64,
    /// Times that each of its tools was performed.
    performed: BTreeMap<String, u64>,
    /// It has asked to be left alone until then.
    held_until_ms: u64,
    /// The latest generation in which its tools were asked for.
    listed_generation: u64,
}

impl SimServer {
    fn new(name: &str, plan: Arc<ServerPlan>) -> SimServer {
        let key = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |key, byte| {
            (key ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let tools = (0..plan.tools).map(|number| format!("t{number}")).collect();
        SimServer {
            name: ServerName::new(name),
            plan,
            key,
            down_until_ms: 0,
            epoch: 1,
            tools_version: 0,
            tools,
            changed_ms: 0,
            lines: BTreeSet::new(),
            lines_opened: 0,
            performed: BTreeMap::new(),
            held_until_ms: 0,
            listed_generation: 0,
        }
    }

    /// The names of its tools, as it would list them now.
    pub(crate) fn tool_names(&self) -> Vec<String> {
        let mut names = self.tools.clone();
        if self.tools_version > 0 {
            names.push(format!("extra{}", self.tools_version));
        }
        names
    }

    fn is_down(&self, now: u64) -> bool {
        now < self.down_until_ms
    }

    /// How the loss of a link shows.
    fn end_of_link(&self) -> CloseReason {
        match self.plan.transport {
            Transport::Stdio => {
                CloseReason::Ended { exit: Some(ExitInfo::Code(1)), stderr_tail: "simulated end".into() }
            }
            Transport::Http => CloseReason::Io { kind: IoKind::Reset, message: "simulated".into() },
            Transport::Ws => CloseReason::Io { kind: IoKind::Closed, message: "simulated".into() },
        }
    }

    /// How a server that is away shows.
    fn unreachable(&self) -> CloseReason {
        match self.plan.transport {
            Transport::Stdio => CloseReason::Spawn {
                command: self.name.as_str().to_owned(),
                message: "simulated".into(),
                not_found: false,
            },
            Transport::Http | Transport::Ws => {
                CloseReason::Unreachable { kind: Unreachable::Refused, message: "simulated".into() }
            }
        }
    }
}

impl World {
    pub(crate) fn new(scenario: &Scenario, settings: &Settings, books: Books) -> World {
        let mut servers = Vec::new();
        for plan in &scenario.servers {
            let shared = Arc::new(plan.clone());
            servers.extend(plan.names().iter().map(|name| SimServer::new(name, shared.clone())));
        }
        let index =
            servers.iter().enumerate().map(|(number, server)| (server.name.clone(), number as u32)).collect();
        let mut books = books;
        for server in &servers {
            let numbers = Numbers::new(settings, &server.plan);
            books.add_server(&server.name, server.plan.transport, numbers);
        }
        let state = State {
            seed: scenario.seed,
            servers,
            index,
            lines: BTreeMap::new(),
            lines_opened: 0,
            books,
            events: None,
            calm: false,
        };
        World { state: Mutex::new(state), began: Instant::now() }
    }

    /// Begins to listen to what the board says.
    pub(crate) fn listen(&self, events: broadcast::Receiver<BoardEvent>) {
        self.state.lock().events = Some(events);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub(crate) fn moment(&self, at_ms: u64) -> Instant {
        self.began + std::time::Duration::from_millis(at_ms)
    }

    /// Enters the world: what the board has said until now is in the books.
    pub(crate) fn enter(&self) -> (MutexGuard<'_, State>, u64) {
        let now = self.now_ms();
        let mut state = self.state.lock();
        state.take_events(now);
        (state, now)
    }

    /// The user asks for something; the board is to be told in the same instant.
    pub(crate) fn wish(&self, server: u32, wish: UserWish) {
        let (mut state, now) = self.enter();
        let wish = match wish {
            UserWish::Reconnect => Wish::Reconnect,
            UserWish::Disable => Wish::Disable,
            UserWish::Enable => Wish::Enable,
        };
        state.books.wish(server, now, wish);
    }

    /// All faults are over, and every server is there.
    pub(crate) fn calm_down(&self) {
        let (mut state, now) = self.enter();
        state.calm = true;
        state.books.note(now, format_args!("calm"));
        for server in &mut state.servers {
            server.down_until_ms = 0;
        }
        for line in state.lines.values_mut() {
            line.live_on();
        }
    }

    /// A server goes away for so long. With 0 it only loses its links.
    pub(crate) fn take_down(&self, server: u32, for_ms: u64) {
        let (mut state, now) = self.enter();
        state.books.note(now, format_args!("down {server} {for_ms}"));
        state.servers[server as usize].down_until_ms = now.saturating_add(for_ms);
        state.drop_lines(server, now);
    }

    /// A server is there again.
    pub(crate) fn bring_up(&self, server: u32) {
        let (mut state, _) = self.enter();
        state.servers[server as usize].down_until_ms = 0;
    }

    /// A server forgets its sessions.
    pub(crate) fn expire(&self, server: u32) {
        let (mut state, now) = self.enter();
        state.books.note(now, format_args!("expire {server}"));
        state.servers[server as usize].epoch += 1;
    }

    /// A server has other tools, and says so.
    pub(crate) fn change_tools(&self, server: u32) {
        let (mut state, now) = self.enter();
        state.books.note(now, format_args!("change {server}"));
        let known = &mut state.servers[server as usize];
        known.tools_version += 1;
        known.changed_ms = now;
        state.tell_change(server, 1, now);
    }

    /// A server has exactly these tools from now on, and says so.
    pub(crate) fn set_tools(&self, server: u32, tools: Vec<String>) {
        let (mut state, now) = self.enter();
        let known = &mut state.servers[server as usize];
        known.tools = tools;
        known.tools_version = 0;
        known.changed_ms = now;
        state.tell_change(server, 1, now);
    }

    /// A server says many times at once that its tools have changed.
    pub(crate) fn storm(&self, server: u32, notices: u32) {
        let (mut state, now) = self.enter();
        state.books.note(now, format_args!("storm {server} {notices}"));
        state.tell_change(server, notices, now);
    }

    /// An earlier link of a server ends, however late.
    pub(crate) fn end_line_of(&self, server: u32, generation: u64) {
        let (mut state, now) = self.enter();
        let reason = state.servers[server as usize].end_of_link();
        for line in state.lines.values_mut().filter(|l| l.server == server && l.generation == generation) {
            line.end(now, reason.clone());
        }
    }

    /// The names of a server's tools that were performed, with how often.
    pub(crate) fn performed(&self, server: u32) -> BTreeMap<String, u64> {
        self.state.lock().servers[server as usize].performed.clone()
    }

    pub(crate) fn call_begins(&self, server: u32, caller: u32, deadline_ms: u64) -> u64 {
        let (mut state, now) = self.enter();
        state.books.call_begins(server, caller, now, deadline_ms)
    }

    pub(crate) fn call_ends(&self, number: u64, tool: &str, told: Told<'_>) -> &'static str {
        let (mut state, now) = self.enter();
        state.books.call_ends(number, tool, told, now)
    }

    /// Looks at everything that has a time by which it must have happened.
    pub(crate) fn look_around(&self) {
        let (mut state, now) = self.enter();
        let state = &mut *state;
        for (number, server) in state.servers.iter().enumerate() {
            state.books.look_at(number as u32, server.listed_generation, now);
        }
        state.books.look_at_calls(now);
        state.books.gauge(now);
    }

    /// Takes in what the board has said until now.
    pub(crate) fn hear(&self) {
        drop(self.enter());
    }

    /// Notes an invariant that did not hold.
    pub(crate) fn broke(&self, invariant: &'static str, server: Option<u32>, detail: String) {
        let (mut state, now) = self.enter();
        state.books.broke(now, invariant, server, detail);
    }

    pub(crate) fn stand(&self, server: u32) -> Stand {
        self.enter().0.books.stand(server)
    }

    /// What a server offers, and what the board knows of it.
    pub(crate) fn offer(&self, server: u32) -> Offer {
        let (state, _) = self.enter();
        let known = &state.servers[server as usize];
        Offer {
            tools: known.tool_names(),
            changed_ms: known.changed_ms,
            tells_changes: known.plan.era == SimEra::Legacy,
            is_listed: state.books.is_listed(server),
        }
    }

    pub(crate) fn calls_open(&self) -> u32 {
        self.state.lock().books.ledger.open()
    }

    pub(crate) fn permits_held(&self) -> usize {
        let (mut state, now) = self.enter();
        state.books.permits_held(now)
    }

    /// What ends from here on ends because the board is closed.
    pub(crate) fn begin_closing(&self) {
        self.enter().0.books.begin_closing();
    }

    pub(crate) fn lines_open(&self) -> usize {
        self.state.lock().lines.len()
    }

    pub(crate) fn server_number(&self, name: &str) -> Option<u32> {
        self.state.lock().index.get(name).copied()
    }
}

impl State {
    fn take_events(&mut self, now: u64) {
        let Some(events) = &mut self.events else { return };
        loop {
            match events.try_recv() {
                Ok(event) => {
                    if let Some(server) = self.index.get(event.server.as_str()) {
                        self.books.hear(*server, &event);
                    }
                }
                Err(TryRecvError::Lagged(missed)) => self.books.missed(missed),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Closed) => {
                    self.events = None;
                    break;
                }
            }
        }
        self.books.settle(now);
    }

    /// All links of a server end, and so do the sessions that only it knows of.
    fn drop_lines(&mut self, server: u32, now: u64) {
        let known = &mut self.servers[server as usize];
        known.epoch += 1;
        let reason = known.end_of_link();
        for id in &known.lines {
            if let Some(line) = self.lines.get_mut(id) {
                line.end(now, reason.clone());
            }
        }
    }

    fn tell_change(&mut self, server: u32, notices: u32, now: u64) {
        for id in &self.servers[server as usize].lines {
            if let Some(line) = self.lines.get_mut(id).filter(|line| line.is_greeted) {
                for _ in 0..notices {
                    line.say(now, CHANGED.to_owned(), None);
                }
            }
        }
    }

    /// The faults of a server that are at work now.
    fn faults(&self, server: u32, now: u64) -> impl Iterator<Item = &Fault> {
        let plan = &self.servers[server as usize].plan;
        let calm = self.calm;
        plan.faults.iter().filter(move |fault| !calm && fault.window().is_some_and(|w| w.contains(&now)))
    }

    fn hangs(&self, server: u32, phase: HangPhase, now: u64, rng: &mut Rng) -> bool {
        self.faults(server, now).any(|fault| match fault {
            Fault::Hang { percent, phase: at, .. } => *at == phase && rng.percent(*percent),
            _ => false,
        })
    }

    fn wants_login(&self, server: u32, now: u64) -> bool {
        self.faults(server, now).any(|fault| matches!(fault, Fault::RotateTokens { .. }))
    }

    fn busy(&self, server: u32, now: u64, rng: &mut Rng) -> Option<CloseReason> {
        self.faults(server, now).find_map(|fault| match fault {
            Fault::Busy { percent, retry_after_s, .. } if rng.percent(*percent) => {
                let asked = std::time::Duration::from_secs(*retry_after_s);
                let retry_after = (!asked.is_zero()).then_some(asked);
                Some(CloseReason::Status { status: 503, body: "busy".into(), rpc: None, retry_after })
            }
            _ => None,
        })
    }

    fn lie(&self, server: u32, now: u64, rng: &mut Rng) -> Option<Untruth> {
        self.faults(server, now).find_map(|fault| match fault {
            Fault::Lie { percent, how, .. } if rng.percent(*percent) => Some(*how),
            _ => None,
        })
    }

    fn answer_ms(&self, server: u32, now: u64, rng: &mut Rng) -> u64 {
        let slow = self.faults(server, now).find_map(|fault| match fault {
            Fault::Slow { percent, answer_ms, .. } if rng.percent(*percent) => Some(*answer_ms),
            _ => None,
        });
        // Never in no time at all: a world in which nothing takes time could stand still.
        rng.between(slow.unwrap_or(self.servers[server as usize].plan.answer_ms)).max(1)
    }

    /// Something about the current generation of a server that its rules know of.
    fn saw(&mut self, server: u32, generation: u64, now: u64, reason: &CloseReason) {
        self.books.saw(server, generation, now, Cause::of(reason));
    }
}

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// Text of an event that is not a state: for the trace.
pub(crate) fn told(event: &EventKind) -> Option<String> {
    match event {
        EventKind::ListFetched { list, items, added, removed, .. } => {
            Some(format!("fetched {list} {items} +{} -{}", added.len(), removed.len()))
        }
        EventKind::ListFailed { list, cause } => Some(format!("failed {list} {cause}")),
        EventKind::ActorPanicked { .. } => Some("panicked".to_owned()),
        _ => None,
    }
}
