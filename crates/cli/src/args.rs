//! What may be typed, as `cli.md` has it.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Connects to MCP servers, shows what they offer and calls it.
#[derive(Debug, Parser)]
#[command(name = "callboard", version, disable_help_subcommand = true, arg_required_else_help = true)]
#[command(after_help = "Start with `callboard demo`, or `callboard status` where servers are configured.")]
pub(crate) struct Cli {
    /// What goes for every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Global {
    /// Print JSON: one document, or one object a line
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Read exactly this file instead of looking for files; may be repeated
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Vec<PathBuf>,
    /// Act as if started in this folder
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) cwd: Option<PathBuf>,
    /// Bound the whole command: 500ms, 10s, 2m
    #[arg(long, global = true, value_name = "DUR", value_parser = duration, help_heading = "Global options")]
    pub(crate) timeout: Option<Duration>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the configured servers; connects to nothing without --health
    List(ListArgs),
    /// Show one server: its entry and its state
    Get(NameArgs),
    /// Connect to all servers and report
    Status(StatusArgs),
    /// Connect to a server and explain how it is: configuration, policy, each attempt, what to do
    Why(NameArgs),
    /// Connect anew, and report
    ///
    /// Nothing runs beside this command, so it is a test of the connection: each server is connected from nothing,
    /// whatever was known of it, and closed again.
    Reconnect(NamesArgs),
    /// Connect to a server and print its stderr and its log messages
    Logs(LogsArgs),
    /// Connect to all servers, or the named ones, and print what happens, until Ctrl-C
    Events(EventsArgs),
    /// List the tools of all servers, or of one
    Tools(ToolsArgs),
    /// Call a tool
    Call(CallArgs),
    /// List the resources of all servers, or of one
    Resources(OptionalNameArgs),
    /// Read a resource
    Read(ReadArgs),
    /// List the prompts of all servers, or of one
    Prompts(OptionalNameArgs),
    /// Get a prompt
    Prompt(PromptArgs),
    /// Show and check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Be an MCP server on stdin and stdout: time, memory, files DIR
    Builtin(BuiltinArgs),
    /// See it work with three built-in servers: no network, no configuration
    Demo,
    /// Play a scenario with the configured servers, simulated: what happens when they flap, hang or die
    Sim(SimArgs),
    /// Check the surroundings, the configuration and every server
    Doctor,
    /// Print a completion script
    Completion(CompletionArgs),
    /// Print the version
    Version,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Connect to every server and say how it is
    #[arg(long)]
    pub(crate) health: bool,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Go on and show each change, until Ctrl-C
    ///
    /// On a terminal the table is drawn anew; elsewhere each change is a line, with --json the whole status.
    #[arg(long)]
    pub(crate) watch: bool,
    /// What commands that go on have in common.
    #[command(flatten)]
    pub(crate) live: LiveArgs,
}

/// What commands that go on have in common. They read the configuration again when a file of it changes, and on
/// SIGHUP.
#[derive(Debug, Clone, Args)]
pub(crate) struct LiveArgs {
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics; loopback when only a port is given
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = crate::metrics::address)]
    pub(crate) metrics_listen: Option<SocketAddr>,
}

/// Names of servers.
#[derive(Debug, Args)]
pub(crate) struct NamesArgs {
    /// The servers
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Only these servers
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// End, with exit code 0, as soon as all of them are in this state; with --timeout, exit code 4 if they are not
    #[arg(long, value_name = "STATE")]
    pub(crate) until: Option<StateWord>,
    /// What commands that go on have in common.
    #[command(flatten)]
    pub(crate) live: LiveArgs,
}

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The server
    pub(crate) name: String,
    /// Go on, until Ctrl-C; without it the command ends once the server is connected, or is not going to be
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Ask the server for log messages of this level and above, and print no others
    #[arg(long, value_name = "LEVEL")]
    pub(crate) level: Option<LevelWord>,
    /// What commands that go on have in common.
    #[command(flatten)]
    pub(crate) live: LiveArgs,
}

/// A state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateWord {
    Pending,
    Connected,
    Failed,
    NeedsAuth,
    Disabled,
}

