//! Rounds of starting ten servers, some of them ill-mannered, and of ending their client by SIGINT, SIGTERM and
//! SIGKILL in turn: nothing is left, and no child stays a zombie while the client runs.
//!
//! `CALLBOARD_ROUNDS` says how many (5 by default), `CALLBOARD_ROUNDS_AT_ONCE` how many of them at once (2).
//! `CALLBOARD_BIN` names another command than the one that was just built. Figures are printed at the end:
//!
//! ```sh
//! CALLBOARD_ROUNDS=200 CALLBOARD_ROUNDS_AT_ONCE=4 cargo test -p callboard-tests --test process_rounds -- --nocapture
//! ```
#![cfg(target_os = "linux")]

mod common;

use common::{Family, PATIENCE, callboard, described, living, processes, send, until, zombies_of};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// From SIGINT or SIGTERM to nothing: the two graces of a deaf child are 4 s.
const ORDERLY_MAX: Duration = Duration::from_secs(6);

/// The guard's interval, from SIGKILL of the client to nothing: the guard waits a second between SIGTERM and
/// SIGKILL, and looks twenty times meanwhile, which costs a busy machine more than the second.
const GUARD_MAX: Duration = Duration::from_secs(3);

/// A dead child may wait this long to be reaped, when the machine is busy.
const ZOMBIE_MAX: Duration = Duration::from_secs(1);

/// The ten, by name.
const SERVERS: [(&str, &[&str]); 10] = [
    ("plain-1", &["--plain"]),
    ("plain-2", &["--plain"]),
    ("plain-3", &["--plain"]),
    ("parent-1", &["--grandchild"]),
    ("parent-2", &["--grandchild"]),
    ("deaf-1", &["--deaf"]),
    ("deaf-2", &["--deaf"]),
    ("deaf-parent", &["--deaf", "--grandchild"]),
    ("flood", &["--stderr-flood"]),
    ("deaf-flood", &["--deaf", "--stderr-flood"]),
];

/// Processes of the ten: the three parents have a child each.
const PROCESSES: usize = 13;

/// Who holds the ten when the signal comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Client {
    /// `callboard status --watch --json`: all is connected, and said to be.
    Watch,
    /// `callboard status --json`, which still waits for an eleventh server that never answers.
    Status,
    /// A host with a board and a runtime of several threads.
    Host,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Interrupt,
    Terminate,
    Kill,
}

impl Stop {
    fn signal(self) -> libc::c_int {
        match self {
            Stop::Interrupt => libc::SIGINT,
            Stop::Terminate => libc::SIGTERM,
            Stop::Kill => libc::SIGKILL,
        }
    }

    fn bound(self) -> Duration {
        match self {
            Stop::Interrupt | Stop::Terminate => ORDERLY_MAX,
            Stop::Kill => GUARD_MAX,
        }
    }
}

/// Three rounds have each signal and each client once, nine have every pair.
fn plan(round: usize) -> (Client, Stop) {
    let client = [Client::Watch, Client::Status, Client::Host][(round + round / 3) % 3];
    (client, [Stop::Interrupt, Stop::Terminate, Stop::Kill][round % 3])
}

#[test]
fn f304_nothing_is_left_of_ten_servers_whatever_ends_their_client() {
    let rounds = number("CALLBOARD_ROUNDS", 5);
    let lanes = number("CALLBOARD_ROUNDS_AT_ONCE", 2).clamp(1, rounds.max(1));
    callboard();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let round = next.fetch_add(1, Ordering::Relaxed);
                    if round >= rounds {
                        return;
                    }
                    let outcome = play(round);
                    if let Err(problem) = &outcome {
                        eprintln!("round {round}: {problem}");
                    }
                    outcomes.lock().expect("no panic").push((round, outcome));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("no panic");
    assert_eq!(outcomes.len(), rounds);
    println!("{}", figures(&outcomes));
    let failed: BTreeMap<_, _> =
        outcomes.iter().filter_map(|(round, outcome)| Some((round, outcome.as_ref().err()?))).collect();
    assert!(failed.is_empty(), "{} of {rounds} rounds failed: {failed:#?}", failed.len());
}

