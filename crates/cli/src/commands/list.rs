//! `list`, without `--health`: what is configured. Connects to nothing.

use crate::app::App;
use crate::config::Config;
use crate::output::{CliError, Sheet, Tone};
use callboard::load::describe::{source_json, spec_json};
use callboard::{ServerSpec, Settings, StateView};
use serde_json::{Value, json};

/// Prints the entries that have their name.
pub(super) fn list(app: &App) -> Result<(), CliError> {
    let config = app.config();
    let entries = config.entries();
    if app.screen.is_json() {
        let rows = entries.iter().map(|entry| row(entry, &config.settings)).collect();
        app.screen.document(&document(config, rows))?;
        return config.something();
    }
    config.warn(&app.screen);
    if entries.is_empty() {
        config.something()?;
        app.screen.note("no servers are configured");
        app.screen.note("\nhint: `callboard config paths` shows where they are looked for");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = entries.iter().map(|entry| cells(entry)).collect();
    let sheet = Sheet::fitting(&app.screen, &["NAME", "TRANSPORT", "SCOPE", "STATE", "TARGET"], &rows);
    app.screen.result(&sheet.head())?;
    for (row, entry) in rows.iter().zip(&entries) {
        let tone = if entry.enabled { Tone::Good } else { Tone::Dim };
        app.screen
            .result(&sheet.lines(row, &[Some(Tone::Accent), None, Some(Tone::Dim), Some(tone), None]))?;
    }
    Ok(())
}

fn cells(entry: &ServerSpec) -> Vec<String> {
    let state = if entry.enabled { "enabled" } else { "disabled" };
    let name = entry.name.to_string();
    vec![name, entry.transport.kind().into(), entry.scope.as_str().into(), state.into(), target(entry)]
}

/// Command line or address, masked.
pub(super) fn target(entry: &ServerSpec) -> String {
    let spec = spec_json(entry);
    let transport = &spec["transport"];
    let words = [&transport["command"], &transport["url"], &transport["key"]];
    let first = words.into_iter().filter_map(Value::as_str);
    let args = transport["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    first.chain(args).map(quoted).collect::<Vec<String>>().join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,*?&~#".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// One server of the JSON shape, at rest.
pub(super) fn row(entry: &ServerSpec, settings: &Settings) -> Value {
    let retries = match entry.transport.is_local() {
        true => settings.connect_retries_stdio_max,
        false => settings.connect_retries_max,
    };
    let max_attempts = u32::try_from(retries).unwrap_or(u32::MAX).saturating_add(1);
    let state = match entry.enabled {
        true => StateView::Pending {
            phase: "dormant",
            attempt: 0,
            max_attempts,
            last_error: None,
            next_try_in_ms: None,
        },
        false => StateView::Disabled { by: "entry" },
    };
    json!({
        "name": entry.name.as_str(),
        "transport": entry.transport.kind(),
        "scope": entry.scope.as_str(),
        "source": source_json(&entry.source),
        "state": state,
        "warnings": entry.warnings,
    })
}

/// The whole JSON document of `list` and `status`.
pub(super) fn document(config: &Config, servers: Vec<Value>) -> Value {
    json!({
        "servers": servers,
        "blocked": [],
        "suppressed": [],
        "pending_approval": [],
        "problems": config.problems_json(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_can_be_pasted_and_show_no_secret() {
        let entry = ServerSpec::stdio("a", "npx", ["-y", "it's", "--token", "hunter22"]);
        assert_eq!(target(&entry), r"npx -y 'it'\''s' --token ***");
        let entry = ServerSpec::http("b", "https://h.example/mcp?key=hunter22");
        assert_eq!(target(&entry), "https://h.example/mcp?key=***");
    }
}
