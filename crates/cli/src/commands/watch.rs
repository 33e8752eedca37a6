//! `status --watch`: how every server is, and each change of it, until somebody ends it.

use super::gather::unhealthy;
use super::list::{document, row};
use super::live::{Live, Onward};
use super::status::of;
use crate::app::App;
use crate::args::LiveArgs;
use crate::output::{CliError, Health, Picture, Tone, count, detail, escaped, health, seconds, tone};
use callboard::{BoardEvent, ServerStatus, StateView};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep_until};

/// Changes that come together are shown together.
const GATHERED_FOR: Duration = Duration::from_millis(60);
/// Times that are shown, such as that of the next attempt, are as old as this at most.
const REDRAWN_AFTER: Duration = Duration::from_secs(1);
/// What happened last, below the table.
const EVENTS_SHOWN: usize = 6;

/// Shows the servers until it is ended.
pub(super) async fn watch(app: &App, args: &LiveArgs) -> Result<(), CliError> {
    // Made before the way to the terminal, so that it goes after it.
    let picture = Picture::default();
    let live = Live::start(app, args, &[]).await?;
    let form = match (app.screen.is_json(), app.screen.width()) {
        (true, _) => Form::Json,
        (false, None) => Form::Lines,
        (false, Some(_)) => Form::Picture(picture),
    };
    // The order of fields is that in which they go.
    let mut watch = Watch {
        events: live.events(),
        live,
        app,
        started: Instant::now(),
        told: BTreeMap::new(),
        latest: VecDeque::new(),
        form,
    };
    watch.live.board.connect_all();
    watch.run().await
}

/// How changes are shown.
enum Form {
    /// Drawn anew on a terminal.
    Picture(Picture),
    /// A line a change.
    Lines,
    /// The whole status as an object a line.
    Json,
}

struct Watch<'a> {
    live: Live<'a>,
    events: Receiver<BoardEvent>,
    app: &'a App,
    started: Instant,
    /// What was shown of each server, as far as a change of it is one.
    told: BTreeMap<String, String>,
    latest: VecDeque<String>,
    form: Form,
}

/// One server of the table.
struct Shown {
    name: String,
    transport: String,
    generation: u64,
    state: StateView,
}

impl Watch<'_> {
    async fn run(&mut self) -> Result<(), CliError> {
        let mut due = Some(Instant::now());
        let mut drawn_at = Instant::now();
        loop {
            let next = due.unwrap_or(drawn_at + REDRAWN_AFTER);
            let event = tokio::select! {
                biased;
                news = self.live.news() => match self.live.take(news).await? {
                    Onward::Same => continue,
                    Onward::Changed => {
                        due = due.or(Some(Instant::now() + GATHERED_FOR));
                        continue;
                    }
                    Onward::Over => return self.end().await,
                },
                () = sleep_until(next) => {
                    self.show().await?;
                    (due, drawn_at) = (None, Instant::now());
                    continue;
                }
                event = self.events.recv() => event,
            };
            self.note(event);
            due = due.or(Some(Instant::now() + GATHERED_FOR));
        }
    }

    /// Keeps an event for the lines below the table.
    fn note(&mut self, event: Result<BoardEvent, RecvError>) {
        let mut event = event.map_err(|error| match error {
            RecvError::Lagged(lost) => TryRecvError::Lagged(lost),
            RecvError::Closed => TryRecvError::Closed,
        });
        loop {
            let line = match &event {
                Ok(event) => super::events::line(&self.app.screen, event, &self.app.config().scrubber),
                Err(TryRecvError::Lagged(lost)) => {
                    self.app.screen.paint(Tone::Bad, &format!("{lost} events lost"))
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            };
            if self.latest.len() == EVENTS_SHOWN {
                self.latest.pop_front();
            }
            self.latest.push_back(line);
            event = self.events.try_recv();
        }
    }

    /// The last word: as `status` ends.
    async fn end(&mut self) -> Result<(), CliError> {
        self.show().await?;
        self.live.out.end().await;
        let servers = self.live.servers();
        unhealthy(servers.iter().map(|server| (server.name().as_str(), server.state())))
    }

    async fn show(&mut self) -> Result<(), CliError> {
        let servers = self.live.board.status().servers;
        let rows = self.rows(&servers);
        let changed: Vec<&Shown> =
            rows.iter().filter(|row| self.told.get(&row.name) != Some(&row.mark())).collect();
        let gone = self.told.keys().filter(|name| !rows.iter().any(|row| row.name == **name));
        let gone: Vec<String> = gone.cloned().collect();
        match &mut self.form {
            Form::Picture(picture) => {
                if let Some(text) = picture.draw(table(self.app, &rows, &self.latest)) {
                    self.live.out.piece(text).await?;
                }
            }
            Form::Lines => {
                let at = self.started.elapsed().as_millis() as u64;
                let at = format!("{:>6}.{:03}", at / 1_000, at % 1_000);
                for row in &changed {
                    let detail = self.app.config().scrubber.clean(&one_line(&detail(&row.state)));
                    let name = escaped(&row.name);
                    let line = format!("{at}  {name}  {}  {}", row.state.word(), escaped(&detail));
                    self.live.out.line(line).await?;
                }
                for name in &gone {
                    self.live.out.line(format!("{at}  {}  removed", escaped(name))).await?;
                }
            }
            Form::Json if changed.is_empty() && gone.is_empty() && !self.told.is_empty() => {}
            Form::Json => {
                let object = self.document(&servers);
                self.live.out.object(&object).await?;
            }
        }
        self.told = rows.iter().map(|row| (row.name.clone(), row.mark())).collect();
        Ok(())
    }

    fn rows(&self, servers: &[ServerStatus]) -> Vec<Shown> {
        let config = &self.live.config;
        let mut rows: Vec<Shown> = Vec::new();
        for entry in config.entries() {
            let name = entry.name.as_str();
            let at_rest = StateView::Disabled { by: "entry" };
            let (generation, state) = match of(servers, name) {
                Some(server) => (server.generation, server.state.clone()),
                None => (0, at_rest),
            };
            rows.push(Shown {
                name: name.to_owned(),
                transport: entry.transport.kind().to_owned(),
                generation,
                state,
            });
        }
        rows
    }

    /// The document of `status`, with the moment.
    fn document(&self, servers: &[ServerStatus]) -> Value {
        let config = &self.live.config;
        let rows = config.entries().into_iter().map(|entry| match of(servers, entry.name.as_str()) {
            Some(server) => serde_json::to_value(server).unwrap_or_default(),
            None => row(entry, &config.settings),
        });
        let mut object = document(config, rows.collect());
        object["at_ms"] = (self.started.elapsed().as_millis() as u64).into();
        self.app.config().scrubber.clean_json(&mut object);
        object
    }
}

