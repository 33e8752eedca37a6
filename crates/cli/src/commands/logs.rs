//! `logs NAME`: what a server says beside its answers: its stderr, and its log messages.

use super::gather::single;
use super::live::{Live, Onward};
use super::status::settle;
use crate::app::App;
use crate::args::{LevelWord, LogsArgs};
use crate::output::{CliError, Health, Tone, escaped, health, level_tone, words};
use callboard::protocol::text::cut;
use callboard::{BoardEvent, CallError, ConnHandle, EventKind, StderrLine};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Longest text of one line, in characters; a log message may hold anything.
const TEXT_CHARS_MAX: usize = 8 * 1024;

/// Connects one server, and prints what it says: until it is connected, or until it is ended.
pub(super) async fn logs(app: &App, args: LogsArgs) -> Result<(), CliError> {
    let live = Live::start(app, &args.live, std::slice::from_ref(&args.name)).await?;
    let server =
        live.board.server(&args.name).ok_or_else(|| CliError::internal("the board lost its server"))?;
    let stderr = server.stderr_lines();
    let events = live.events();
    let mut logs = Logs {
        app,
        live,
        events,
        args,
        started: Instant::now(),
        stderr,
        setting: None,
        said_no_logging: false,
    };
    match logs.args.follow {
        true => {
            server.demand();
            logs.follow().await
        }
        false => logs.until_settled(server).await,
    }
}

struct Logs<'a> {
    app: &'a App,
    live: Live<'a>,
    events: Receiver<BoardEvent>,
    args: LogsArgs,
    started: Instant,
    stderr: Receiver<StderrLine>,
    /// A level on its way to the server.
    setting: Option<JoinHandle<Result<(), CallError>>>,
    said_no_logging: bool,
}

/// What comes in.
enum Came {
    Stderr(Result<StderrLine, RecvError>),
    Event(Result<BoardEvent, RecvError>),
    LevelSet(Option<CallError>),
}

