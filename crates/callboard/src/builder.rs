//! Putting a board together. Everything is checked once, in [`BoardBuilder::build`], and all problems are named.

use crate::board::Board;
use callboard_core::dialect::ClientIdentity;
use callboard_core::environment::Environment;
use callboard_core::handler::{Elicitation, Handlers, Root, Sampling};
use callboard_core::port::{Dialer, EraMemory, ServerSpec, TransportSpec};
use callboard_core::settings::Settings;
use callboard_policy::{AdmissionRules, admit_by};
use callboard_protocol::message::Implementation;
use callboard_transports::{InProcessServers, Transports};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;

/// Why a board cannot be built: every problem that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError {
    /// One sentence each.
    pub problems: Vec<String>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the board cannot be built: {}", self.problems.join("; "))
    }
}

impl std::error::Error for BuildError {}

/// Collects what a board is made of.
#[derive(Default)]
pub struct BoardBuilder {
    settings: Settings,
    servers: Vec<ServerSpec>,
    handlers: Handlers,
    identity: Option<ClientIdentity>,
    in_process: InProcessServers,
    dialer: Option<Arc<dyn Dialer>>,
    eras: Option<Arc<dyn EraMemory>>,
    seed: Option<u64>,
}

impl BoardBuilder {
    /// Replaces every number and switch.
    pub fn settings(mut self, settings: Settings) -> BoardBuilder {
        self.settings = settings;
        self
    }

    /// Adds a server.
    pub fn server(mut self, server: ServerSpec) -> BoardBuilder {
        self.servers.push(server);
        self
    }

    /// Adds servers, e.g. the entries of [`crate::load::load`]; of equal names the nearest scope wins.
    pub fn servers(mut self, servers: impl IntoIterator<Item = ServerSpec>) -> BoardBuilder {
        self.servers.extend(servers);
        self
    }

    /// Asks a person on behalf of servers. Without it elicitation is not offered to them.
    pub fn elicitation(mut self, elicitation: Arc<dyn Elicitation>) -> BoardBuilder {
        self.handlers.elicitation = Some(elicitation);
        self
    }

    /// Asks a model on behalf of servers. Without it sampling is not offered to them.
    pub fn sampling(mut self, sampling: Arc<dyn Sampling>) -> BoardBuilder {
        self.handlers.sampling = Some(sampling);
        self
    }

    /// Folders that servers may work in. Without them roots are not offered.
    pub fn roots(mut self, roots: Vec<Root>) -> BoardBuilder {
        self.handlers.roots = Some(roots);
        self
    }

    /// What servers are told of the client; `callboard` and its version by default.
    pub fn client_info(mut self, name: impl Into<String>, version: impl Into<String>) -> BoardBuilder {
        self.identity =
            Some(ClientIdentity { info: Implementation { name: name.into(), version: version.into() } });
        self
    }

    /// Hands over a server that lives in this process, under the key that a [`ServerSpec::in_process`] names.
    /// Each connect calls `connect` once for the client's end of a new stream of newline-delimited JSON-RPC,
    /// such as one half of [`tokio::io::duplex`].
    pub fn in_process<F, Opening, S>(self, key: impl Into<String>, connect: F) -> BoardBuilder
    where
        F: Fn() -> Opening + Send + Sync + 'static,
        Opening: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.in_process.register(key, connect);
        self
    }

    /// Opens connections in another way than over the real transports, e.g. in a simulated world.
    pub fn dialer(mut self, dialer: Arc<dyn Dialer>) -> BoardBuilder {
        self.dialer = Some(dialer);
        self
    }

    /// Remembers eras elsewhere than in this process.
    pub fn era_memory(mut self, eras: Arc<dyn EraMemory>) -> BoardBuilder {
        self.eras = Some(eras);
        self
    }

    /// Fixes what all chance comes from, for runs that are to be repeated; drawn from the system by default.
    pub fn seed(mut self, seed: u64) -> BoardBuilder {
        self.seed = Some(seed);
        self
    }

    /// Builds the board inside the current tokio runtime, on which its IO will run. Connects to nothing but
    /// servers marked `always_load` or `required`, unless `startup.mode` says so.
    ///
    /// # Errors
    /// Every problem of the settings and entries given in code, and a system that gives no thread.
    pub async fn build(self) -> Result<Board, BuildError> {
        let mut problems = problems(&self.settings, &self.servers);
        let runtime = Handle::try_current();
        if runtime.is_err() {
            problems.push("build must be called inside a tokio runtime".into());
        }
        let (Ok(runtime), true) = (runtime, problems.is_empty()) else { return Err(BuildError { problems }) };
        let dialer = self.dialer.unwrap_or_else(|| Arc::new(Transports::new(self.in_process)));
        let rules = AdmissionRules { transports: self.settings.transport_allow.clone() };
        let admission = admit_by(self.servers, &rules);
        let mut env = Environment::new(dialer, self.settings, runtime);
        env.handlers = self.handlers;
        env.identity = self.identity.unwrap_or_default();
        env.eras = self.eras.unwrap_or(env.eras);
        env.seed = self.seed.unwrap_or_else(drawn_seed);
        Board::start(env, admission).await.map_err(|problem| BuildError { problems: vec![problem] })
    }
}

