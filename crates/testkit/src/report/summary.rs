//! The sums of a run: what a table has room for.

use super::outages::{bands, gaps, outages};
use super::words::{OUTCOMES, STATES, outcome};
use crate::recording::{Broken, Recording, ServerTrack, Totals};
use serde::Serialize;
use std::collections::BTreeMap;

/// A run in sums. Times are virtual milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// What the scenario calls itself.
    pub title: String,
    /// The seed of everything that was drawn.
    pub seed: u64,
    /// How long the world lived.
    pub duration_ms: u64,
    /// The digest of everything that happened.
    pub trace_hash: String,
    /// How to see the same run again: a command line.
    pub replay: String,
    /// Invariants that did not hold.
    pub broken: Vec<Broken>,
    /// The sums that the run kept itself.
    pub totals: Totals,
    /// Recorded calls by their end; ends that did not occur are left out.
    pub outcomes: BTreeMap<&'static str, OutcomeSummary>,
    /// How the servers were dialed.
    pub storm: Storm,
    /// The servers, in the order of the scenario.
    pub servers: Vec<ServerSummary>,
}

/// Calls that ended alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutcomeSummary {
    /// How many.
    pub calls: u64,
    /// Half of them took no longer.
    pub p50_ms: u64,
    /// 95 of a hundred took no longer.
    pub p95_ms: u64,
    /// 99 of a hundred took no longer.
    pub p99_ms: u64,
    /// The longest.
    pub max_ms: u64,
}

/// How the servers were dialed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Storm {
    /// Dials, of all servers.
    pub dials: u64,
    /// The most dials within any one second.
    pub dials_per_second_max: u64,
    /// When that second began.
    pub peak_at_ms: u64,
    /// The most servers in an outage at once.
    pub away_max: u64,
    /// When that was so first.
    pub away_max_at_ms: u64,
    /// The most outages that began within any five seconds.
    pub lost_max: u64,
    /// When the first of those began.
    pub lost_max_at_ms: u64,
    /// Half of the gaps between attempts that followed each other were no longer; 0 without any.
    pub gap_p50_ms: u64,
    /// The longest such gap.
    pub gap_max_ms: u64,
}

/// What became of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerSummary {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub transport: String,
    /// Time in each state; states that it was not in are left out.
    pub state_ms: BTreeMap<&'static str, u64>,
    /// How often it was dialed.
    pub dials: u64,
    /// How often it was connected again after the first time.
    pub reconnects: u64,
    /// Outages: time without a connection after it was lost or could not be had.
    pub outages: u64,
    /// All of them together.
    pub outage_ms: u64,
    /// The longest of them.
    pub longest_outage_ms: u64,
    /// Its recorded calls.
    pub calls: u64,
    /// Those that were answered well.
    pub calls_ok: u64,
    /// Those that were not, cancelled ones apart.
    pub calls_failed: u64,
}

impl ServerSummary {
    /// Time in this state.
    pub fn in_state(&self, state: &str) -> u64 {
        self.state_ms.get(state).copied().unwrap_or(0)
    }
}

/// Sums a run up.
///
/// ```
/// use callboard_testkit::{Scenario, report, run};
///
/// let recording = run(&Scenario::generated(1, 3, std::time::Duration::from_secs(60)))?;
/// let summary = report::summary(&recording);
/// assert_eq!(summary.servers.len(), 3);
/// # Ok::<(), callboard_testkit::SimError>(())
/// ```
pub fn summary(recording: &Recording) -> Summary {
    let mut servers: Vec<ServerSummary> =
        recording.servers.iter().map(|track| server(track, recording.duration_ms)).collect();
    for call in &recording.calls {
        let Some(server) = servers.get_mut(call.server as usize) else { continue };
        server.calls += 1;
        match &*call.outcome {
            "ok" => server.calls_ok += 1,
            "cancelled" => {}
            _ => server.calls_failed += 1,
        }
    }
    Summary {
        title: recording.title.clone(),
        seed: recording.seed,
        duration_ms: recording.duration_ms,
        trace_hash: recording.trace_hash.clone(),
        replay: replay(recording),
        broken: recording.broken.clone(),
        totals: recording.totals.clone(),
        outcomes: outcomes(recording),
        storm: storm(recording),
        servers,
    }
}

/// The command line that plays a run again. Scenarios that come from no file have what they were made of in their title.
fn replay(recording: &Recording) -> String {
    let (seed, servers) = (recording.seed, recording.servers.len());
    let generated = recording.title.strip_prefix(&format!("seed {seed}, {servers} servers, "));
    // A number and nothing else: the title of a file may say anything.
    let hours: Option<f64> = generated.and_then(|rest| rest.strip_suffix(" h")?.parse().ok());
    match hours.filter(|hours| hours.is_finite()) {
        Some(hours) => {
            format!("cargo xtask sim --seeds {seed}..{seed} --servers {servers} --hours {hours}")
        }
        None if recording.title == format!("{servers} servers that all drop at once") => {
            format!("cargo xtask sim --storm {servers}")
        }
        None => format!("callboard sim FILE --seed {seed}"),
    }
}

