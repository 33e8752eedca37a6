//! `status --watch`: the report, and then what happens, until somebody ends it.

use crate::app::App;
use crate::output::{CliError, Exit, Tone};
use callboard::{BoardEvent, EventKind};
use tokio::sync::broadcast::error::RecvError;

/// Reports, and tells every event from then on: for programs one object a line.
pub(super) async fn watch(app: &App) -> Result<(), CliError> {
    let report = super::status::report(app).await?;
    match report.health {
        Ok(()) => {}
        // Some servers may yet become well: that is what is watched for.
        Err(error) if error.exit() == Exit::Unhealthy => app.screen.warn(&error.to_string()),
        Err(error) => return Err(error),
    }
    let Some(mut events) = report.events else { return Ok(()) };
    loop {
        match events.recv().await {
            Ok(event) => tell(app, &event)?,
            Err(RecvError::Lagged(missed)) => app.screen.warn(&format!("{missed} events came too fast")),
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

fn tell(app: &App, event: &BoardEvent) -> Result<(), CliError> {
    let scrubber = &app.config().scrubber;
    if app.screen.is_json() {
        let mut value = serde_json::to_value(event).map_err(|error| CliError::internal(error.to_string()))?;
        scrubber.clean_json(&mut value);
        return Ok(app.screen.result(&value.to_string())?);
    }
    let Some((tone, text)) = words(&event.event) else { return Ok(()) };
    let at = app.screen.paint(Tone::Dim, &format!("{:>9.1} s", event.at_ms as f64 / 1_000.0));
    let server = app.screen.paint(Tone::Accent, &event.server);
    let text = crate::output::printable(&scrubber.clean(&text)).replace('\n', " ");
    Ok(app.screen.result(&format!("{at}  {server}  {}", app.screen.paint(tone, &text)))?)
}

/// An event in words; none for what only programs care for.
fn words(event: &EventKind) -> Option<(Tone, String)> {
    Some(match event {
        EventKind::StateChanged { state, phase, cause } => {
            let tone = match *state {
                "connected" => Tone::Good,
                "failed" => Tone::Bad,
                _ => Tone::Warn,
            };
            let phase = phase.map(|phase| format!(" ({phase})")).unwrap_or_default();
            let cause = cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
            (tone, format!("{state}{phase}{cause}"))
        }
        EventKind::ListFetched { list, items, added, removed, .. } => {
            (Tone::Dim, format!("{items} {list} ({} new, {} gone)", added.len(), removed.len()))
        }
        EventKind::ListFailed { list, cause } => (Tone::Warn, format!("{list} not listed: {cause}")),
        EventKind::ResourceUpdated { uri } => (Tone::Dim, format!("updated {uri}")),
        EventKind::ServerLog { level, data } => (Tone::Dim, format!("{level}: {data}")),
        _ => return None,
    })
}
