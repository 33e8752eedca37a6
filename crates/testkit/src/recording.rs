//! What a run leaves behind: the only input of a report.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One run of a scenario, from its first moment to the last. Times are virtual milliseconds since its start
/// unless they say `real`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// What the scenario calls itself.
    pub title: String,
    /// The seed of everything that was drawn.
    pub seed: u64,
    /// How long the world lived, in virtual milliseconds.
    pub duration_ms: u64,
    /// The servers, in the order of the scenario.
    pub servers: Vec<ServerTrack>,
    /// The calls, in the order in which they ended.
    pub calls: Vec<CallRecord>,
    /// Samples of the whole board, in the order of time.
    pub gauges: Vec<GaugePoint>,
    /// Invariants that did not hold; empty for a good run.
    pub broken: Vec<Broken>,
    /// The digest of everything that happened, in hexadecimal digits: the same for the same seed and scenario.
    pub trace_hash: String,
    /// Sums.
    pub totals: Totals,
}

/// What became of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerTrack {
    /// Its name.
    pub name: String,
    /// `stdio`, `http` or `ws`.
    pub transport: Cow<'static, str>,
    /// Its states, one after the other without gaps.
    pub bands: Vec<Band>,
    /// When it was dialed, in virtual milliseconds.
    pub attempts_at_ms: Vec<u64>,
}

/// A stretch of time in one state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Its start, in virtual milliseconds.
    pub from_ms: u64,
    /// Its end, in virtual milliseconds.
    pub to_ms: u64,
    /// `dormant`, `queued`, `dialing`, `handshaking`, `backing-off`, `connected`, `needs-auth`, `failed` or `disabled`.
    pub state: Cow<'static, str>,
}

/// One call of one caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The server, by its place in [`Recording::servers`].
    pub server: u32,
    /// The caller's number.
    pub caller: u32,
    /// When it was made, in virtual milliseconds.
    pub started_ms: u64,
    /// When it ended, in virtual milliseconds.
    pub ended_ms: u64,
    /// `ok`, `remote-error`, `timed-out`, `lost-unsent`, `lost-unknown`, `not-connected`, `queue-full` or `cancelled`.
    pub outcome: Cow<'static, str>,
}

/// The board at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaugePoint {
    /// When, in virtual milliseconds.
    pub at_ms: u64,
    /// Calls that were made and have not ended.
    pub in_flight: u32,
    /// Those of them that no server has seen yet.
    pub queued: u32,
    /// Servers that are connected.
    pub connected: u32,
    /// Servers that are being dialed or shaken hands with.
    pub dialing: u32,
}

/// An invariant that did not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Broken {
    /// When it was seen, in virtual milliseconds.
    pub at_ms: u64,
    /// Its name.
    pub invariant: Cow<'static, str>,
    /// The server it was seen at, if it was one.
    pub server: Option<String>,
    /// What was seen.
    pub detail: String,
}

/// Sums of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Calls that were made.
    pub calls: u64,
    /// Calls that ended well.
    pub ok: u64,
    /// Dials.
    pub dials: u64,
    /// Lines of the trace.
    pub steps: u64,
    /// Real time of the run, in milliseconds.
    pub real_ms: u64,
    /// The longest real time of one step of the control plane, in milliseconds.
    pub longest_step_real_ms: u64,
    /// The most memory that the process had at once, in KiB; 0 where nobody measured.
    pub peak_rss_kib: u64,
}
