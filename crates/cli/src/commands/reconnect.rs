//! `reconnect NAME…`: a new connection, from nothing, to each server that is named.

use super::gather::{Answer, gather, single, unhealthy};
use super::status::{Printer, of, settle};
use crate::app::App;
use crate::args::NamesArgs;
use crate::output::CliError;
use serde_json::json;

/// Connects anew, and reports.
pub(super) async fn reconnect(app: &App, args: NamesArgs) -> Result<(), CliError> {
    let config = app.config();
    let mut names = args.names;
    names.sort();
    names.dedup();
    let servers = names.iter().map(|name| config.server(name)).collect::<Result<Vec<_>, _>>()?;
    // A board that was made this moment has no connection to drop and remembers no server.
    let board = app.board(servers).await?;
    let printer = Printer::new(app, names.iter().map(String::as_str));
    printer.head()?;
    let gathered = gather(app, board, settle, |one| printer.gathered(board, one)).await?;
    if app.screen.is_json() {
        let snapshot = board.status();
        let rows = names.iter().filter_map(|name| of(&snapshot.servers, name));
        let mut document = json!({ "servers": rows.collect::<Vec<_>>() });
        config.scrubber.clean_json(&mut document);
        app.screen.document(&document)?;
    }
    match gathered.as_slice() {
        [one] => match &one.answer {
            Answer::Given(()) => Ok(()),
            Answer::Refused(error) => Err(single(&one.server, Some(error))),
            Answer::Waiting => Err(single(&one.server, None)),
        },
        many => unhealthy(many.iter().map(|one| (one.server.name().as_str(), one.server.state()))),
    }
}