/// The client is killed while it starts ten deaf servers, a little later from round to round.
#[test]
fn f304_nothing_is_left_when_the_client_is_killed_while_it_starts_servers() {
    for round in 0..number("CALLBOARD_ROUNDS", 5) {
        let family = Family::new("early");
        let manners = |server| if server % 3 == 0 { &["--deaf", "--grandchild"][..] } else { &["--deaf"] };
        let servers = (0..10).map(|server| (format!("deaf-{server}"), family.entry(manners(server))));
        let file = family.write(&servers.collect());
        let mut client =
            family.command(callboard()).arg("--config").arg(file).arg("status").spawn().expect("starts");
        // How many have been started when it is killed.
        let started = 1 + round % 7;
        let is_there = until(PATIENCE, || family.living().len() >= started);
        client.kill().expect("killed");
        client.wait().expect("reaped");
        assert!(is_there, "round {round}: nothing was started: {}", family.text("stderr"));
        family.gone_within(GUARD_MAX).unwrap_or_else(|left| panic!("round {round}: {left}"));
    }
}

fn number(variable: &str, default: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")),
        Err(_) => default,
    }
}

/// Rounds, the median and the longest time to nothing, by signal and client.
fn figures(outcomes: &[(usize, Result<Duration, String>)]) -> String {
    let mut times: BTreeMap<(Stop, Client), Vec<Duration>> = BTreeMap::new();
    let mut failed: BTreeMap<(Stop, Client), usize> = BTreeMap::new();
    for (round, outcome) in outcomes {
        let (client, stop) = plan(*round);
        match outcome {
            Ok(took) => times.entry((stop, client)).or_default().push(*took),
            Err(_) => *failed.entry((stop, client)).or_default() += 1,
        }
    }
    let lines = times.iter_mut().map(|(key, took)| {
        took.sort();
        let (count, median, worst) = (took.len(), took[took.len() / 2], took[took.len() - 1]);
        format!("{:?} {:?}: {count} clean, median {median:.2?}, worst {worst:.2?}", key.0, key.1)
    });
    let lines: Vec<String> = lines.collect();
    format!("{}\nfailed: {failed:?}", lines.join("\n"))
}

/// One round; how long it took from the signal until nothing was left.
fn play(round: usize) -> Result<Duration, String> {
    let (client, stop) = plan(round);
    let family = Family::new("round");
    let mut running = Running::start(&family, client);
    let outcome = running.play(&family, client, stop);
    outcome.map_err(|problem| {
        let stderr = family.text("stderr");
        format!("{client:?} {stop:?}: {problem}; stderr: {:?}", stderr.chars().take(600).collect::<String>())
    })
}

/// The client of a round. Dropped, it is killed and reaped, its guard with it.
struct Running {
    child: Child,
    guards: BTreeSet<u32>,
    zombies: Zombies,
}

impl Running {
    fn start(family: &Family, client: Client) -> Running {
        let up = |name: &str| family.path().join(format!("up-{name}")).to_string_lossy().into_owned();
        let entry = |(name, manners): (&str, &[&str])| {
            (name.to_owned(), family.entry(&[manners, &["--up", &up(name)]].concat()))
        };
        let mut servers: BTreeMap<String, Value> = SERVERS.into_iter().map(entry).collect();
        // One whose child dies at once, twice: something to reap.
        servers.insert("exits".into(), family.entry(&["--exits"]));
        if client == Client::Status {
            servers.insert("silent".into(), family.entry(&["--silent"]));
        }
        let file = family.write(&servers);
        let mut command = match client {
            Client::Watch | Client::Status => family.command(callboard()),
            Client::Host => family.command(Path::new(env!("CARGO_BIN_EXE_board-host"))),
        };
        match client {
            Client::Watch => command.arg("--config").arg(file).args(["status", "--watch", "--json"]),
            Client::Status => command.arg("--config").arg(file).args(["status", "--json"]),
            Client::Host => command.arg(file),
        };
        let child = command.spawn().expect("the client starts");
        let zombies = Zombies { parent: child.id(), seen: BTreeMap::new(), worst: Ok(()) };
        Running { child, guards: BTreeSet::new(), zombies }
    }

