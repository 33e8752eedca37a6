//! One enum for everything that happens: the source of logs, metrics, the command line and tests.

use serde::Serialize;

/// Something that happened to one server of a board.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoardEvent {
    /// Since the board was built, in milliseconds.
    pub at_ms: u64,
    /// The server.
    pub server: String,
    /// Its generation.
    pub generation: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EventKind {
    /// The state, or its phase, is another one now.
    StateChanged {
        /// The state's word.
        state: &'static str,
        /// The phase of a pending server.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'static str>,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// A connection, or an attempt to make one, has ended.
    LinkLost {
        /// Why.
        cause: String,
        /// The terminal signal behind it (behaviour profile §4), if it was one.
        #[serde(skip_serializing_if = "Option::is_none")]
        signal: Option<&'static str>,
        /// Attempts made since the last good connection.
        attempt: u32,
        /// When the next one is due, in milliseconds from now; none when none is planned.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_try_in_ms: Option<u64>,
    },
    /// A list that was known is another one after it was fetched again.
    CatalogChanged {
        /// `tools`.
        list: &'static str,
        /// Names that are new; at most 100.
        added: Vec<String>,
        /// Names that are gone; at most 100.
        removed: Vec<String>,
        /// Names whose definition is another one; at most 100.
        changed: Vec<String>,
    },
    /// Something of an earlier generation came late and was ignored.
    StaleDropped {
        /// Of which one.
        of_generation: u64,
        /// What it was.
        what: &'static str,
    },
    /// The board has a new server.
    ServerAdded,
    /// The server's entry is another one now: it is connected anew, and what is under way on the old connection
    /// may still end.
    ServerReplaced,
    /// The board does not have the server any more.
    ServerRemoved,
    /// A list was fetched.
    ListFetched {
        /// `tools`, `resources`, …
        list: &'static str,
        /// Its items.
        items: usize,
        /// Items that were left out.
        problems: usize,
        /// Names that are new.
        added: Vec<String>,
        /// Names that are gone.
        removed: Vec<String>,
    },
    /// A list could not be fetched; the last good one stays, marked stale.
    ListFailed {
        /// `tools`, `resources`, …
        list: &'static str,
        /// Why.
        cause: String,
    },
    /// A subscribed resource changed.
    ResourceUpdated {
        /// Its address.
        uri: String,
    },
    /// A log message of the server. Text of a server is data.
    ServerLog {
        /// The level it gave.
        level: String,
        /// The raw data, bounded.
        data: String,
    },
    /// A request met a terminal signal, which counts against the connection.
    Strikes {
        /// How many in a row.
        strikes: u32,
        /// The signal and what came with it; and the rule, when the connection was given up for it.
        cause: String,
    },
    /// A tool call has been under way for longer than `call.slow_after_ms`.
    SlowCall {
        /// The tool.
        tool: String,
        /// For how long, in milliseconds.
        elapsed_ms: u64,
    },
    /// The server asked to be left alone: no request leaves until then.
    QueueHeld {
        /// For how long, in milliseconds.
        for_ms: u64,
        /// The HTTP status that asked for it.
        status: u16,
    },
    /// An actor panicked and was set up again, or given up.
    ActorPanicked {
        /// Its budget allowed another start.
        restarted: bool,
    },
}
