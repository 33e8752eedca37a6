//! The metrics of lives: dials, reconnects by cause, states, permits, catalogs. All of them are seldom enough to
//! look their handles up.

use crate::port::ServerName;
use metrics::{counter, gauge};

/// An event of an older generation was dropped.
pub(crate) fn stale_event(server: &ServerName) {
    counter!("callboard_stale_events_total", "server" => label(server)).increment(1);
}

/// A connection was lost for this cause, a word of a fixed set, and is tried again.
pub(crate) fn reconnecting(server: &ServerName, cause: &'static str) {
    counter!("callboard_reconnects_total", "server" => label(server), "cause" => cause).increment(1);
}

/// An attempt to connect has begun.
pub(crate) fn dialed(server: &ServerName) {
    counter!("callboard_dials_total", "server" => label(server)).increment(1);
}

/// How many tools of a server the catalog shows now.
pub(crate) fn catalog_tools(server: &ServerName, tools: usize) {
    gauge!("callboard_catalog_tools", "server" => label(server)).set(tools as f64);
}

/// How many attempts of a pool, `local` or `remote`, are under way now.
pub(crate) fn dial_permits_in_use(pool: &'static str, permits: usize) {
    gauge!("callboard_dial_permits_in_use", "pool" => pool).set(permits as f64);
}

/// How many servers are in a state, by the state's word, now.
pub(crate) fn servers(state: &'static str, servers: usize) {
    gauge!("callboard_servers", "state" => state).set(servers as f64);
}

fn label(server: &ServerName) -> String {
    server.as_str().to_owned()
}
