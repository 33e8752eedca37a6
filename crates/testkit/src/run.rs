//! Running a world: a paused clock, the production actors, and the questions asked at the end.

use crate::callers::Caller;
use crate::ending;
use crate::looks::look_again_and_again;
use crate::model::Pools;
use crate::recording::{Recording, Totals};
use crate::scenario::{Scenario, Transport};
use crate::script::Script;
use crate::stage::Stage;
use crate::trace::{LineSink, Trace};
use crate::world::{Books, Detail, SimDialer, World};
use callboard_core::actor::registry::{Add, RegistryActor, ServerTable};
use callboard_core::environment::Environment;
use callboard_core::settings::Settings;
use callboard_policy::{
    Admitted, HttpSpec, RemoteKind, ServerOptions, ServerSpec, StdioSpec, TransportSpec, admit,
};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// Why a scenario could not be run to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The scenario does not fit together: every problem that was found.
    #[error("the scenario does not fit together: {}", .0.join("; "))]
    Scenario(Vec<String>),
    /// There is no runtime to run it on.
    #[error("there is no runtime for it: {0}")]
    Runtime(String),
    /// A task of the world itself failed: a defect of the simulation, or of what a test does in it.
    #[error("the world broke: {0}")]
    World(String),
}

/// What a run is given beside its scenario.
#[derive(Default)]
pub struct Instruments {
    /// Takes the lines of the trace.
    pub trace: Option<LineSink>,
    /// Tells how much memory is in use, in bytes; without it nobody looks for growth.
    pub memory: Option<fn() -> u64>,
    /// Tells the most memory that the process has had, in KiB.
    pub peak_rss_kib: Option<fn() -> u64>,
    /// How much of the run is kept.
    pub detail: Detail,
}

/// Runs a scenario from its first moment to the last: callers call, faults strike, the user acts; then all faults
/// end, and every server must be of use again; then the board is closed, and nothing may be left.
///
/// What did not hold is told in [`Recording::broken`].
///
/// # Errors
/// When the scenario does not fit together, or the world itself fails.
///
/// ```
/// use callboard_testkit::{Scenario, run};
///
/// let scenario = Scenario::from_toml(
///     r#"
///     duration_ms = 60000
///     [[servers]]
///     name = "flaky"
///     transport = "http"
///     [[servers.faults]]
///     kind = "flap"
///     from_ms = 5000
///     until_ms = 50000
///     every_ms = 10000
///     down_ms = 1500
///     [[callers]]
///     think_ms = [500, 1500]
///     timeout_ms = [5000, 5000]
///     "#,
/// )?;
/// let recording = run(&scenario)?;
/// assert!(recording.broken.is_empty());
/// assert!(recording.totals.ok > 10);
/// assert_eq!(recording.trace_hash, run(&scenario)?.trace_hash);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(scenario: &Scenario) -> Result<Recording, SimError> {
    run_with(scenario, Instruments::default())
}

/// As [`run`], with instruments.
///
/// # Errors
/// As [`run`].
pub fn run_with(scenario: &Scenario, instruments: Instruments) -> Result<Recording, SimError> {
    let played = scenario.clone();
    let memory = instruments.memory;
    let (recording, ()) = play_with(scenario, instruments, move |stage| live(stage, played, memory))?;
    Ok(recording)
}

/// Runs a world in which a test does what it likes: the servers of the scenario with their faults, but without its
/// callers, for as long as `act` takes. Ends as [`run`] does.
///
/// # Errors
/// As [`run`]; also when `act` panics.
///
/// ```
/// use callboard_testkit::{Scenario, play};
/// use std::time::Duration;
///
/// let scenario = Scenario::from_toml("duration_ms = 60000\n[[servers]]\nname = \"files\"")?;
/// let (recording, outcome) = play(&scenario, |stage| async move {
///     stage.call("files", "t0", Duration::from_secs(5)).await;
///     stage.take_down("files");
///     let calling = stage.call("files", "t0", Duration::from_secs(60));
///     let later = async {
///         stage.wait(Duration::from_secs(6)).await;
///         stage.bring_up("files");
///     };
///     tokio::join!(calling, later).0
/// })?;
/// assert_eq!((outcome, recording.broken.len()), ("ok", 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn play<T, F, Acting>(scenario: &Scenario, act: F) -> Result<(Recording, T), SimError>
where
    T: Send + 'static,
    F: FnOnce(Stage) -> Acting + Send + 'static,
    Acting: Future<Output = T> + Send + 'static,
{
    play_with(scenario, Instruments::default(), act)
}

