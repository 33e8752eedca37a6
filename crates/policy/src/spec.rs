//! One server as configuration describes it, after its file's own dialect was read.

use callboard_protocol::secret::masked_url;
use callboard_protocol::{Era, Secret};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The host's name of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(Arc<str>);

impl ServerName {
    /// Wraps a name as it stands in configuration.
    pub fn new(name: impl AsRef<str>) -> ServerName {
        ServerName(name.as_ref().into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ServerName {
    fn from(name: &str) -> ServerName {
        ServerName::new(name)
    }
}

/// Where an entry comes from; later variants give way to earlier ones (behaviour profile S1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The exclusive file of an administrator.
    Enterprise,
    /// Limits set by a hosting platform.
    Managed,
    /// Added at run time, or named for this run by `--config`.
    Dynamic,
    /// Personal to one project.
    Local,
    /// Shared by a team in its repository.
    Project,
    /// Personal.
    User,
    /// Brought by a plugin.
    Plugin,
    /// Synchronised from a web page.
    Webapp,
    /// Inside the binary.
    Builtin,
}

impl Scope {
    /// The scope's word in files and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Enterprise => "enterprise",
            Scope::Managed => "managed",
            Scope::Dynamic => "dynamic",
            Scope::Local => "local",
            Scope::Project => "project",
            Scope::User => "user",
            Scope::Plugin => "plugin",
            Scope::Webapp => "webapp",
            Scope::Builtin => "builtin",
        }
    }
}

/// The file an entry was read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The file's path; none for entries made in code.
    pub file: Option<String>,
    /// The rules that gave the file its meaning, e.g. `generic`.
    pub dialect: String,
    /// The plugin that brought it.
    pub plugin: Option<String>,
}

/// The era that configuration fixes for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EraPin {
    /// Find out (protocol.md §1.2).
    #[default]
    Auto,
    /// Speak this era, without a probe.
    Pinned(Era),
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportSpec {
    /// A child process.
    Stdio(StdioSpec),
    /// An address.
    Http(HttpSpec),
    /// A server inside this process, handed over by the host.
    InProcess(InProcessSpec),
}

impl TransportSpec {
    /// The word for it in output, one of [`TransportKinds::WORDS`].
    pub fn kind(&self) -> &'static str {
        match self {
            TransportSpec::Stdio(_) => "stdio",
            TransportSpec::Http(http) => http.kind.as_str(),
            TransportSpec::InProcess(_) => "sdk",
        }
    }

    /// True for a handle to something that runs just now: no file can hold one, so it comes from the dynamic scope
    /// alone (behaviour profile 1.1).
    pub fn is_dynamic_only(&self) -> bool {
        match self {
            TransportSpec::InProcess(_) => true,
            TransportSpec::Http(http) => http.kind.is_ide(),
            TransportSpec::Stdio(_) => false,
        }
    }

    /// True for what runs on this machine and costs a process start, or nothing at all.
    pub fn is_local(&self) -> bool {
        match self {
            TransportSpec::Stdio(_) | TransportSpec::InProcess(_) => true,
            TransportSpec::Http(_) => false,
        }
    }
}

/// A set of the seven kinds of transport, such as those that may be dialed (`transport.allow`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportKinds(BTreeSet<&'static str>);

impl TransportKinds {
    /// The word of every kind.
    pub const WORDS: [&'static str; 7] = ["stdio", "http", "sse", "ws", "sdk", "sse-ide", "ws-ide"];

    /// The set of these words; none when one of them is no kind.
    pub fn of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<TransportKinds> {
        let known = |word: &str| TransportKinds::WORDS.into_iter().find(|known| *known == word);
        words.into_iter().map(known).collect::<Option<_>>().map(TransportKinds)
    }

    /// Is a kind, by its word, in the set?
    pub fn contains(&self, word: &str) -> bool {
        self.0.contains(word)
    }
}

impl Default for TransportKinds {
    /// All seven.
    fn default() -> TransportKinds {
        TransportKinds(TransportKinds::WORDS.into())
    }
}

impl fmt::Display for TransportKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().copied().collect();
        f.write_str(&words.join(", "))
    }
}

/// A child process and what it is given.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StdioSpec {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Positions in `args` whose text came from a secret-looking variable and is masked in output.
    pub args_secret: BTreeSet<usize>,
    /// Variables beside the base set; an empty value stays an empty value.
    pub env: BTreeMap<String, Secret>,
    /// Its working directory; the board's own when absent.
    pub cwd: Option<String>,
}

impl fmt::Debug for StdioSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioSpec")
            .field("command", &self.command)
            .field("args", &crate::redact::masked_args(self))
            .field("env", &self.env)
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// The transports that share an HTTP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemoteKind {
    /// Streamable HTTP.
    Streamable,
    /// Not named: streamable HTTP first, then whatever the server turns out to speak.
    #[default]
    Probe,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// WebSocket.
    WebSocket,
    /// HTTP+SSE to an editor that runs on this machine.
    SseIde,
    /// WebSocket to an editor that runs on this machine.
    WebSocketIde,
}

