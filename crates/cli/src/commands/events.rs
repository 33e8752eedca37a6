//! `events`: everything that happens to the servers, as it comes.

use super::live::{Live, Onward};
use crate::app::App;
use crate::args::{EventsArgs, StateWord};
use crate::output::{CliError, Exit, Screen, Scrubber, Tone, escaped, words};
use callboard::BoardEvent;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Connects, and prints a line for each event until it is ended.
pub(super) async fn events(app: &App, args: EventsArgs) -> Result<(), CliError> {
    let mut live = Live::start(app, &args.live, &args.names).await?;
    let mut events = live.events();
    live.board.connect_all();
    let mut last_ms = 0;
    loop {
        if args.until.is_some_and(|state| are_all(&live, state)) {
            print_rest(app, &mut live, &mut events, &mut last_ms).await?;
            live.out.end().await;
            return Ok(());
        }
        let event = tokio::select! {
            biased;
            news = live.news() => match live.take(news).await? {
                Onward::Same | Onward::Changed => continue,
                Onward::Over => {
                    live.out.end().await;
                    return args.until.map_or(Ok(()), |state| Err(not_reached(&live, state)));
                }
            },
            event = events.recv() => event,
        };
        match event {
            Ok(event) => print(app, &mut live, &event, &mut last_ms).await?,
            Err(RecvError::Lagged(lost)) => print_lost(app, &mut live, lost, last_ms).await?,
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

fn are_all(live: &Live<'_>, state: StateWord) -> bool {
    let servers = live.servers();
    !servers.is_empty() && servers.iter().all(|server| server.state().word() == state.as_str())
}

fn not_reached(live: &Live<'_>, state: StateWord) -> CliError {
    let servers = live.servers();
    let others = servers.iter().filter(|server| server.state().word() != state.as_str());
    let others: Vec<String> =
        others.map(|server| format!("{} ({})", server.name(), server.state().word())).collect();
    let fact = format!("not {} in time: {}", state.as_str(), others.join(", "));
    CliError::new(Exit::Unreachable, "timed-out", fact)
        .hint("give a larger --timeout, or ask `callboard why`")
}

/// What happened before the end, and is not printed yet.
async fn print_rest(
    app: &App,
    live: &mut Live<'_>,
    events: &mut Receiver<BoardEvent>,
    last_ms: &mut u64,
) -> Result<(), CliError> {
    loop {
        match events.try_recv() {
            Ok(event) => print(app, live, &event, last_ms).await?,
            Err(TryRecvError::Lagged(lost)) => print_lost(app, live, lost, *last_ms).await?,
            Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(()),
        }
    }
}

async fn print(
    app: &App,
    live: &mut Live<'_>,
    event: &BoardEvent,
    last_ms: &mut u64,
) -> Result<(), CliError> {
    *last_ms = event.at_ms;
    let scrubber = &app.config().scrubber;
    if app.screen.is_json() {
        return live.out.object(&object(event, scrubber)?).await;
    }
    live.out.line(line(&app.screen, event, scrubber)).await
}

/// Events that came faster than they could be printed: how many, never silently.
async fn print_lost(app: &App, live: &mut Live<'_>, lost: u64, last_ms: u64) -> Result<(), CliError> {
    if app.screen.is_json() {
        let gap = json!({ "at_ms": last_ms, "server": null, "generation": null, "event": "events-lost", "events": lost });
        return live.out.object(&gap).await;
    }
    live.out
        .line(
            app.screen.paint(Tone::Bad, &format!("{lost} events lost: they came faster than they are read")),
        )
        .await
}

/// The JSON form.
pub(super) fn object(event: &BoardEvent, scrubber: &Scrubber) -> Result<Value, CliError> {
    let mut value = serde_json::to_value(event).map_err(|error| CliError::internal(error.to_string()))?;
    scrubber.clean_json(&mut value);
    Ok(value)
}

/// The form for people: time, server, generation, words.
pub(super) fn line(screen: &Screen, event: &BoardEvent, scrubber: &Scrubber) -> String {
    let (tone, text) = words(&event.event);
    let text = escaped(&scrubber.clean(&text.replace('\n', " ")));
    let at = format!("{:>6}.{:03}", event.at_ms / 1_000, event.at_ms % 1_000);
    format!(
        "{}  {}  {}  {}",
        screen.paint(Tone::Dim, &at),
        screen.paint(Tone::Accent, &escaped(&event.server)),
        screen.paint(Tone::Dim, &format!("#{}", event.generation)),
        screen.paint(tone, &text)
    )
}