fn server(track: &ServerTrack, end_ms: u64) -> ServerSummary {
    let mut state_ms: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut connections, mut was_connected) = (0_u64, false);
    for (from_ms, to_ms, state) in bands(track, end_ms) {
        let sum = state_ms.entry(STATES[state].word).or_default();
        *sum = sum.saturating_add(to_ms - from_ms);
        connections += u64::from(state == 0 && !was_connected);
        was_connected = state == 0;
    }
    let outages: Vec<u64> = outages(track, end_ms).into_iter().map(|(from, to)| to - from).collect();
    ServerSummary {
        name: track.name.clone(),
        transport: track.transport.clone().into_owned(),
        state_ms,
        dials: track.attempts_at_ms.len() as u64,
        reconnects: connections.saturating_sub(1),
        outages: outages.len() as u64,
        outage_ms: outages.iter().fold(0, |sum, ms| sum.saturating_add(*ms)),
        longest_outage_ms: outages.iter().copied().max().unwrap_or(0),
        calls: 0,
        calls_ok: 0,
        calls_failed: 0,
    }
}

fn outcomes(recording: &Recording) -> BTreeMap<&'static str, OutcomeSummary> {
    let mut took: Vec<Vec<u64>> = vec![Vec::new(); OUTCOMES.len()];
    for call in &recording.calls {
        took[outcome(&call.outcome)].push(call.ended_ms.saturating_sub(call.started_ms));
    }
    let known = OUTCOMES.iter().zip(&mut took).filter(|(_, took)| !took.is_empty());
    let sums = known.map(|(word, took)| {
        took.sort_unstable();
        let sum = OutcomeSummary {
            calls: took.len() as u64,
            p50_ms: quantile(took, 50),
            p95_ms: quantile(took, 95),
            p99_ms: quantile(took, 99),
            max_ms: quantile(took, 100),
        };
        (word.word, sum)
    });
    sums.collect()
}

/// The least value that so many of a hundred do not exceed; 0 of nothing. The values are in order.
pub(super) fn quantile(sorted: &[u64], of_hundred: usize) -> u64 {
    let rank = (sorted.len() * of_hundred).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

fn storm(recording: &Recording) -> Storm {
    let attempts = attempts(recording);
    let (most, peak_at_ms) = most_within(&attempts, 1_000);
    let (away_max, away_max_at_ms) = away(recording);
    let mut losses: Vec<u64> = recording
        .servers
        .iter()
        .flat_map(|track| outages(track, recording.duration_ms))
        .map(|(from_ms, _)| from_ms)
        .collect();
    losses.sort_unstable();
    let (lost_max, lost_max_at_ms) = most_within(&losses, 5_000);
    let mut gaps: Vec<u64> = recording.servers.iter().flat_map(gaps).collect();
    gaps.sort_unstable();
    Storm {
        dials: attempts.len() as u64,
        dials_per_second_max: most,
        peak_at_ms,
        away_max,
        away_max_at_ms,
        lost_max,
        lost_max_at_ms,
        gap_p50_ms: quantile(&gaps, 50),
        gap_max_ms: quantile(&gaps, 100),
    }
}

/// The most moments within any such stretch of time, and the first of them. They are in order.
fn most_within(moments: &[u64], length_ms: u64) -> (u64, u64) {
    let (mut first, mut most, mut most_at_ms) = (0, 0, 0);
    for (place, at) in moments.iter().enumerate() {
        while at - moments[first] >= length_ms {
            first += 1;
        }
        if place + 1 - first > most {
            (most, most_at_ms) = (place + 1 - first, moments[first]);
        }
    }
    (most as u64, most_at_ms)
}

/// All dials, in the order of time.
pub(super) fn attempts(recording: &Recording) -> Vec<u64> {
    let mut attempts: Vec<u64> =
        recording.servers.iter().flat_map(|track| track.attempts_at_ms.iter().copied()).collect();
    attempts.sort_unstable();
    attempts
}

/// The most servers that were in an outage at once, and since when.
fn away(recording: &Recording) -> (u64, u64) {
    let outages = recording.servers.iter().flat_map(|track| outages(track, recording.duration_ms));
    // An end comes before a start of the same moment.
    let mut turns: Vec<(u64, i64)> = outages.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
    turns.sort_unstable();
    let (mut now, mut most) = (0_i64, (0_u64, 0_u64));
    for (at, turn) in turns {
        now += turn;
        if u64::try_from(now).is_ok_and(|now| now > most.0) {
            most = (now.unsigned_abs(), at);
        }
    }
    most
}
