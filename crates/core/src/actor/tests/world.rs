//! A small world for the actors: scripted servers behind a dialer, on a paused clock.

use crate::actor::registry::{Add, Applied, Apply, CloseAll, RegistryActor, ServerTable};
use crate::environment::Environment;
use crate::event::{BoardEvent, EventKind};
use crate::handle::ConnHandle;
use crate::port::{
    BoxFuture, CloseReason, DialRequest, Dialer, DuplexSend, EraPin, InFrame, Link, LinkCloser, ReceiveHalf,
    SendHalf, ServerName, ServerSpec, TransportSpec,
};
use crate::settings::Settings;
use actix::Addr;
use callboard_protocol::{Decoded, Era};
use parking_lot::Mutex;
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{sleep, timeout};

/// What a server does; servers are told apart by the command of their entry.
#[derive(Clone)]
pub(super) struct Behaviour {
    /// What comes of a dial.
    pub dial: Dial,
    /// Answers `initialize`.
    pub greets: bool,
    /// Dies of anything before `initialize`.
    pub dies_of_a_probe: bool,
    /// The raw items of its list of tools.
    pub tools: &'static str,
    /// Answers calls by itself.
    pub answers: bool,
    /// How long its end takes.
    pub closing: Duration,
}

#[derive(Clone)]
pub(super) enum Dial {
    Opens,
    Hangs,
    Fails(CloseReason),
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            dial: Dial::Opens,
            greets: true,
            dies_of_a_probe: false,
            tools: r#"{"name":"t","inputSchema":{}}"#,
            answers: true,
            closing: Duration::ZERO,
        }
    }
}

type Inward = mpsc::UnboundedSender<Result<InFrame, CloseReason>>;

struct Open {
    command: String,
    generation: u64,
    inward: Inward,
    /// Ids of calls that wait for an answer.
    waiting: Vec<Value>,
}

#[derive(Default)]
struct Inside {
    behaviours: BTreeMap<String, Behaviour>,
    open: BTreeMap<usize, Open>,
    starts: usize,
    dialing: usize,
    open_most: usize,
    log: Vec<String>,
}

/// All servers.
#[derive(Default)]
pub(super) struct World(Mutex<Inside>);

impl World {
    /// Changes what a server does from now on.
    pub(super) fn set(&self, command: &str, edit: impl FnOnce(&mut Behaviour)) {
        edit(self.0.lock().behaviours.entry(command.to_owned()).or_default());
    }

    fn behaviour(&self, command: &str) -> Behaviour {
        self.0.lock().behaviours.get(command).cloned().unwrap_or_default()
    }

    /// Links that have not ended, and dials under way.
    pub(super) fn alive(&self) -> (usize, usize) {
        let inside = self.0.lock();
        (inside.open.len(), inside.dialing)
    }

    /// The most links that were open at once.
    pub(super) fn open_most(&self) -> usize {
        self.0.lock().open_most
    }

    /// What reached the servers: `command#generation method`.
    pub(super) fn log(&self) -> Vec<String> {
        self.0.lock().log.clone()
    }

    pub(super) fn count(&self, line: &str) -> usize {
        self.0.lock().log.iter().filter(|known| *known == line).count()
    }