/// A seed of the system's own.
fn drawn_seed() -> u64 {
    #[expect(
        clippy::disallowed_types,
        reason = "its keys are the system's randomness; nothing is ordered by them"
    )]
    let state = std::collections::hash_map::RandomState::new();
    state.build_hasher().finish()
}

fn problems(settings: &Settings, servers: &[ServerSpec]) -> Vec<String> {
    let mut problems = Vec::new();
    let positive = [
        ("connect.timeout_ms", !settings.connect_timeout.is_zero()),
        ("connect.local_max", settings.connect_local_max > 0),
        ("connect.remote_max", settings.connect_remote_max > 0),
        ("call.in_flight_max", settings.call_in_flight_max > 0),
        ("http.posts_max", settings.http_posts_max > 0),
        ("catalog.pages_max", settings.catalog_pages_max > 0),
    ];
    problems
        .extend(positive.iter().filter(|(_, ok)| !ok).map(|(key, _)| format!("{key} must be more than 0")));
    if !(0.0..=1.0).contains(&settings.reconnect_jitter) {
        problems.push("reconnect.jitter must be from 0 to 1".into());
    }
    if settings.wire_frame_bytes_max < FRAME_BYTES_LEAST {
        problems.push(format!("wire.frame_bytes_max must be at least {FRAME_BYTES_LEAST}"));
    }
    if !(NAME_CHARS_LEAST..=NAME_CHARS_MOST).contains(&settings.names_chars_max) {
        problems.push(format!("names.chars_max must be between {NAME_CHARS_LEAST} and {NAME_CHARS_MOST}"));
    }
    problems.extend(servers.iter().filter_map(problem));
    problems
}

/// Why an entry given in code cannot be used, if it cannot.
pub(crate) fn problem(server: &ServerSpec) -> Option<String> {
    let name = &server.name;
    if name.as_str().trim().is_empty() {
        return Some("a server has an empty name".into());
    }
    match &server.transport {
        TransportSpec::Stdio(stdio) if stdio.command.trim().is_empty() => {
            Some(format!("server {name} has an empty command"))
        }
        TransportSpec::Http(http) if url::Url::parse(&http.url).is_err() => {
            Some(format!("server {name} has no valid url"))
        }
        TransportSpec::Stdio(_) | TransportSpec::Http(_) | TransportSpec::InProcess(_) => None,
    }
}

/// Smallest limit of a message that any server could live with, in bytes.
const FRAME_BYTES_LEAST: usize = 1_024;
/// Shortest names that can still be told apart, in characters.
const NAME_CHARS_LEAST: usize = 24;
/// Longest names that any model takes, in characters.
const NAME_CHARS_MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_problem_is_named_at_once() {
        let settings = Settings {
            connect_local_max: 0,
            names_chars_max: 3,
            reconnect_jitter: 1.5,
            ..Settings::default()
        };
        let builder = Board::builder().settings(settings).server(ServerSpec::http("h", "nonsense"));
        let error = builder.server(ServerSpec::stdio("s", "", [""; 0])).build().await.err().expect("refused");
        assert_eq!(error.problems.len(), 5, "{error}");
    }
}
