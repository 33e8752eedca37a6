//! What commands that go on have in common: a board that follows its configuration, a way to stdout that holds up
//! nothing, and an end.

use crate::app::App;
use crate::args::LiveArgs;
use crate::config::Config;
use crate::metrics::{Registry, serve};
use crate::output::{CliError, Stream, Tone, count, escaped, json_line, printable};
use crate::terminal::HangUps;
use callboard::load::describe::problem_json;
use callboard::load::{Loaded, Problem};
use callboard::reload::{Reloaded, Reloader};
use callboard::{Applied, Board, BoardEvent, ConnHandle, ServerName, ServerSpec};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, sleep_until};

/// A board and all that happens to it.
pub(super) struct Live<'a> {
    app: &'a App,
    /// The board.
    pub(super) board: &'a Board,
    /// The way to stdout.
    pub(super) out: Stream,
    /// The configuration as it is at present.
    pub(super) config: Config,
    reloader: Reloader,
    hang_ups: Arc<HangUps>,
    names: Vec<String>,
    until: Option<Instant>,
}

/// What happens beside events.
pub(super) enum News {
    /// A configuration file is another one.
    FilesChanged,
    /// Somebody has asked to read the configuration again.
    HungUp,
    /// `--timeout` has passed.
    TimeUp,
    /// Nobody reads stdout any more.
    OutputClosed(CliError),
}

/// How the command goes on after news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onward {
    /// As before.
    Same,
    /// With other servers.
    Changed,
    /// Not at all.
    Over,
}

