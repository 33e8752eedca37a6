//! How a command fails: exit code, fact, hint, and the JSON form of all that.

use crate::output::{Screen, Scrubber, Tone, json_line, printable};
use callboard::{CallError, CloseReason};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;

/// The exit codes of `cli.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Usage, or a failure inside.
    Usage = 1,
    /// The configuration is invalid.
    Config = 2,
    /// Authentication required or refused.
    Auth = 3,
    /// Unreachable, timed out, crashed.
    Unreachable = 4,
    /// The tool answered with an error, or does not exist.
    Tool = 5,
    /// Blocked by policy or permission.
    Blocked = 6,
    /// Some of several servers are unhealthy.
    Unhealthy = 8,
    /// A limit was hit.
    Limit = 9,
    /// Cancelled.
    Cancelled = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The code of the one failure that is not told: whoever read our output has gone.
const OUTPUT_CLOSED: &str = "output-closed";

/// Why a command failed.
#[derive(Debug, Clone)]
pub(crate) struct CliError {
    exit: Exit,
    facts: Box<Facts>,
}

/// The JSON form; absent members are left out.
#[derive(Debug, Clone, Serialize)]
struct Facts {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_tail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl CliError {
    /// An error with its fact: a lower-case sentence without a full stop.
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> CliError {
        let facts = Facts {
            code,
            server: None,
            message: message.into(),
            hint: None,
            stderr_tail: None,
            http_status: None,
            retry_after_ms: None,
        };
        CliError { exit, facts: Box::new(facts) }
    }

    /// Something typed wrongly.
    pub(crate) fn usage(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Usage, "usage", message)
    }

    /// A failure that the user did not cause.
    pub(crate) fn internal(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Usage, "internal", message)
    }

    /// A signal, or the end of a person's patience.
    pub(crate) fn cancelled() -> CliError {
        CliError::new(Exit::Cancelled, "cancelled", "cancelled")
    }

    /// `--timeout` has passed.
    pub(crate) fn timed_out(limit: Duration) -> CliError {
        CliError::new(Exit::Unreachable, "timed-out", format!("the command took longer than {limit:?}"))
            .hint("give a larger --timeout")
    }

    /// A call, or another request, that failed.
    pub(crate) fn from_call(server: &str, error: &CallError) -> CliError {
        let exit = match error {
            CallError::Remote(_) | CallError::Unsupported(_) | CallError::InputNeeded(_) => Exit::Tool,
            CallError::QueueFull { .. } => Exit::Limit,
            CallError::Cancelled => Exit::Cancelled,
            _ if error.requires_auth() => Exit::Auth,
            _ => Exit::Unreachable,
        };
        let mut made = CliError::new(exit, error.code(), error.to_string()).server(server);
        made.facts.hint = error.hint();
        match error.reason() {
            Some(reason) => made.because(reason),
            None => made,
        }
    }

    fn because(mut self, reason: &CloseReason) -> CliError {
        self.facts.stderr_tail = reason.stderr_tail().map(str::to_owned);
        self.facts.http_status = reason.http_status();
        self.facts.retry_after_ms =
            reason.retry_after().map(|after| after.as_millis().try_into().unwrap_or(u64::MAX));
        if matches!(reason, CloseReason::InsufficientScope { .. }) {
            self.exit = Exit::Auth;
        }
        self
    }

    /// Names the server.
    pub(crate) fn server(mut self, server: impl Into<String>) -> CliError {
        self.facts.server = Some(server.into());
        self
    }

    /// Says what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.facts.hint = Some(hint.into());
        self
    }

    /// Says what to do unless that is known already.
    pub(crate) fn or_hint(mut self, hint: impl FnOnce() -> Option<String>) -> CliError {
        self.facts.hint = self.facts.hint.or_else(hint);
        self
    }

    /// The last of a child's stderr.
    pub(crate) fn stderr_tail(mut self, tail: Option<String>) -> CliError {
        self.facts.stderr_tail = tail.filter(|tail| !tail.is_empty());
        self
    }

    /// The HTTP status behind it.
    pub(crate) fn http_status(mut self, status: Option<u16>) -> CliError {
        self.facts.http_status = status;
        self
    }

    /// What to do, if that is known.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.facts.hint.as_deref()
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Prints it on stderr, without the secrets that the scrubber knows.
    pub(crate) fn print(mut self, screen: &Screen, scrubber: &Scrubber) {
        self.facts.message = scrubber.clean(&self.facts.message);
        self.facts.hint = self.facts.hint.map(|hint| scrubber.clean(&hint));
        self.facts.stderr_tail = self.facts.stderr_tail.map(|tail| scrubber.clean(&tail));
        if self.facts.code == OUTPUT_CLOSED {
            return;
        }
        if screen.is_json() {
            let document = serde_json::json!({ "error": self.facts });
            return screen.note(&json_line(&document));
        }
        screen.note(&format!(
            "{} {}",
            screen.paint_note(Tone::Bad, "error:"),
            printable(&self.facts.message)
        ));
        if let Some(tail) =
            self.facts.stderr_tail.filter(|tail| !self.facts.message.contains(tail.trim_end()))
        {
            screen.note("its last words on stderr:");
            tail.lines().for_each(|line| screen.note(&format!("  {}", printable(line))));
        }
        if let Some(hint) = self.facts.hint {
            screen.note(&format!("\n{} {}", screen.paint_note(Tone::Accent, "hint:"), printable(&hint)));
        }
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.facts.message)
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> CliError {
        match error.kind() {
            // Whoever read our output has seen enough; that is no failure worth a word.
            std::io::ErrorKind::BrokenPipe => {
                CliError::new(Exit::Cancelled, OUTPUT_CLOSED, "nobody reads the output")
            }
            _ => CliError::internal(format!("cannot write the output: {error}")),
        }
    }
}

