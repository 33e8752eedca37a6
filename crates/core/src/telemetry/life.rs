//! The metrics of lives: dials, reconnects by cause, states, permits, catalogs.

use crate::port::ServerName;
use metrics::{Counter, Gauge, counter, gauge};

/// The metric handles of one server's life, resolved once.
pub(crate) struct LifeMetrics {
    server: String,
    dials: Counter,
    stale: Counter,
    tools: Gauge,
    states: [Gauge; STATES.len()],
}

/// The words of the five states.
const STATES: [&str; 5] = ["pending", "connected", "needs-auth", "failed", "disabled"];

impl LifeMetrics {
    pub(crate) fn new(server: &ServerName) -> LifeMetrics {
        let server = server.as_str().to_owned();
        LifeMetrics {
            dials: counter!("callboard_dials_total", "server" => server.clone()),
            stale: counter!("callboard_stale_events_total", "server" => server.clone()),
            tools: gauge!("callboard_catalog_tools", "server" => server.clone()),
            states: STATES.map(|state| gauge!("callboard_servers", "state" => state)),
            server,
        }
    }

    pub(crate) fn dialed(&self) {
        self.dials.increment(1);
    }

    /// A connection that was in use is to be opened anew. Seldom enough to look its counter up.
    pub(crate) fn reconnects(&self, cause: &'static str) {
        counter!("callboard_reconnects_total", "server" => self.server.clone(), "cause" => cause)
            .increment(1);
    }

    pub(crate) fn stale(&self) {
        self.stale.increment(1);
    }

    pub(crate) fn tools(&self, count: usize) {
        self.tools.set(count as f64);
    }

    /// The server counts in this state from now on.
    pub(crate) fn entered(&self, state: &'static str) {
        if let Some(gauge) = self.state(state) {
            gauge.increment(1.0);
        }
    }

    /// The server does not count in this state any more.
    pub(crate) fn left(&self, state: &'static str) {
        if let Some(gauge) = self.state(state) {
            gauge.decrement(1.0);
        }
    }

    fn state(&self, state: &'static str) -> Option<&Gauge> {
        STATES.iter().position(|known| *known == state).map(|index| &self.states[index])
    }
}

/// Dial permits of one pool that are in use.
pub(crate) struct PermitGauge(Gauge);

impl PermitGauge {
    pub(crate) fn new(pool: &'static str) -> PermitGauge {
        PermitGauge(gauge!("callboard_dial_permits_in_use", "pool" => pool))
    }

    pub(crate) fn set(&self, in_use: usize) {
        self.0.set(in_use as f64);
    }
}