impl Logs<'_> {
    async fn follow(&mut self) -> Result<(), CliError> {
        loop {
            let came = tokio::select! {
                biased;
                news = self.live.news() => match self.live.take(news).await? {
                    Onward::Same => continue,
                    Onward::Changed => {
                        self.follow_anew();
                        continue;
                    }
                    Onward::Over => {
                        self.live.out.end().await;
                        return Ok(());
                    }
                },
                came = came(&mut self.stderr, &mut self.events, &mut self.setting) => came,
            };
            self.take(came).await?;
        }
    }

    /// A server that was removed and has come back is another one.
    fn follow_anew(&mut self) {
        if let Some(server) = self.live.board.server(&self.args.name)
            && self.stderr.is_closed()
        {
            self.stderr = server.stderr_lines();
        }
    }

    async fn until_settled(&mut self, server: ConnHandle) -> Result<(), CliError> {
        let limit = self.app.time_left().unwrap_or(self.live.config.settings.connect_timeout);
        let (name, asked) = (server.clone(), self.args.level);
        let settling = async move {
            settle(name.clone()).await?;
            Ok::<_, CallError>(match asked {
                Some(level) => name.set_log_level(level.as_str()).await.err(),
                None => None,
            })
        };
        let settling = tokio::time::timeout(limit, settling);
        tokio::pin!(settling);
        let settled = loop {
            let came = tokio::select! {
                biased;
                came = came(&mut self.stderr, &mut self.events, &mut self.setting) => came,
                error = self.live.out.closed() => return Err(error),
                settled = &mut settling => break settled,
            };
            self.take(came).await?;
        };
        let refused = match settled {
            Ok(Ok(no_level)) => {
                self.take(Came::LevelSet(no_level)).await?;
                None
            }
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        self.take_rest().await?;
        self.live.out.end().await;
        match health(&server.state()) {
            Health::Well | Health::Off => Ok(()),
            Health::Ill => Err(single(&server, refused.as_ref())),
        }
    }

    /// What has come and was not looked at yet.
    async fn take_rest(&mut self) -> Result<(), CliError> {
        loop {
            match self.stderr.try_recv() {
                Ok(line) => self.take(Came::Stderr(Ok(line))).await?,
                Err(TryRecvError::Lagged(lost)) => {
                    self.take(Came::Stderr(Err(RecvError::Lagged(lost)))).await?
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        loop {
            match self.events.try_recv() {
                Ok(event) => self.take(Came::Event(Ok(event))).await?,
                Err(TryRecvError::Lagged(lost)) => {
                    self.take(Came::Event(Err(RecvError::Lagged(lost)))).await?
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(()),
            }
        }
    }

    async fn take(&mut self, came: Came) -> Result<(), CliError> {
        match came {
            Came::Stderr(Ok(line)) => {
                let at_ms = self.started.elapsed().as_millis() as u64;
                self.print(at_ms, line.generation.0, "stderr", None, &line.text).await
            }
            Came::Stderr(Err(RecvError::Lagged(lost))) => self.print_lost("stderr", lost).await,
            Came::Event(Err(RecvError::Lagged(lost))) => self.print_lost("log", lost).await,
            Came::Stderr(Err(RecvError::Closed)) | Came::Event(Err(RecvError::Closed)) => Ok(()),
            Came::Event(Ok(event)) => self.take_event(event).await,
            Came::LevelSet(error) => {
                if let Some(error) = error.filter(|_| !std::mem::replace(&mut self.said_no_logging, true)) {
                    let fact = self.app.config().scrubber.clean(&error.to_string());
                    self.app.screen.warn(&format!("the level is not set: {fact}"));
                }
                Ok(())
            }
        }
    }

    async fn take_event(&mut self, event: BoardEvent) -> Result<(), CliError> {
        match &event.event {
            EventKind::ServerLog { level, data } => {
                match self.args.level.is_some_and(|least| least.is_above(level)) {
                    true => Ok(()),
                    false => self.print(event.at_ms, event.generation, "log", Some(level), data).await,
                }
            }
            EventKind::StateChanged { state: "connected", .. } if self.args.follow => {
                self.set_level();
                Ok(())
            }
            EventKind::LinkLost { .. } if self.args.follow => {
                let text =
                    escaped(&self.app.config().scrubber.clean(&words(&event.event).1.replace('\n', " ")));
                self.app.screen.warn(&text);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Each connection is told the level anew.
    fn set_level(&mut self) {
        let (Some(level), Some(server)) = (self.args.level, self.live.board.server(&self.args.name)) else {
            return;
        };
        if let Some(before) = self.setting.take() {
            before.abort();
        }
        self.setting = Some(tokio::spawn(async move { server.set_log_level(level.as_str()).await }));
    }

    async fn print(
        &mut self,
        at_ms: u64,
        generation: u64,
        source: &str,
        level: Option<&str>,
        text: &str,
    ) -> Result<(), CliError> {
        let scrubber = &self.app.config().scrubber;
        let (head, was_cut) = cut(text, TEXT_CHARS_MAX);
        let text = format!("{}{}", scrubber.clean(head), if was_cut { "… [cut]" } else { "" });
        let screen = &self.app.screen;
        if screen.is_json() {
            let mut object = json!({
                "at_ms": at_ms, "server": self.args.name, "generation": generation, "source": source,
            });
            if let Some(level) = level {
                object["level"] = level.into();
            }
            object["text"] = text.into();
            return self.live.out.object(&object).await;
        }
        let word = level.unwrap_or(source);
        let tone = level.map_or(Tone::Accent, level_tone);
        let at = format!("{:>6}.{:03}", at_ms / 1_000, at_ms % 1_000);
        let line = format!(
            "{}  {}  {}",
            screen.paint(Tone::Dim, &at),
            screen.paint(tone, &format!("{:<7}", escaped(word))),
            escaped(&text)
        );
        self.live.out.line(line).await
    }

    /// Lines that came faster than they could be printed: how many, never silently.
    async fn print_lost(&mut self, source: &str, lost: u64) -> Result<(), CliError> {
        if self.app.screen.is_json() {
            let at_ms = self.started.elapsed().as_millis() as u64;
            let gap: Value =
                json!({ "at_ms": at_ms, "server": self.args.name, "source": source, "lost": lost });
            return self.live.out.object(&gap).await;
        }
        let what = if source == "stderr" { "lines of stderr" } else { "events" };
        let text = format!("{lost} {what} lost: they came faster than they are read");
        self.live.out.line(self.app.screen.paint(Tone::Bad, &text)).await
    }
}

/// Waits for whatever comes first. Cancel safe.
async fn came(
    stderr: &mut Receiver<StderrLine>,
    events: &mut Receiver<BoardEvent>,
    setting: &mut Option<JoinHandle<Result<(), CallError>>>,
) -> Came {
    tokio::select! {
        biased;
        line = stderr.recv(), if !stderr.is_closed() || !stderr.is_empty() => Came::Stderr(line),
        event = events.recv() => Came::Event(event),
        error = level_set(setting) => Came::LevelSet(error),
    }
}

/// What the server said to the level; waits for ever where none is on its way.
async fn level_set(setting: &mut Option<JoinHandle<Result<(), CallError>>>) -> Option<CallError> {
    let Some(on_its_way) = setting else { return std::future::pending().await };
    let outcome = on_its_way.await;
    *setting = None;
    outcome.ok().and_then(Result::err)
}

impl LevelWord {
    /// A message of this level is of less weight.
    fn is_above(self, level: &str) -> bool {
        LevelWord::of(level).is_some_and(|level| level < self)
    }
}