impl Shown {
    /// What a change is a change of: not the times that pass.
    fn mark(&self) -> String {
        format!("{} {} {}", self.generation, self.state.word(), detail(&self.state))
    }

    /// The state in a line, with the times that pass.
    fn words(&self) -> String {
        let words = one_line(&detail(&self.state));
        match &self.state {
            StateView::Connected { since_ms, .. } => {
                format!("{words} · for {}", seconds(since_ms / 1_000 * 1_000))
            }
            StateView::Pending { next_try_in_ms: Some(ms), .. }
            | StateView::Failed { slow_retry_in_ms: Some(ms), .. } => {
                format!("next try in {} s · {words}", ms.div_ceil(1_000))
            }
            StateView::Pending { .. }
            | StateView::Failed { .. }
            | StateView::NeedsAuth { .. }
            | StateView::Disabled { .. } => words,
        }
    }
}

/// Longest name that has a column of its own width.
const NAME_CHARS_MAX: usize = 32;
/// Rows that are not servers: summary, blank, heading, blank before the events.
const OTHER_ROWS: usize = 4;

/// The table within the terminal. Where not all have room, what is ill comes first and what is off last.
fn table(app: &App, rows: &[Shown], latest: &VecDeque<String>) -> Vec<String> {
    let (columns, height) = Picture::size();
    let mut rows: Vec<&Shown> = rows.iter().collect();
    let wells = rows.iter().filter(|row| health(&row.state) == Health::Well).count();
    let ills = rows.iter().filter(|row| health(&row.state) == Health::Ill).count();
    let mut lines = vec![
        format!("{}: {wells} connected, {ills} not · Ctrl-C ends", count(rows.len(), "server")),
        String::new(),
    ];
    if rows.len() + OTHER_ROWS > height {
        rows.sort_by_key(|row| match health(&row.state) {
            Health::Ill => 0,
            Health::Well => 1,
            Health::Off => 2,
        });
    }
    let name_width = rows
        .iter()
        .map(|row| row.name.chars().count())
        .max()
        .unwrap_or(0)
        .clamp("NAME".len(), NAME_CHARS_MAX);
    let room = columns.saturating_sub(name_width + 2 + 9 + 2 + 10 + 2);
    let heading = format!("{:<name_width$}  {:<9}  {:<10}  DETAIL", "NAME", "TRANSPORT", "STATE");
    lines.push(app.screen.paint(Tone::Head, &clipped(&heading, columns)));
    for row in rows {
        let name = format!("{:<name_width$}", clipped(&escaped(&row.name), name_width));
        let words = escaped(&app.config().scrubber.clean(&row.words()));
        lines.push(format!(
            "{}  {}  {}  {}",
            app.screen.paint(Tone::Accent, &name),
            app.screen.paint(Tone::Dim, &format!("{:<9}", row.transport)),
            app.screen.paint(tone(&row.state), &format!("{:<10}", row.state.word())),
            clipped(&words, room)
        ));
    }
    let free = height.saturating_sub(lines.len() + 1);
    if free > 0 && !latest.is_empty() {
        lines.push(String::new());
        lines.extend(latest.iter().skip(latest.len().saturating_sub(free)).cloned());
    }
    lines
}

fn clipped(text: &str, chars_max: usize) -> String {
    match text.chars().count() > chars_max {
        false => text.to_owned(),
        true => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The first line, and as much as has room of what follows.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<&str>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_not_that_time_passes() {
        let row = |ms| Shown {
            name: "a".into(),
            transport: "stdio".into(),
            generation: 1,
            state: StateView::Pending {
                phase: "backing-off",
                attempt: 2,
                max_attempts: 5,
                last_error: Some("x\ny".into()),
                next_try_in_ms: Some(ms),
            },
        };
        assert_eq!(row(1_500).mark(), row(500).mark());
        assert!(
            row(1_500).words().starts_with("next try in 2 s · waits before another attempt"),
            "{}",
            row(1_500).words()
        );
        assert!(row(1_500).words().ends_with("x | y"));
    }
}
