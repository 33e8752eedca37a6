//! An event in words.

use crate::output::{Tone, count};
use callboard::EventKind;

/// What happened, and how grave it is.
pub(crate) fn words(event: &EventKind) -> (Tone, String) {
    match event {
        EventKind::StateChanged { state, phase, cause } => {
            let tone = match *state {
                "connected" => Tone::Good,
                "failed" => Tone::Bad,
                "disabled" => Tone::Dim,
                _ => Tone::Warn,
            };
            let phase = phase.map(|phase| format!(" ({phase})")).unwrap_or_default();
            (tone, format!("{state}{phase}{}", because(cause.as_deref())))
        }
        EventKind::LinkLost { cause, signal, attempt, next_try_in_ms } => {
            let signal = signal.map(|signal| format!(" [{signal}]")).unwrap_or_default();
            let next = match next_try_in_ms {
                Some(ms) => format!("; attempt {attempt} failed, the next one in {}", seconds(*ms)),
                None => String::new(),
            };
            (Tone::Warn, format!("link lost{signal}: {cause}{next}"))
        }
        EventKind::CatalogChanged { list, added, removed, changed } => {
            let parts = [("new", added), ("gone", removed), ("changed", changed)];
            let parts = parts.iter().filter(|(_, names)| !names.is_empty());
            let parts: Vec<String> =
                parts.map(|(word, names)| format!("{word}: {}", some_of(names))).collect();
            (Tone::Warn, format!("{list} changed; {}", parts.join("; ")))
        }
        EventKind::StaleDropped { of_generation, what } => {
            (Tone::Dim, format!("ignored what came late from generation {of_generation}: {what}"))
        }
        EventKind::ServerAdded => (Tone::Good, "server added".into()),
        EventKind::ServerReplaced => (Tone::Warn, "entry changed; connects anew".into()),
        EventKind::ServerRemoved => (Tone::Warn, "server removed".into()),
        EventKind::ListFetched { list, items, problems, .. } => {
            let problems = match problems {
                0 => String::new(),
                n => format!(", {n} left out"),
            };
            (Tone::Dim, format!("{list} listed: {items}{problems}"))
        }
        EventKind::ListFailed { list, cause } => (Tone::Warn, format!("{list} not listed: {cause}")),
        EventKind::ResourceUpdated { uri } => (Tone::Dim, format!("resource updated: {uri}")),
        EventKind::ServerLog { level, data } => (level_tone(level), format!("log {level}: {data}")),
        EventKind::Strikes { strikes, cause } => {
            (Tone::Warn, format!("{}: {cause}", count(*strikes as usize, "strike")))
        }
        EventKind::SlowCall { tool, elapsed_ms } => {
            (Tone::Warn, format!("the call of {tool} has taken {} so far", seconds(*elapsed_ms)))
        }
        EventKind::QueueHeld { for_ms, status } => {
            (Tone::Warn, format!("asked to be left alone for {} (status {status})", seconds(*for_ms)))
        }
        EventKind::ActorPanicked { restarted: true } => {
            (Tone::Bad, "an actor panicked and was set up again".into())
        }
        EventKind::ActorPanicked { restarted: false } => {
            (Tone::Bad, "an actor panicked and was given up".into())
        }
        // The enum may grow; its own words will do then.
        other => (Tone::Dim, serde_json::to_string(other).unwrap_or_default()),
    }
}

/// The colour of a level of the logging capability.
pub(crate) fn level_tone(level: &str) -> Tone {
    match level {
        "debug" | "info" => Tone::Dim,
        "notice" | "warning" => Tone::Warn,
        _ => Tone::Bad,
    }
}

/// Milliseconds as a person says them.
pub(crate) fn seconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        _ => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
    }
}

fn because(cause: Option<&str>) -> String {
    cause.map(|cause| format!(": {cause}")).unwrap_or_default()
}

/// Names that are told before the rest is a number.
const NAMES_TOLD: usize = 8;

fn some_of(names: &[String]) -> String {
    let told = names.iter().take(NAMES_TOLD).map(String::as_str).collect::<Vec<&str>>().join(", ");
    match names.len().saturating_sub(NAMES_TOLD) {
        0 => told,
        more => format!("{told} and {}", count(more, "other")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_in_words() {
        let lost = EventKind::LinkLost {
            cause: "the server ended (exit code 1)".into(),
            signal: None,
            attempt: 2,
            next_try_in_ms: Some(1_500),
        };
        let names = (0..10).map(|n| format!("t{n}")).collect();
        let changed = EventKind::CatalogChanged {
            list: "tools",
            added: names,
            removed: vec!["x".into()],
            changed: vec![],
        };
        for (event, expected) in [
            (lost, "link lost: the server ended (exit code 1); attempt 2 failed, the next one in 1.5 s"),
            (changed, "tools changed; new: t0, t1, t2, t3, t4, t5, t6, t7 and 2 others; gone: x"),
            (
                EventKind::SlowCall { tool: "t".into(), elapsed_ms: 61_000 },
                "the call of t has taken 1 min 1 s so far",
            ),
        ] {
            assert_eq!(words(&event).1, expected);
        }
    }
}
