//! Metric names, in one place. Exporters belong to the binaries.
//!
//! | name | kind | labels | unit |
//! |---|---|---|---|
//! | `callboard_calls_total` | counter | server, outcome | calls |
//! | `callboard_call_seconds` | histogram | server | seconds |
//! | `callboard_sent_bytes_total` | counter | server | bytes |
//! | `callboard_unmatched_replies_total` | counter | server | replies |
//! | `callboard_malformed_total` | counter | server | messages |
//! | `callboard_unanswered_total` | counter | server | requests of the server |
//! | `callboard_dials_total` | counter | server | attempts to connect |
//! | `callboard_reconnects_total` | counter | server, cause | connections lost, or given up for another |
//! | `callboard_stale_events_total` | counter | server | messages of earlier generations that were dropped |
//! | `callboard_catalog_tools` | gauge | server | tools |
//! | `callboard_servers` | gauge | state | servers |
//! | `callboard_dial_permits_in_use` | gauge | pool (`local`, `remote`) | permits |

mod life;

pub(crate) use life::*;

use crate::port::ServerName;
use metrics::{Counter, Histogram, counter, histogram};
use std::time::Duration;

/// The metric handles of one connection, resolved once.
pub(crate) struct ConnMetrics {
    ok: Counter,
    failed: Counter,
    seconds: Histogram,
    sent_bytes: Counter,
    unmatched: Counter,
    malformed: Counter,
    unanswered: Counter,
}

impl ConnMetrics {
    pub(crate) fn new(server: &ServerName) -> ConnMetrics {
        let server = || server.as_str().to_owned();
        ConnMetrics {
            ok: counter!("callboard_calls_total", "server" => server(), "outcome" => "ok"),
            failed: counter!("callboard_calls_total", "server" => server(), "outcome" => "failed"),
            seconds: histogram!("callboard_call_seconds", "server" => server()),
            sent_bytes: counter!("callboard_sent_bytes_total", "server" => server()),
            unmatched: counter!("callboard_unmatched_replies_total", "server" => server()),
            malformed: counter!("callboard_malformed_total", "server" => server()),
            unanswered: counter!("callboard_unanswered_total", "server" => server()),
        }
    }

    pub(crate) fn called(&self, ok: bool, took: Duration) {
        if ok { &self.ok } else { &self.failed }.increment(1);
        self.seconds.record(took.as_secs_f64());
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.increment(bytes as u64);
    }

    pub(crate) fn unmatched(&self) {
        self.unmatched.increment(1);
    }

    pub(crate) fn malformed(&self) {
        self.malformed.increment(1);
    }

    pub(crate) fn unanswered(&self) {
        self.unanswered.increment(1);
    }
}