    /// Answers every call that waits at a server.
    pub(super) fn answer(&self, command: &str) {
        let mut inside = self.0.lock();
        for open in inside.open.values_mut().filter(|open| open.command == command) {
            for id in open.waiting.drain(..) {
                say(&open.inward, &id, r#""result":{"content":[]}"#);
            }
        }
    }

    /// Ends the links of a server from its side.
    pub(super) fn drop_links(&self, command: &str) {
        for open in self.0.lock().open.values().filter(|open| open.command == command) {
            let reset = CloseReason::Io { kind: crate::port::IoKind::Reset, message: "cut".into() };
            let _ = open.inward.send(Err(reset));
        }
    }

    /// The server says that its tools have changed.
    pub(super) fn say_changed(&self, command: &str) {
        for open in self.0.lock().open.values().filter(|open| open.command == command) {
            send(&open.inward, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        }
    }
}

fn say(inward: &Inward, id: &Value, member: &str) {
    send(inward, &format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#));
}

fn send(inward: &Inward, text: &str) {
    let Decoded::One(frame) = callboard_protocol::decode_copied(text.as_bytes()) else { panic!("{text}") };
    let _ = inward.send(Ok(InFrame::Frame(frame)));
}

struct ScriptedDialer(Arc<World>);

struct Dialing(Arc<World>);

impl Drop for Dialing {
    fn drop(&mut self) {
        self.0.0.lock().dialing -= 1;
    }
}

impl Dialer for ScriptedDialer {
    fn dial(&self, request: DialRequest) -> BoxFuture<'static, Result<Link, CloseReason>> {
        let world = self.0.clone();
        Box::pin(async move {
            let TransportSpec::Stdio(stdio) = &request.server.spec().transport else { panic!("stdio") };
            let command = stdio.command.clone();
            world.0.lock().dialing += 1;
            let _dialing = Dialing(world.clone());
            world.0.lock().log.push(format!("{command}#{} dial", request.generation));
            match world.behaviour(&command).dial {
                Dial::Opens => {}
                Dial::Hangs => std::future::pending().await,
                Dial::Fails(reason) => return Err(reason),
            }
            let (inward, out) = mpsc::unbounded_channel();
            let generation = request.generation.0;
            let open =
                Open { command: command.clone(), generation, inward: inward.clone(), waiting: Vec::new() };
            let start = {
                let mut inside = world.0.lock();
                inside.starts += 1;
                let start = inside.starts;
                inside.open.insert(start, open);
                inside.open_most = inside.open_most.max(inside.open.len());
                start
            };
            let end = End { world: world.clone(), start, command: command.clone() };
            Ok(Link {
                send: SendHalf::Duplex(Arc::new(Scripted { world, command, start })),
                receive: Box::new(Out(out)),
                closer: Box::new(end),
                diagnostics: Arc::new(()),
            })
        })
    }
}

struct Scripted {
    world: Arc<World>,
    command: String,
    start: usize,
}

impl DuplexSend for Scripted {
    fn send(&self, frame: &[u8]) -> Result<(), CloseReason> {
        let message: Value = serde_json::from_slice(frame).expect("JSON");
        let behaviour = self.world.behaviour(&self.command);
        let mut inside = self.world.0.lock();
        let method = message["method"].as_str().unwrap_or("answer");
        let ended = || CloseReason::Ended { exit: None, stderr_tail: String::new() };
        let Some(open) = inside.open.get_mut(&self.start) else { return Err(ended()) };
        let line = format!("{}#{} {method}", self.command, open.generation);
        let id = &message["id"];
        match method {
            "server/discover" if behaviour.dies_of_a_probe => drop(open.inward.send(Err(ended()))),
            "server/discover" => say(&open.inward, id, r#""error":{"code":-32601,"message":"no"}"#),
            "initialize" if behaviour.greets => say(
                &open.inward,
                id,
                r#""result":{"protocolVersion":"2025-06-18","serverInfo":{},"capabilities":{"tools":{"listChanged":true}}}"#,
            ),
            "tools/list" => {
                say(&open.inward, id, &format!(r#""result":{{"tools":[{}]}}"#, behaviour.tools));
            }
            "tools/call" if behaviour.answers => say(&open.inward, id, r#""result":{"content":[]}"#),
            "tools/call" => open.waiting.push(id.clone()),
            _ => {}
        }
        inside.log.push(line);
        Ok(())
    }
}

struct Out(mpsc::UnboundedReceiver<Result<InFrame, CloseReason>>);

impl ReceiveHalf for Out {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<InFrame, CloseReason>> {
        self.0.poll_recv(cx).map(|item| item.unwrap_or(Err(CloseReason::Cancelled)))
    }
}

/// A link's process: gone once it was closed, or dropped.
struct End {
    world: Arc<World>,
    start: usize,
    command: String,
}

impl Drop for End {
    fn drop(&mut self) {
        self.world.0.lock().open.remove(&self.start);
    }
}

impl LinkCloser for End {
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let closing = self.world.behaviour(&self.command).closing;
            if !closing.is_zero() {
                sleep(closing).await;
            }
        })
    }
}

/// A registry in such a world.
pub(super) struct Field {
    pub world: Arc<World>,
    pub env: Arc<Environment>,
    pub registry: Addr<RegistryActor>,
    table: Arc<ServerTable>,
    events: Mutex<broadcast::Receiver<BoardEvent>>,
    alive: mpsc::Receiver<()>,
}

/// No wait may take longer, in the world's own time.
const BOUND: Duration = Duration::from_secs(3_600);

/// An entry without a probe.
pub(super) fn entry(name: &str, command: &str) -> ServerSpec {
    let mut spec = ServerSpec::stdio(name, command, [""; 0]);
    spec.options.protocol_era = EraPin::Pinned(Era::Legacy);
    spec
}

pub(super) fn auth() -> CloseReason {
    CloseReason::AuthRequired { status: 401, challenge: String::new() }
}

pub(super) fn refused() -> CloseReason {
    CloseReason::Unreachable { kind: crate::port::Unreachable::Refused, message: "no".into() }
}

thread_local! {
    /// The clock of a test, which has one thread, can be stopped once.
    static PAUSED: Cell<bool> = const { Cell::new(false) };
}

impl Field {
    /// Call it inside an actix system; it stops the clock.
    pub(super) async fn new(settings: Settings, servers: Vec<ServerSpec>) -> Field {
        if !PAUSED.replace(true) {
            tokio::time::pause();
        }
        let world = Arc::new(World::default());
        let runtime = tokio::runtime::Handle::current();
        let env = Environment::new(Arc::new(ScriptedDialer(world.clone())), settings, runtime);
        let (token, alive) = mpsc::channel(1);
        env.hold(token);
        let env = Arc::new(env);
        let table = Arc::new(ServerTable::new(env.clone()));
        let events = Mutex::new(env.subscribe());
        let registry = RegistryActor::start(env.clone(), table.clone());
        registry.send(Add { servers: callboard_policy::admit(servers).admitted }).await.expect("added");
        Field { world, env, registry, table, events, alive }
    }

    pub(super) async fn one() -> (Field, ConnHandle) {
        let field = Field::new(Settings::default(), vec![entry("s", "one")]).await;
        let handle = field.server("s");
        (field, handle)
    }

    pub(super) fn server(&self, name: &str) -> ConnHandle {
        self.table.handles().get(name).expect("in the table").clone()
    }

    pub(super) fn catalog(&self) -> Arc<crate::catalog::CatalogSnapshot> {
        self.table.catalog()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.table.handles().keys().map(|name| name.as_str().to_owned()).collect()
    }

    pub(super) async fn apply(&self, servers: Vec<ServerSpec>) -> Applied {
        let admission = callboard_policy::admit(servers);
        let disabled = admission.disabled.iter().map(|left_out| left_out.spec.name.clone()).collect();
        self.registry
            .send(Apply { servers: admission.admitted, disabled, kept: Vec::new() })
            .await
            .expect("applied")
    }

    /// Takes a server out and waits until nothing of it is left.
    pub(super) async fn remove(&self, name: &str) -> bool {
        let (done, mut gone) = mpsc::channel(1);
        let remove = crate::actor::registry::Remove { server: ServerName::new(name), done };
        let known = self.registry.send(remove).await.expect("removed");
        timeout(BOUND, gone.recv()).await.expect("it ends");
        known
    }

    /// The next event of a server that is wanted; those before it are passed over.
    pub(super) async fn event<T>(&self, server: &str, wanted: impl Fn(&BoardEvent) -> Option<T>) -> T {
        #[expect(clippy::await_holding_lock, reason = "one test, one reader")]
        let reading = async {
            let mut events = self.events.lock();
            loop {
                let event = events.recv().await.expect("events go on");
                if event.server == server
                    && let Some(found) = wanted(&event)
                {
                    return found;
                }
            }
        };
        timeout(BOUND, reading).await.expect("such an event comes")
    }

    /// Waits until a server enters a phase, or a state without phases.
    pub(super) async fn enters(&self, server: &str, word: &str) {
        self.event(server, |event| match &event.event {
            EventKind::StateChanged { state, phase, .. } => (phase.unwrap_or(state) == word).then_some(()),
            _ => None,
        })
        .await;
    }

    /// Forgets the events so far.
    pub(super) fn forget_events(&self) {
        *self.events.lock() = self.env.subscribe();
    }

    /// Lets everything that is under way go as far as it can before any time passes.
    pub(super) async fn settle(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Closes everything as a board does and waits until nothing is left.
    pub(super) async fn close(mut self) -> Arc<World> {
        self.env.release();
        let (told, mut all_told) = mpsc::channel(1);
        self.registry.do_send(CloseAll(told));
        let _ = all_told.recv().await;
        timeout(BOUND, self.alive.recv()).await.expect("everything ends");
        self.world
    }
}
