//! The document for machines.

use super::summary::{Summary, summary};
use crate::recording::Recording;
use serde::Serialize;

/// A run in sums, as one JSON document on one line. Its keys stay; new ones may come.
///
/// | key | what it holds |
/// | --- | --- |
/// | `format` | `callboard-sim/1` |
/// | `ok` | true when no invariant was broken |
/// | `title`, `seed`, `duration_ms`, `trace_hash`, `replay` | of the run; `replay` is a command line |
/// | `broken` | `[{at_ms, invariant, server, detail}]`, `server` null when it was none |
/// | `totals` | `{calls, ok, dials, steps, real_ms, longest_step_real_ms, peak_rss_kib}` |
/// | `outcomes` | `{OUTCOME: {calls, p50_ms, p95_ms, p99_ms, max_ms}}` of recorded calls; absent when none ended so |
/// | `storm` | `{dials, dials_per_second_max, peak_at_ms, away_max, away_max_at_ms, lost_max, lost_max_at_ms, gap_p50_ms, gap_max_ms}` |
/// | `servers` | `[{name, transport, state_ms: {STATE: ms}, dials, reconnects, outages, outage_ms, longest_outage_ms, calls, calls_ok, calls_failed}]` |
///
/// Times are virtual milliseconds since the start of the run unless they say `real`. Who wants every band and call
/// takes the [`Recording`] itself.
pub fn json(recording: &Recording) -> String {
    let summary = summary(recording);
    let document = Document { format: "callboard-sim/1", ok: summary.broken.is_empty(), summary: &summary };
    // Maps with keys of text, numbers and texts have nothing that JSON cannot hold.
    serde_json::to_string(&document).unwrap_or_default()
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    ok: bool,
    #[serde(flatten)]
    summary: &'a Summary,
}
