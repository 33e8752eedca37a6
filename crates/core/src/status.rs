//! The serialised view of a board: own structs, not the runtime's types (cli.md, JSON shapes).

use serde::Serialize;

/// Everything a person may want to know of a board's servers, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StatusSnapshot {
    /// The servers, by name.
    pub servers: Vec<ServerStatus>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// `stdio`, `http`, `sse`, `ws` or `sdk`.
    pub transport: String,
    /// The layer its entry belongs to.
    pub scope: String,
    /// The file its entry is from.
    pub source: SourceView,
    /// What it is doing.
    pub state: StateView,
    /// How many times it was connected or tried.
    pub generation: u64,
    /// Its calls and what keeps them back.
    pub calls: CallsView,
    /// Oddities of its entry or its lists that do not stop it.
    pub warnings: Vec<String>,
}

/// The calls of one server at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CallsView {
    /// Calls that hold a place.
    pub in_flight: usize,
    /// Requests that wait: for a place, or until the server may be asked again.
    pub queued: usize,
    /// Places (`call.in_flight_max`).
    pub in_flight_max: usize,
    /// For how long the server has still asked to be left alone, in milliseconds.
    pub held_for_ms: Option<u64>,
    /// Terminal failures in a row of the present connection.
    pub strikes: u32,
}

/// Where an entry is from.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SourceView {
    /// The file, if any.
    pub file: Option<String>,
    /// The rules that gave it its meaning.
    pub dialect: String,
    /// The plugin that brought it.
    pub plugin: Option<String>,
}

/// One of the five states, with that state's own data.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum StateView {
    /// Not connected, but may become so.
    Pending {
        /// `dormant`, `queued`, `dialing`, `handshaking` or `backing-off`.
        phase: &'static str,
        /// Attempts made since the last good connection.
        attempt: u32,
        /// Attempts that may be made.
        max_attempts: u32,
        /// Why the last one failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_error: Option<String>,
        /// When the next one is due, in milliseconds from now.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_try_in_ms: Option<u64>,
    },
    /// In use.
    Connected {
        /// For how long, in milliseconds.
        since_ms: u64,
        /// The revision spoken.
        era: String,
        /// What the server calls itself.
        server_info: InfoView,
        /// Tools in its catalog.
        tools: usize,
        /// `fresh`, `stale`, `failed` or `none`.
        tools_state: &'static str,
    },
    /// Given up.
    Failed {
        /// Why.
        error: String,
        /// `unreachable`, `crashed`, `crash-loop`, `protocol`, `configuration`…
        class: &'static str,
        /// Attempts made.
        attempts: u32,
        /// The last of the child's stderr.
        #[serde(skip_serializing_if = "Option::is_none")]
        stderr_tail: Option<String>,
        /// The HTTP status behind it.
        #[serde(skip_serializing_if = "Option::is_none")]
        http_status: Option<u16>,
        /// What to do.
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// When it is tried again by itself, in milliseconds from now.
        #[serde(skip_serializing_if = "Option::is_none")]
        slow_retry_in_ms: Option<u64>,
    },
    /// Waits for a login.
    NeedsAuth {
        /// What to do.
        how: String,
    },
    /// Switched off.
    Disabled {
        /// By whom: `entry` or `user`; `removed` when a kept handle's server is not on the board any more.
        by: &'static str,
    },
}

impl StateView {
    /// The state's word.
    pub fn word(&self) -> &'static str {
        match self {
            StateView::Pending { .. } => "pending",
            StateView::Connected { .. } => "connected",
            StateView::Failed { .. } => "failed",
            StateView::NeedsAuth { .. } => "needs-auth",
            StateView::Disabled { .. } => "disabled",
        }
    }

    /// Neither connected nor on the way there.
    pub fn is_settled(&self) -> bool {
        match self {
            StateView::Pending { phase, .. } => *phase == "dormant",
            StateView::Connected { .. }
            | StateView::Failed { .. }
            | StateView::NeedsAuth { .. }
            | StateView::Disabled { .. } => true,
        }
    }
}

/// Name and version, as a server gives them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InfoView {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}
