//! `why NAME`: how a server is and what led to it, from the file to the last attempt, and what to do.

mod report;

use super::gather::single;
use super::status::connect_alone;
use crate::app::App;
use crate::config::Config;
use crate::output::{CliError, Exit, Health, health};
use callboard::StateView;
use report::{Report, Verdict};

/// Connects the server, within bounds, and explains.
pub(super) async fn why(app: &App, name: &str) -> Result<(), CliError> {
    let config = app.config();
    let mut report = Report::of(config, name);
    if report.verdict != Verdict::NotTried {
        report.print(app)?;
        return failure(config, name, &report);
    }
    let board = app.board(vec![config.server(name)?]).await?;
    let server = board.server(name).ok_or_else(|| CliError::internal("the board has no such server"))?;
    let error = connect_alone(app, &server).await;
    let state = server.state();
    report.verdict = match &state {
        StateView::Connected { .. } => Verdict::Connected,
        StateView::NeedsAuth { .. } => Verdict::NeedsAuth,
        StateView::Disabled { .. } => Verdict::Disabled,
        StateView::Failed { .. } => Verdict::Failing,
        StateView::Pending { last_error: Some(_), .. } => Verdict::Failing,
        StateView::Pending { .. } => Verdict::Silent,
    };
    report.connected(&server);
    let outcome = match health(&state) {
        Health::Well | Health::Off => Ok(()),
        Health::Ill => Err(single(&server, error.as_ref())),
    };
    if let Err(error) = &outcome {
        report.hint = report.hint.or_else(|| error.advice().map(str::to_owned));
    }
    report.print(app)?;
    outcome
}

/// How the command ends for a server that cannot be tried.
fn failure(config: &Config, name: &str, report: &Report) -> Result<(), CliError> {
    match report.verdict {
        Verdict::Blocked => {
            Err(CliError::new(Exit::Blocked, "blocked", format!("server {name}: {}", report.words))
                .server(name)
                .or_hint(|| report.hint.clone()))
        }
        Verdict::Invalid | Verdict::NotConfigured => config.server(name).map(drop),
        Verdict::NotTried
        | Verdict::Connected
        | Verdict::Failing
        | Verdict::Silent
        | Verdict::NeedsAuth
        | Verdict::Disabled => Ok(()),
    }
}