    fn play(&mut self, family: &Family, client: Client, stop: Stop) -> Result<Duration, String> {
        self.come_up(family, client)?;
        let sent = Instant::now();
        send(self.child.id(), stop.signal());
        let mut end = None;
        let is_gone = || {
            if end.is_none() {
                self.zombies.look();
                end = self.child.try_wait().expect("an own child");
            }
            end.is_some() && family.living().is_empty() && self.guards.iter().all(|guard| !is_guard(*guard))
        };
        let is_gone = until(PATIENCE, is_gone);
        let took = sent.elapsed();
        let Some(end) = end else { return Err(format!("the client still runs after {took:?}")) };
        if !is_gone {
            return Err(format!("left after {took:?}: {:?}", described(&family.living())));
        }
        self.zombies.worst.clone()?;
        let wanted = match (client, stop) {
            (_, Stop::Kill) => None,
            (Client::Host, Stop::Interrupt | Stop::Terminate) => Some(0),
            (Client::Watch | Client::Status, Stop::Interrupt | Stop::Terminate) => Some(130),
        };
        if end.code() != wanted {
            return Err(format!("the client ended with {end}"));
        }
        if took > stop.bound() { Err(format!("gone after {took:?} only")) } else { Ok(took) }
    }

    /// Waits until all ten are connected, all their processes run, the guard watches and no zombie is left.
    fn come_up(&mut self, family: &Family, client: Client) -> Result<(), String> {
        let mut missing = String::new();
        let own = self.child.id();
        let is_up = until(PATIENCE, || {
            self.zombies.look();
            self.guards = living(|process| process.parent == own && is_guard(process.pid));
            missing = missing_of(family, client, &self.guards);
            missing.is_empty() && self.zombies.seen.is_empty()
        });
        self.zombies.worst.clone()?;
        match is_up {
            true => Ok(()),
            false => Err(format!("not up: {missing}; zombies {:?}", self.zombies.seen)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for one that has ended and been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for guard in self.guards.iter().filter(|guard| is_guard(**guard)) {
            send(*guard, libc::SIGKILL);
        }
    }
}

/// What is not yet as it must be before the signal; empty when all is.
fn missing_of(family: &Family, client: Client, guards: &BTreeSet<u32>) -> String {
    let living = family.living();
    let is_down = |name: &&str| {
        let pid = family.text(&format!("up-{name}")).parse::<u32>();
        !pid.is_ok_and(|pid| living.contains(&pid))
    };
    let down: Vec<&str> = SERVERS.iter().map(|(name, _)| *name).filter(is_down).collect();
    if !down.is_empty() {
        return format!("servers {down:?}");
    }
    // The silent server is one more; the one that exits is there for moments.
    if living.len() < PROCESSES + usize::from(client == Client::Status) {
        return format!("processes: {:?}", described(&living));
    }
    if guards.len() != 1 {
        return format!("one guard: {guards:?}");
    }
    let stdout = family.text("stdout");
    let connected = match client {
        Client::Watch => connected_of_report(&stdout),
        // Says nothing before the last server has settled; the servers have said that they were listed.
        Client::Status => SERVERS.len(),
        Client::Host => stdout.trim().strip_prefix("connected ").and_then(|n| n.parse().ok()).unwrap_or(0),
    };
    if connected != SERVERS.len() { format!("{connected} are connected") } else { String::new() }
}

/// How many servers the latest whole line of `status --watch --json` calls connected.
fn connected_of_report(stdout: &str) -> usize {
    let Some((lines, _)) = stdout.rsplit_once('\n') else { return 0 };
    let line = lines.lines().last().unwrap_or_default();
    let Ok(report) = serde_json::from_str::<Value>(line) else { return 0 };
    let servers = report["servers"].as_array().into_iter().flatten();
    servers.filter(|server| server["state"]["type"] == "connected").count()
}

/// Is this process, by its id, a guard still?
fn is_guard(pid: u32) -> bool {
    let is_word = |process: common::Process| process.words().any(|word| word == b"callboard-guard");
    processes().any(|process| process.pid == pid && process.state != 'Z' && is_word(process))
}

/// Since when which child of the client has been a zombie.
struct Zombies {
    parent: u32,
    seen: BTreeMap<u32, Instant>,
    worst: Result<(), String>,
}

impl Zombies {
    fn look(&mut self) {
        let now = zombies_of(self.parent);
        self.seen.retain(|pid, _| now.contains(pid));
        for pid in now {
            let since = self.seen.entry(pid).or_insert_with(Instant::now);
            if since.elapsed() > ZOMBIE_MAX {
                self.worst =
                    Err(format!("a zombie for {:?}: {:?}", since.elapsed(), described(&[pid].into())));
            }
        }
    }
}
