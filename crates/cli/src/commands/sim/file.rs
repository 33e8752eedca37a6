//! The scenario of a person: a file that says what goes wrong, laid over the servers that are configured.

mod blame;

use crate::args::SimArgs;
use crate::config::Config;
use crate::output::{CliError, Exit, nearest};
use callboard::protocol::Era;
use callboard::{EraPin, RemoteKind, ServerSpec, TransportSpec};
use callboard_testkit::{CallerPlan, Scenario, ScenarioError, ServerPlan, SimEra, Transport, UserAction};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// How long a world lives when neither the file nor the command line says so.
const DURATION_MS: u64 = 3_600_000;
/// The limit of a call when the entry sets none: longer than people wait, short beside an hour.
const CALL_TIMEOUT_MS: u64 = 60_000;
/// Between two calls of the caller that each server has when the file names none.
const THINK_MS: [u64; 2] = [2_000, 8_000];
/// Where the keys are.
const HINT: &str = "docs/simulation.md has an example and every key";
/// Keys of a scenario, for those who mistype one.
const KEYS: &[&str] = &[
    "title",
    "seed",
    "duration_ms",
    "connect_all",
    "settings",
    "servers",
    "callers",
    "actions",
    "name",
    "count",
    "transport",
    "era",
    "tools",
    "answer_ms",
    "dial_ms",
    "in_flight_max",
    "connect_timeout_ms",
    "denied",
    "faults",
    "kind",
    "from_ms",
    "until_ms",
    "for_ms",
    "every_ms",
    "down_ms",
    "lives_ms",
    "percent",
    "retry_after_s",
    "how",
    "phase",
    "at_ms",
    "notices",
    "think_ms",
    "timeout_ms",
    "cancel_percent",
    "server",
    "do",
];

/// What stands in the file. Everything may be left out: it is then as configured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    seed: Option<u64>,
    duration_ms: Option<Spanned<u64>>,
    #[serde(default)]
    connect_all: bool,
    #[serde(default)]
    settings: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    servers: Vec<ServerPlan>,
    #[serde(default)]
    callers: Vec<Spanned<CallerPlan>>,
    #[serde(default)]
    actions: Vec<Spanned<UserAction>>,
}