impl RemoteKind {
    /// The kind's word in files and output.
    pub fn as_str(self) -> &'static str {
        match self {
            RemoteKind::Streamable | RemoteKind::Probe => "http",
            RemoteKind::Sse => "sse",
            RemoteKind::WebSocket => "ws",
            RemoteKind::SseIde => "sse-ide",
            RemoteKind::WebSocketIde => "ws-ide",
        }
    }

    /// True for an editor, whose address and token are made anew each time it starts.
    pub fn is_ide(self) -> bool {
        match self {
            RemoteKind::SseIde | RemoteKind::WebSocketIde => true,
            RemoteKind::Streamable | RemoteKind::Probe | RemoteKind::Sse | RemoteKind::WebSocket => false,
        }
    }

    /// True for the kinds that begin with an upgrade to WebSocket.
    pub fn is_websocket(self) -> bool {
        match self {
            RemoteKind::WebSocket | RemoteKind::WebSocketIde => true,
            RemoteKind::Streamable | RemoteKind::Probe | RemoteKind::Sse | RemoteKind::SseIde => false,
        }
    }
}

/// What is known of the editor behind an entry of the kinds `sse-ide` and `ws-ide` (behaviour profile 1.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdeSpec {
    /// The editor's name for people (`ideName`).
    pub name: String,
    /// Where it runs, which decides how it writes paths (`ideRunningInWindows`).
    pub platform: IdePlatform,
    /// What it expects of whoever connects; it goes along as a header of its own.
    pub auth_token: Option<Secret>,
}

/// Where an editor runs, seen from this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IdePlatform {
    /// On the same system: its paths are ours.
    #[default]
    Here,
    /// On Windows, while this process may be inside its Linux subsystem.
    Windows {
        /// The distribution that this process runs in, as `WSL_DISTRO_NAME` says; without it only paths of
        /// Windows drives can be translated.
        distro: Option<String>,
    },
}

/// An address and what goes with each request.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HttpSpec {
    /// The endpoint.
    pub url: String,
    /// Headers, in the order of the file.
    pub headers: Vec<(String, Secret)>,
    /// Which of the transports.
    pub kind: RemoteKind,
    /// The editor, for the kinds `sse-ide` and `ws-ide`.
    pub ide: Option<IdeSpec>,
}

impl fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSpec")
            .field("url", &masked_url(&self.url))
            .field("headers", &self.headers)
            .field("kind", &self.kind)
            .field("ide", &self.ide)
            .finish()
    }
}

/// A server inside this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InProcessSpec {
    /// The key under which the host handed it over.
    pub key: String,
}

/// What an entry sets for its own server alone (behaviour profile §15, per-server keys).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// Limit of a connect, in milliseconds.
    pub connect_timeout_ms: Option<u64>,
    /// Absolute limit of a tool call, in milliseconds.
    pub call_timeout_ms: Option<u64>,
    /// Calls in flight.
    pub in_flight_max: Option<usize>,
    /// The board waits for this server at start.
    pub required: bool,
    /// Its annotations are believed.
    pub trusted: bool,
    /// Connected at start, never deferred.
    pub always_load: bool,
    /// The era it is spoken to in.
    pub protocol_era: EraPin,
}

/// One server as configuration describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its name.
    pub name: ServerName,
    /// Which layer it belongs to.
    pub scope: Scope,
    /// Which file it is from.
    pub source: Source,
    /// How it is reached.
    pub transport: TransportSpec,
    /// False when the entry switches itself off.
    pub enabled: bool,
    /// Settings of its own.
    pub options: ServerOptions,
    /// Oddities of the entry that do not stop it.
    pub warnings: Vec<String>,
}

impl ServerSpec {
    /// An enabled entry made in code, in the dynamic scope.
    pub fn new(name: impl AsRef<str>, transport: TransportSpec) -> ServerSpec {
        ServerSpec {
            name: ServerName::new(name),
            scope: Scope::Dynamic,
            source: Source::default(),
            transport,
            enabled: true,
            options: ServerOptions::default(),
            warnings: Vec::new(),
        }
    }

    /// A child process.
    pub fn stdio(
        name: impl AsRef<str>,
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> ServerSpec {
        let args = args.into_iter().map(Into::into).collect();
        ServerSpec::new(
            name,
            TransportSpec::Stdio(StdioSpec { command: command.into(), args, ..StdioSpec::default() }),
        )
    }

    /// A streamable HTTP endpoint.
    pub fn http(name: impl AsRef<str>, url: impl Into<String>) -> ServerSpec {
        let kind = RemoteKind::Streamable;
        ServerSpec::new(name, TransportSpec::Http(HttpSpec { url: url.into(), kind, ..HttpSpec::default() }))
    }

    /// A server inside this process, registered with the board under `key`.
    pub fn in_process(name: impl AsRef<str>, key: impl Into<String>) -> ServerSpec {
        ServerSpec::new(name, TransportSpec::InProcess(InProcessSpec { key: key.into() }))
    }
}