fn play_with<T, F, Acting>(
    scenario: &Scenario,
    instruments: Instruments,
    act: F,
) -> Result<(Recording, T), SimError>
where
    T: Send + 'static,
    F: FnOnce(Stage) -> Acting + Send + 'static,
    Acting: Future<Output = T> + Send + 'static,
{
    let problems = scenario.problems();
    if !problems.is_empty() {
        return Err(SimError::Scenario(problems));
    }
    let began = std::time::Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| SimError::Runtime(error.to_string()))?;
    let local = LocalSet::new();
    let longest = Rc::new(Cell::new(Duration::ZERO));
    let peak = instruments.peak_rss_kib;
    let _inside = runtime.enter();
    let mut settings = Settings::default();
    for (key, text) in &scenario.settings {
        settings.set(key, text).map_err(|error| SimError::Scenario(vec![error.to_string()]))?;
    }
    let pools = Pools::new(
        settings.connect_local_max,
        settings.connect_remote_max,
        settings.probe_timeout.as_millis() as u64,
    );
    let books = Books::new(Trace::new(instruments.trace), pools, instruments.detail);
    let world = Arc::new(World::new(scenario, &settings, books));
    let specs =
        scenario.servers.iter().flat_map(|plan| plan.names().into_iter().map(move |name| spec(&name, plan)));
    let admitted = admit(specs.collect::<Vec<_>>()).admitted;
    let whole = begin_and_end(scenario.clone(), (settings, admitted), world.clone(), act);
    let inner = Box::pin(local.run_until(whole));
    let timed = Timed { inner, longest: longest.clone(), world: world.clone() };
    let (value, stage) = runtime.block_on(timed)?;
    // Taken apart and written down outside the measured turns: neither is a step of the control plane, and for
    // 10,000 servers both are long.
    drop(stage);
    let mut recording = recording(scenario, &world);
    drop(local);
    drop(runtime);
    recording.totals.real_ms = began.elapsed().as_millis() as u64;
    recording.totals.longest_step_real_ms = longest.get().as_millis() as u64;
    recording.totals.peak_rss_kib = peak.map_or(0, |peak| peak());
    Ok((recording, value))
}

/// Measures each turn of the actors' thread. A turn handles some dozens of messages, so that no step of the
/// control plane takes longer than the longest turn.
struct Timed<F> {
    inner: Pin<Box<F>>,
    longest: Rc<Cell<Duration>>,
    world: Arc<World>,
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let began = std::time::Instant::now();
        let polled = self.inner.as_mut().poll(cx);
        self.longest.set(self.longest.get().max(began.elapsed()));
        // However much the actors say in a turn: it is read before the next one.
        self.world.hear();
        polled
    }
}

/// Puts a board into the world, lets `act` have it, and takes it apart again. Runs where the actors live; what
/// is no actor runs beside, so that the turns that are measured are the actors' own.
async fn begin_and_end<T, F, Acting>(
    scenario: Scenario,
    (settings, admitted): (Settings, Vec<Admitted>),
    world: Arc<World>,
    act: F,
) -> Result<(T, Stage), SimError>
where
    T: Send + 'static,
    F: FnOnce(Stage) -> Acting + Send + 'static,
    Acting: Future<Output = T> + Send + 'static,
{
    let mut env = Environment::new(Arc::new(SimDialer(world.clone())), settings, Handle::current());
    env.seed = scenario.seed;
    let (token, alive) = mpsc::channel(1);
    env.hold(token);
    world.listen(env.subscribe());
    let env = Arc::new(env);
    let table = Arc::new(ServerTable::new(env.clone()));
    let registry = RegistryActor::start(env.clone(), table.clone());
    for admitted in admitted.chunks(ADDED_AT_ONCE) {
        let added = registry.send(Add { servers: admitted.to_vec() }).await;
        added.map_err(|error| SimError::World(error.to_string()))?;
    }
    let names = scenario.servers.iter().flat_map(|plan| plan.names()).collect();
    let tools = scenario.servers.iter().flat_map(|plan| (0..plan.count).map(|_| plan.tools)).collect();
    let stage = Stage::new(world.clone(), table, names, tools);
    let looking = Handle::current().spawn(look_again_and_again(stage.clone(), look_every(&scenario)));
    let value = Handle::current().spawn(act(stage.clone())).await;
    let value = value.map_err(|error| SimError::World(error.to_string()))?;
    let recovering = Handle::current().spawn(ending::recover(stage.clone(), scenario.clone())).await;
    recovering.map_err(|error| SimError::World(error.to_string()))?;
    looking.abort();
    let _ = looking.await;
    let closing = Handle::current().spawn(ending::close(stage.clone(), env, registry, alive)).await;
    closing.map_err(|error| SimError::World(error.to_string()))?;
    Ok((value, stage))
}

