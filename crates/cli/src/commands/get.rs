//! `get NAME`: one entry as it was understood, and how its server is.

use super::gather::single;
use super::list::{row, target};
use super::status::{connect_alone, of};
use crate::app::App;
use crate::output::{CliError, Health, detail, health, printable, tone};
use callboard::load::describe::spec_json;
use callboard::{ServerSpec, StateView};
use serde_json::Value;

/// Connects this server alone, and prints what is known of it.
pub(super) async fn get(app: &App, name: &str) -> Result<(), CliError> {
    let config = app.config();
    let entry = config.entry(name)?;
    if !entry.enabled {
        return print(app, entry, row(entry, &config.settings), &StateView::Disabled { by: "entry" }, None);
    }
    let board = app.board(vec![config.server(name)?]).await?;
    let server = board.server(name).ok_or_else(|| CliError::internal("the board has no such server"))?;
    let error = connect_alone(app, &server).await;
    let state = server.state();
    let snapshot = board.status();
    let shown = match of(&snapshot.servers, name) {
        Some(status) => serde_json::to_value(status).unwrap_or_default(),
        None => row(entry, &config.settings),
    };
    print(app, entry, shown, &state, server.instructions())?;
    match health(&state) {
        Health::Well | Health::Off => Ok(()),
        Health::Ill => Err(single(&server, error.as_ref())),
    }
}

fn print(
    app: &App,
    entry: &ServerSpec,
    mut shown: Value,
    state: &StateView,
    instructions: Option<String>,
) -> Result<(), CliError> {
    let scrubber = &app.config().scrubber;
    if app.screen.is_json() {
        shown["entry"] = spec_json(entry);
        shown["instructions"] = instructions.into();
        scrubber.clean_json(&mut shown);
        return Ok(app.screen.document(&shown)?);
    }
    let line = |key: &str, value: &str| match value.is_empty() {
        true => Ok(()),
        false => app.screen.result(&format!(
            "{key:<13} {}",
            printable(&scrubber.clean(value)).replace('\n', "\n              ")
        )),
    };
    line("name", entry.name.as_str())?;
    app.screen.result(&format!("{:<13} {}", "state", app.screen.paint(tone(state), state.word())))?;
    line("", &detail(state))?;
    line("transport", entry.transport.kind())?;
    line("target", &target(entry))?;
    let transport = &spec_json(entry)["transport"];
    for (key, member) in [("environment", "env"), ("headers", "headers")] {
        let names = transport[member].as_object().into_iter().flatten();
        line(key, &names.map(|(name, _)| format!("{name}=***")).collect::<Vec<String>>().join(" "))?;
    }
    line("folder", transport["cwd"].as_str().unwrap_or_default())?;
    line("scope", entry.scope.as_str())?;
    line("file", entry.source.file.as_deref().unwrap_or_default())?;
    entry.warnings.iter().try_for_each(|warning| line("warning", warning))?;
    line("instructions", &instructions.unwrap_or_default())?;
    Ok(())
}