/// The configured servers as the world knows them.
#[derive(Debug, Default)]
pub(super) struct Setup {
    servers: Vec<Configured>,
    settings: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Configured {
    plan: ServerPlan,
    call_timeout_ms: u64,
}

impl Setup {
    /// Takes what counts from the configuration: names, transports, limits and settings.
    pub(super) fn of(config: &Config) -> Setup {
        let mut setup = Setup::default();
        for (key, text) in &config.setting_texts {
            setup.settings.insert((*key).to_owned(), text.clone());
        }
        for entry in config.servers() {
            setup.servers.push(Configured {
                plan: plan(&entry),
                call_timeout_ms: entry.options.call_timeout_ms.unwrap_or(CALL_TIMEOUT_MS).max(1),
            });
        }
        setup
    }
}

fn plan(entry: &ServerSpec) -> ServerPlan {
    let transport = match &entry.transport {
        TransportSpec::Stdio(_) | TransportSpec::InProcess(_) => Transport::Stdio,
        TransportSpec::Http(http) => match http.kind {
            RemoteKind::Streamable | RemoteKind::Probe | RemoteKind::Sse | RemoteKind::SseIde => {
                Transport::Http
            }
            RemoteKind::WebSocket | RemoteKind::WebSocketIde => Transport::Ws,
        },
    };
    let mut plan = ServerPlan::new(entry.name.as_str(), transport);
    plan.in_flight_max = entry.options.in_flight_max;
    plan.connect_timeout_ms = entry.options.connect_timeout_ms;
    plan.era = match entry.options.protocol_era {
        EraPin::Pinned(Era::Modern) => SimEra::Modern,
        EraPin::Pinned(Era::Legacy) | EraPin::Auto => SimEra::Legacy,
    };
    plan
}

/// The scenario of the file over the configured servers, and what is odd about it.
///
/// # Errors
/// When the text is no scenario or its parts do not fit together: names the file, the line, the key and what to do.
pub(super) fn scenario(
    args: &SimArgs,
    text: &str,
    setup: &Setup,
) -> Result<(Scenario, Vec<String>), CliError> {
    let name = args.file.display().to_string();
    let parsed =
        toml::from_str::<File>(text).and_then(|file| Ok((file, toml::from_str::<toml::Table>(text)?)));
    let (file, table) = parsed.map_err(|error| misread(&name, text, error.message(), error.span()))?;
    let (servers, notes) = servers(file.servers.clone(), &table, setup);
    let callers = if file.callers.is_empty() { callers(&servers, setup) } else { values(&file.callers) };
    let hours = args.hours.map(|hours| (hours * 3_600_000.0) as u64);
    let stem = args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut settings = setup.settings.clone();
    settings.extend(file.settings.iter().map(|(key, text)| (key.clone(), text.get_ref().clone())));
    let duration_ms = file.duration_ms.as_ref().map(|duration_ms| *duration_ms.get_ref());
    let scenario = Scenario {
        title: file.title.clone().or(stem).unwrap_or_default(),
        seed: args.seed.or(file.seed).unwrap_or_default(),
        duration_ms: hours.or(duration_ms).unwrap_or(DURATION_MS),
        connect_all: file.connect_all,
        settings,
        servers,
        callers,
        actions: values(&file.actions),
    };
    match judged(&scenario) {
        Ok(()) => Ok((scenario, notes)),
        Err(error) => {
            let line = blame::place(text, &file, &scenario).map(|place| line_of(text, place));
            Err(misfit(&name, line, &scenario, &error))
        }
    }
}

fn values<T: Clone>(written: &[Spanned<T>]) -> Vec<T> {
    written.iter().map(|part| part.get_ref().clone()).collect()
}

/// Whether it could be played.
fn judged(scenario: &Scenario) -> Result<(), ScenarioError> {
    Scenario::from_toml(&scenario.to_toml()).map(drop)
}

/// The configured servers, each with what the file says of it, then the servers of the file alone.
fn servers(mut plans: Vec<ServerPlan>, table: &toml::Table, setup: &Setup) -> (Vec<ServerPlan>, Vec<String>) {
    let written: Vec<Option<&toml::Table>> = match table.get("servers") {
        Some(toml::Value::Array(entries)) => entries.iter().map(toml::Value::as_table).collect(),
        _ => Vec::new(),
    };
    let says = |place: usize, key: &str| {
        written.get(place).copied().flatten().is_some_and(|table| table.contains_key(key))
    };
    let mut all = Vec::new();
    let mut taken = vec![false; plans.len()];
    for Configured { plan: configured, .. } in &setup.servers {
        let place = plans.iter().position(|plan| plan.count == 1 && plan.name == configured.name);
        let Some(place) = place else {
            all.push(configured.clone());
            continue;
        };
        taken[place] = true;
        let plan = &mut plans[place];
        if !says(place, "transport") {
            plan.transport = configured.transport;
        }
        if !says(place, "era") {
            plan.era = configured.era;
        }
        plan.in_flight_max = plan.in_flight_max.or(configured.in_flight_max);
        plan.connect_timeout_ms = plan.connect_timeout_ms.or(configured.connect_timeout_ms);
        all.push(plan.clone());
    }
    let mut notes = Vec::new();
    for (plan, _) in plans.into_iter().zip(taken).filter(|(_, taken)| !taken) {
        let known = setup.servers.iter().map(|one| one.plan.name.as_str());
        if let Some(near) = nearest(&plan.name, known) {
            notes.push(format!(
                "{:?} is not configured and is simulated as one more server; did you mean {near:?}?",
                plan.name
            ));
        }
        all.push(plan);
    }
    (all, notes)
}

/// One caller a server, with the limit that its entry sets.
fn callers(servers: &[ServerPlan], setup: &Setup) -> Vec<CallerPlan> {
    let limit = |name: &str| {
        let configured = setup.servers.iter().find(|one| one.plan.name == name);
        configured.map_or(CALL_TIMEOUT_MS, |one| one.call_timeout_ms)
    };
    let admitted = servers.iter().filter(|plan| !plan.denied);
    admitted
        .map(|plan| CallerPlan {
            count: plan.count,
            servers: vec![plan.name.clone()],
            think_ms: THINK_MS,
            timeout_ms: [limit(&plan.name); 2],
            cancel_percent: 0,
        })
        .collect()
}

/// What cannot be read, with its place.
fn misread(file: &str, text: &str, message: &str, span: Option<Range<usize>>) -> CliError {
    let Some(span) = span else {
        return bad(format!("{file}: {message}"), HINT.to_owned());
    };
    let start = span.start.min(text.len());
    let line = line_of(text, start);
    let whole = text.lines().nth(line - 1).unwrap_or_default().trim();
    let word = text.get(span).unwrap_or_default().trim();
    let is_key = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let key = match whole.split_once('=') {
        _ if is_key && !KEYS.contains(&word) && !whole.ends_with(word) => word,
        Some((key, _)) => key.trim(),
        None => whole,
    };
    let hint = match nearest(key, KEYS.iter().copied()) {
        Some(near) if near != key.trim_matches(['[', ']']) => format!("did you mean {near}? {HINT}"),
        _ => HINT.to_owned(),
    };
    let message = message.lines().next().unwrap_or_default();
    bad(format!("{file}:{line}: {key}: {message}"), hint)
}

fn line_of(text: &str, place: usize) -> usize {
    text.get(..place).unwrap_or_default().matches('\n').count() + 1
}

/// What does not fit together, with the first line at which it does not.
fn misfit(file: &str, line: Option<usize>, scenario: &Scenario, error: &ScenarioError) -> CliError {
    let hint = match scenario.servers.is_empty() {
        true => {
            "name servers in the file, or configure some: `callboard config paths` shows where".to_owned()
        }
        false => format!("change the file so that its parts fit together; {HINT}"),
    };
    let line = line.map(|line| format!(":{line}")).unwrap_or_default();
    bad(format!("{file}{line}: {error}"), hint)
}

fn bad(message: String, hint: String) -> CliError {
    CliError::new(Exit::Config, "bad-scenario", message).hint(hint)
}