/// Servers that are added in one message.
const ADDED_AT_ONCE: usize = 200;

/// How often the world looks at itself.
fn look_every(scenario: &Scenario) -> Duration {
    Duration::from_millis((scenario.duration_ms / 360).clamp(1_000, 60_000))
}

fn spec(name: &str, plan: &crate::scenario::ServerPlan) -> ServerSpec {
    let transport = match plan.transport {
        Transport::Stdio => {
            TransportSpec::Stdio(StdioSpec { command: format!("simulated-{name}"), ..StdioSpec::default() })
        }
        Transport::Http => remote(name, "http", RemoteKind::Streamable),
        Transport::Ws => remote(name, "ws", RemoteKind::WebSocket),
    };
    let options = ServerOptions {
        in_flight_max: plan.in_flight_max,
        connect_timeout_ms: plan.connect_timeout_ms,
        ..ServerOptions::default()
    };
    ServerSpec { enabled: !plan.denied, options, ..ServerSpec::new(name, transport) }
}

fn remote(name: &str, scheme: &str, kind: RemoteKind) -> TransportSpec {
    TransportSpec::Http(HttpSpec {
        url: format!("{scheme}://{name}.invalid/mcp"),
        kind,
        ..HttpSpec::default()
    })
}

/// The life of a world: its callers and its script.
async fn live(stage: Stage, scenario: Scenario, memory: Option<fn() -> u64>) {
    if scenario.connect_all {
        for (_, handle) in stage.handles() {
            handle.demand();
        }
    }
    let mut tasks = Vec::new();
    tasks.push(Handle::current().spawn(Script::of(&scenario).play(stage.clone())));
    for caller in Caller::all(&scenario) {
        tasks.push(Handle::current().spawn(caller.call_until(stage.clone(), scenario.duration_ms)));
    }
    if let Some(memory) = memory {
        watch_memory(&stage, scenario.duration_ms, memory).await;
    }
    // A call that never ends is told of as such, and must not keep the world from ending.
    let longest_ms = scenario.callers.iter().map(|caller| caller.timeout_ms[1]).max().unwrap_or(0);
    let last = stage.world().moment(scenario.duration_ms + longest_ms) + CALLER_SLACK;
    for mut task in tasks {
        match tokio::time::timeout_at(last, &mut task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => stage.world().broke("simulation", None, error.to_string()),
            Err(_) => task.abort(),
        }
    }
    let end = stage.world().moment(scenario.duration_ms);
    tokio::time::sleep_until(end).await;
}

/// What callers may take beyond the limits of their last calls: the thought before them, and a look around.
const CALLER_SLACK: Duration = Duration::from_secs(120);

/// Looks at memory as long as the world lives, and compares the last quarter of its life with the second: the
/// first one is still growing into its tables.
async fn watch_memory(stage: &Stage, duration_ms: u64, memory: fn() -> u64) {
    const LOOKS: u64 = 80;
    let mut looks = Vec::new();
    for look in 1..LOOKS {
        tokio::time::sleep_until(stage.world().moment(duration_ms / LOOKS * look)).await;
        looks.push(memory());
    }
    let quarter = looks.len() / 4;
    let least = |looks: &[u64]| looks.iter().copied().min().unwrap_or_default();
    let (early, late) = (least(&looks[quarter..2 * quarter]), least(&looks[3 * quarter..]));
    if late > early + early / MEMORY_GROWTH_PART + MEMORY_GROWTH_BYTES {
        let detail = format!("{early} bytes in the second quarter, {late} in the last");
        stage.world().broke("memory-growth", None, detail);
    }
}

/// What memory may grow by between two quarters: a tenth, and this for chance.
const MEMORY_GROWTH_PART: u64 = 10;
/// See [`MEMORY_GROWTH_PART`].
const MEMORY_GROWTH_BYTES: u64 = 512 * 1024;

fn recording(scenario: &Scenario, world: &World) -> Recording {
    let (mut state, now) = world.enter();
    let (servers, calls, gauges) = state.books.hand_over(now);
    let books = &state.books;
    Recording {
        title: scenario.title.clone(),
        seed: scenario.seed,
        duration_ms: now,
        servers,
        calls,
        gauges,
        broken: books.broken.clone(),
        trace_hash: books.trace.hash(),
        totals: Totals {
            calls: books.ledger.made(),
            ok: books.ledger.ok(),
            dials: books.dials(),
            steps: books.trace.lines(),
            real_ms: 0,
            longest_step_real_ms: 0,
            peak_rss_kib: 0,
        },
    }
}