impl StateWord {
    /// The word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            StateWord::Pending => "pending",
            StateWord::Connected => "connected",
            StateWord::Failed => "failed",
            StateWord::NeedsAuth => "needs-auth",
            StateWord::Disabled => "disabled",
        }
    }
}

/// A level of the logging capability, the least severe first (RFC 5424 §6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LevelWord {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LevelWord {
    /// The word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            LevelWord::Debug => "debug",
            LevelWord::Info => "info",
            LevelWord::Notice => "notice",
            LevelWord::Warning => "warning",
            LevelWord::Error => "error",
            LevelWord::Critical => "critical",
            LevelWord::Alert => "alert",
            LevelWord::Emergency => "emergency",
        }
    }

    /// The level of this word.
    pub(crate) fn of(word: &str) -> Option<LevelWord> {
        LevelWord::value_variants().iter().copied().find(|level| level.as_str() == word)
    }
}

/// The name of a server.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The server
    pub(crate) name: String,
}

/// The name of a server, or all of them.
#[derive(Debug, Args)]
pub(crate) struct OptionalNameArgs {
    /// Only this server
    pub(crate) name: Option<String>,
}

/// Arguments of `tools`.
#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Only this server
    pub(crate) name: Option<String>,
    /// Show each tool's whole description and arguments
    #[arg(long)]
    pub(crate) schema: bool,
}

/// Arguments of `call`.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// SERVER/TOOL, SERVER.TOOL or mcp__server__tool
    pub(crate) tool: String,
    /// key=value, typed by the tool's schema (n=3 on=true tags='["a"]'), or - to read a JSON object from stdin
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// All arguments as one JSON object, or - to read it from stdin
    #[arg(long, value_name = "JSON", conflicts_with = "pairs")]
    pub(crate) args: Option<String>,
    /// Write images, sounds and files of the result into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
}

/// Arguments of `read`.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// The server
    pub(crate) server: String,
    /// The address of the resource
    pub(crate) uri: String,
    /// Write binary contents into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
}

/// Arguments of `prompt`.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// SERVER/PROMPT
    pub(crate) prompt: String,
    /// key=value
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
}

/// The commands under `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every place looked at, found or not
    Paths,
    /// Every entry as it was understood, secrets masked
    Show(ShowArgs),
    /// Check files; exit 2 when something is wrong
    Check(CheckArgs),
}

/// Arguments of `config show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Only the entries that count (the default)
    #[arg(long, conflicts_with = "layers")]
    pub(crate) effective: bool,
    /// All entries, those that lost their name too
    #[arg(long)]
    pub(crate) layers: bool,
}

/// Arguments of `config check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Files to check instead of those that would be read
    pub(crate) files: Vec<PathBuf>,
}

/// Arguments of `builtin`.
#[derive(Debug, Args)]
pub(crate) struct BuiltinArgs {
    /// time, memory or files
    pub(crate) name: String,
    /// What that server takes, e.g. a folder
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}

/// Arguments of `sim`.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// The scenario: a TOML file that says what goes wrong with which server
    pub(crate) file: PathBuf,
    /// Draw everything from this seed instead of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// Write pictures and sums into this folder: report.html and report.json
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Simulate so many hours instead of the file's duration_ms; 0.5 is half an hour
    #[arg(long, value_name = "H", value_parser = hours)]
    pub(crate) hours: Option<f64>,
}

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Reads a number of hours that a world can live.
fn hours(text: &str) -> Result<f64, String> {
    let hours: Option<f64> = text.parse().ok().filter(|hours| (0.001..=720.0).contains(hours));
    hours.ok_or_else(|| format!("{text:?} is no number of hours between 0.001 and 720"))
}

/// Reads `500ms`, `10s`, `2m`, `1h`, or a plain number of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("{text:?} is no duration; write 500ms, 10s or 2m");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| expected())?;
    let seconds = match unit.trim() {
        "ms" => number / 1_000.0,
        "s" | "" => number,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        _ => return Err(expected()),
    };
    Duration::try_from_secs_f64(seconds).ok().filter(|d| !d.is_zero()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations() {
        for (text, ms) in [("500ms", 500), ("10s", 10_000), ("2m", 120_000), ("1.5s", 1_500), ("3", 3_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "0s", "-1s", "1d", "ten", "1e9999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