/// What clap found wrong, in our own form: its first paragraph is the fact, its tips the hint.
pub(crate) fn usage_error(error: &clap::Error) -> CliError {
    let text = error.to_string();
    let mut fact = Vec::new();
    let mut tips = Vec::new();
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("tip: ") {
            Some(tip) => tips.push(tip.to_owned()),
            None if line.starts_with("Usage:") && tips.is_empty() => {
                tips.push(line.replacen("Usage:", "usage:", 1))
            }
            None if line.starts_with("Usage:")
                || line.starts_with("For more information")
                || line.is_empty() => {}
            None => fact.push(line.trim_start_matches("error: ")),
        }
    }
    let tips = match tips.is_empty() {
        true => "`--help` after the command says what may be given".to_owned(),
        false => tips.join("; "),
    };
    CliError::usage(fact.join(" ")).hint(tips)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_mistyped_command_names_the_nearest() {
        let error = crate::args::Cli::try_parse_from(["callboard", "statsu"]).expect_err("no such command");
        let error = usage_error(&error);
        assert_eq!(error.facts.message, "unrecognized subcommand 'statsu'");
        assert_eq!(error.facts.hint.as_deref(), Some("a similar subcommand exists: 'status'"));
        let error = crate::args::Cli::try_parse_from(["callboard", "get"]).expect_err("no name");
        let error = usage_error(&error);
        assert_eq!(error.facts.message, "the following required arguments were not provided: <NAME>");
        assert!(error.facts.hint.is_some_and(|hint| hint.starts_with("usage: callboard get")));
        let words = ["callboard", "events", "--until", "up"];
        let error = usage_error(&crate::args::Cli::try_parse_from(words).expect_err("no such state"));
        assert!(error.facts.message.contains("possible values"), "{error}");
        assert!(error.facts.hint.is_some_and(|hint| hint.contains("--help")));
    }

    #[test]
    fn the_json_form_has_no_absent_members() {
        let error = CliError::usage("x").server("s");
        let json = serde_json::to_string(&error.facts).expect("serialises");
        assert_eq!(json, r#"{"code":"usage","server":"s","message":"x"}"#);
    }
}
