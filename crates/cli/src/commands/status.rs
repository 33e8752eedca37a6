//! `status`, and `list --health`: connects to every server and says how it is.

use super::gather::{Gathered, gather, unhealthy};
use super::list::{document, row};
use crate::app::App;
use crate::output::{CliError, Sheet, Tone, detail, tone};
use crate::terminal::Spinner;
use callboard::{Board, CallError, ConnHandle, ServerStatus, StateView};
use serde_json::Value;

/// Prints a row as soon as a server has settled, and fails when one is not well.
pub(super) async fn status(app: &App) -> Result<(), CliError> {
    let config = app.config();
    let entries = config.entries();
    if entries.is_empty() && !app.screen.is_json() {
        return super::list::list(app);
    }
    config.warn(&app.screen);
    let board = app.board(config.servers()).await?;
    let printer = Printer::new(app, entries.iter().map(|entry| entry.name.as_str()));
    printer.head()?;
    for entry in entries.iter().filter(|entry| !entry.enabled) {
        printer.row(entry.name.as_str(), entry.transport.kind(), &StateView::Disabled { by: "entry" })?;
    }
    let gathered = gather(app, board, settle, |one| printer.gathered(board, one)).await?;
    if app.screen.is_json() {
        let snapshot = board.status();
        let rows = entries.iter().map(|entry| match of(&snapshot.servers, entry.name.as_str()) {
            Some(server) => serde_json::to_value(server).unwrap_or_default(),
            None => row(entry, &config.settings),
        });
        let mut document = document(config, rows.collect::<Vec<Value>>());
        config.scrubber.clean_json(&mut document);
        app.screen.document(&document)?;
    }
    config.something()?;
    unhealthy(gathered.iter().map(|one| (one.server.name().as_str(), one.server.state())))
}

/// Connects, and waits for the list of tools that a report counts.
pub(super) async fn settle(server: ConnHandle) -> Result<(), CallError> {
    server.connect(None).await?;
    // A list that cannot be had shows in the state.
    let _ = server.tools().await;
    Ok(())
}

/// Connects one server within the command's time, or the connect's own; the error, if that was one.
pub(super) async fn connect_alone(app: &App, server: &ConnHandle) -> Option<CallError> {
    let _spinner = Spinner::start(&app.screen, format!("connecting to {}", server.name()));
    let limit = app.time_left().unwrap_or(app.config().settings.connect_timeout);
    tokio::time::timeout(limit, settle(server.clone())).await.ok().and_then(Result::err)
}

/// The server of this name.
pub(super) fn of<'a>(servers: &'a [ServerStatus], name: &str) -> Option<&'a ServerStatus> {
    servers.iter().find(|server| server.name == name)
}

/// Prints rows of a table whose names are known before.
pub(super) struct Printer<'a> {
    app: &'a App,
    sheet: Sheet,
}

impl<'a> Printer<'a> {
    /// A table for servers of these names.
    pub(super) fn new(app: &'a App, names: impl Iterator<Item = &'a str>) -> Printer<'a> {
        let name_width = names.map(|name| name.chars().count()).max().unwrap_or(0);
        let widths = [name_width, "transport".len(), "needs-auth".len()];
        Printer { app, sheet: Sheet::new(&app.screen, &["NAME", "TRANSPORT", "STATE", "DETAIL"], &widths) }
    }

    /// The headings.
    pub(super) fn head(&self) -> Result<(), CliError> {
        match self.app.screen.is_json() {
            true => Ok(()),
            false => Ok(self.app.screen.result(&self.sheet.head())?),
        }
    }

    /// A server that has settled, or has not in time.
    pub(super) fn gathered<T>(&self, board: &Board, one: &Gathered<T>) -> Result<(), CliError> {
        let name = one.server.name().as_str();
        let snapshot = board.status();
        let transport = of(&snapshot.servers, name).map_or("", |server| server.transport.as_str());
        self.row(name, transport, &one.server.state())
    }

    /// One row.
    pub(super) fn row(&self, name: &str, transport: &str, state: &StateView) -> Result<(), CliError> {
        if self.app.screen.is_json() {
            return Ok(());
        }
        let detail = self.app.config().scrubber.clean(&detail(state));
        let cells = [name.to_owned(), transport.to_owned(), state.word().to_owned(), detail];
        let tones = [Some(Tone::Accent), Some(Tone::Dim), Some(tone(state)), None];
        Ok(self.app.screen.result(&self.sheet.lines(&cells, &tones))?)
    }
}