impl<'a> Live<'a> {
    /// A board with the named servers, or with all; nothing is connected yet.
    pub(super) async fn start(app: &'a App, args: &LiveArgs, names: &[String]) -> Result<Live<'a>, CliError> {
        // Before the board, which looks its metrics up once.
        if let Some(address) = args.metrics_listen {
            let registry = Registry::install().map_err(CliError::internal)?;
            let bound = serve(registry, address).await.map_err(|error| {
                CliError::usage(format!("cannot listen at {address}: {error}"))
                    .hint("give another port to --metrics-listen")
            })?;
            app.screen.note(&format!("metrics at http://{bound}/metrics"));
        }
        let (reloader, hang_ups) = app.reloader();
        let config = Config::of(reloader.loaded().clone());
        for name in names {
            config.server(name)?;
        }
        config.something()?;
        if names.is_empty() {
            config.warn(&app.screen);
        }
        let board = app.board(chosen(&config, names)).await?;
        if board.servers().is_empty() {
            app.screen.warn("no server may be connected; waiting for a configuration that has one");
        }
        Ok(Live {
            app,
            board,
            out: Stream::start()?,
            config,
            reloader,
            hang_ups,
            names: names.to_vec(),
            until: app.limit().map(|limit| Instant::now() + limit),
        })
    }

    /// Waits for what happens beside events. Cancel safe.
    pub(super) async fn news(&mut self) -> News {
        let until = self.until.unwrap_or_else(|| Instant::now() + FAR_AWAY);
        tokio::select! {
            biased;
            error = self.out.closed() => News::OutputClosed(error),
            () = self.hang_ups.next() => News::HungUp,
            () = self.reloader.changed() => News::FilesChanged,
            () = sleep_until(until), if self.until.is_some() => News::TimeUp,
        }
    }

    /// Does what news ask for.
    ///
    /// # Errors
    /// When nobody reads stdout any more.
    pub(super) async fn take(&mut self, news: News) -> Result<Onward, CliError> {
        match news {
            News::OutputClosed(error) => Err(error),
            News::TimeUp => Ok(Onward::Over),
            News::FilesChanged => Ok(self.reload(false).await),
            News::HungUp => Ok(self.reload(true).await),
        }
    }

    async fn reload(&mut self, was_asked: bool) -> Onward {
        let names = &self.names;
        let reloaded = self.reloader.reload(self.board, |loaded| prepared(loaded, names)).await;
        if let Reloaded::Applied { applied, .. } = &reloaded {
            self.config = Config::of(self.reloader.loaded().clone());
            // One scrubber for all: what was secret stays so.
            let known = &self.app.config().scrubber;
            self.reloader.loaded().entries.iter().for_each(|entry| known.learn(entry));
            let new = applied.added.iter().chain(&applied.replaced);
            new.filter_map(|name| self.board.server(name.as_str())).for_each(|server| server.demand());
        }
        self.tell(&reloaded, was_asked);
        match reloaded {
            Reloaded::Applied { .. } => Onward::Changed,
            _ => Onward::Same,
        }
    }

    fn tell(&self, reloaded: &Reloaded, was_asked: bool) {
        let screen = &self.app.screen;
        if screen.is_json() {
            if let Some(mut report) = report(reloaded).filter(|_| was_asked || *reloaded != Reloaded::Same) {
                self.app.config().scrubber.clean_json(&mut report);
                screen.note(&json_line(&report));
            }
            return;
        }
        let say = |text: &str| {
            screen.note(&format!("{} {text}", screen.paint_note(Tone::Accent, "configuration:")))
        };
        match reloaded {
            Reloaded::Same if was_asked => say("read again; nothing has changed"),
            Reloaded::Applied { applied, settings_wait } => {
                say(&escaped(&summary(applied)));
                if *settings_wait {
                    say("the settings are other ones; they count from the next start");
                }
            }
            Reloaded::Kept { problems } => {
                let fact = format!(
                    "not taken over, the servers stay as they are; {}",
                    count(problems.len(), "problem")
                );
                say(&fact);
                problems.iter().for_each(|problem| self.tell_problem(problem));
            }
            Reloaded::NotAgain => say("it came from standard input and cannot be read again"),
            _ => {}
        }
    }

    fn tell_problem(&self, problem: &Problem) {
        let scrubber = &self.app.config().scrubber;
        self.app.screen.warn(&scrubber.clean(&problem.to_string()));
        self.app.screen.note(&format!("         {}", printable(&scrubber.clean(&problem.hint))));
    }

    /// What happens from now on.
    pub(super) fn events(&self) -> Receiver<BoardEvent> {
        self.board.events()
    }

    /// The named servers, or all.
    pub(super) fn servers(&self) -> Vec<ConnHandle> {
        self.board.servers()
    }
}

/// Far enough not to come.
const FAR_AWAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn prepared(loaded: &Loaded, names: &[String]) -> Vec<ServerSpec> {
    chosen(&Config::of(loaded.clone()), names)
}

fn chosen(config: &Config, names: &[String]) -> Vec<ServerSpec> {
    let mut servers = config.servers();
    servers.retain(|server| names.is_empty() || names.iter().any(|name| name == server.name.as_str()));
    servers
}

fn summary(applied: &Applied) -> String {
    let parts = [("added", &applied.added), ("replaced", &applied.replaced), ("removed", &applied.removed)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts = parts.map(|(word, names)| format!("{word} {}", listed(names).join(", ")));
    let parts: Vec<String> = parts.chain(applied.problems.iter().cloned()).collect();
    match parts.is_empty() {
        true => "read again; no server changes".into(),
        false => parts.join("; "),
    }
}

fn listed(names: &[ServerName]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// What came of a reload, for programs: one object on stderr.
fn report(reloaded: &Reloaded) -> Option<Value> {
    let report = match reloaded {
        Reloaded::Same => json!({ "outcome": "same" }),
        Reloaded::Applied { applied, settings_wait } => json!({
            "outcome": "applied",
            "added": listed(&applied.added),
            "replaced": listed(&applied.replaced),
            "removed": listed(&applied.removed),
            "problems": applied.problems,
            "settings_wait": settings_wait,
        }),
        Reloaded::Kept { problems } => {
            json!({ "outcome": "kept", "problems": problems.iter().map(problem_json).collect::<Vec<Value>>() })
        }
        Reloaded::NotAgain => json!({ "outcome": "not-again" }),
        _ => return None,
    };
    Some(json!({ "reload": report }))
}
