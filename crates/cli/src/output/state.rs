//! A server's state in words.

use crate::output::Tone;
use callboard::StateView;

/// How a server is, for exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// In use.
    Well,
    /// Switched off, which is nobody's fault.
    Off,
    /// Not in use, but should be.
    Ill,
}

/// Sums up a state.
pub(crate) fn health(state: &StateView) -> Health {
    match state {
        StateView::Connected { .. } => Health::Well,
        StateView::Disabled { .. } => Health::Off,
        StateView::Pending { .. } | StateView::Failed { .. } | StateView::NeedsAuth { .. } => Health::Ill,
    }
}

/// The colour of a state.
pub(crate) fn tone(state: &StateView) -> Tone {
    match state {
        StateView::Connected { .. } => Tone::Good,
        StateView::Disabled { .. } => Tone::Dim,
        StateView::Pending { .. } | StateView::NeedsAuth { .. } => Tone::Warn,
        StateView::Failed { .. } => Tone::Bad,
    }
}

/// What else there is to say of a state, in a line or a few.
pub(crate) fn detail(state: &StateView) -> String {
    match state {
        StateView::Connected { era, server_info, tools, tools_state, .. } => {
            let name = match (server_info.name.as_str(), server_info.version.as_str()) {
                ("", _) => "unnamed".to_owned(),
                (name, "") => name.to_owned(),
                (name, version) => format!("{name} {version}"),
            };
            let stale = if matches!(*tools_state, "stale" | "failed") { ", list not fresh" } else { "" };
            format!("{name} · {} · protocol {era}{stale}", count(*tools, "tool"))
        }
        StateView::Pending { phase, attempt, max_attempts, last_error, .. } => {
            let attempt =
                if *attempt > 1 { format!(" (attempt {attempt} of {max_attempts})") } else { String::new() };
            let error = last_error.as_ref().map(|error| format!("; last error: {error}")).unwrap_or_default();
            format!("{}{attempt}{error}", phase_text(phase))
        }
        StateView::Failed { error, stderr_tail, hint, .. } => {
            let mut text = error.trim_end().to_owned();
            if let Some(tail) = stderr_tail.as_deref().map(str::trim_end).filter(|tail| !text.contains(tail))
            {
                text = format!("{text}; its last words on stderr:\n{tail}");
            }
            hint.as_ref().map(|hint| format!("{text}\nhint: {hint}")).unwrap_or(text)
        }
        StateView::NeedsAuth { how } => how.clone(),
        StateView::Disabled { by } => format!("switched off by its {by}").replace("its user", "the user"),
    }
}

fn phase_text(phase: &str) -> &str {
    match phase {
        "dormant" => "not asked for yet",
        "queued" => "waits for its turn to start",
        "dialing" => "starting",
        "handshaking" => "started, but has not answered the handshake yet",
        "backing-off" => "waits before another attempt",
        other => other,
    }
}

/// `1 tool`, `2 tools`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
