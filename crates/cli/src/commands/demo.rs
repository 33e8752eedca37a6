//! `demo`: three built-in servers, calls, a killed child that comes back. No network, no configuration.

use super::gather::gather;
use super::status::{Printer, settle};
use super::tools::first_line;
use crate::app::App;
use crate::builtin::{Builtin, serve};
use crate::output::{CliError, Sheet, Tone, count};
use crate::schema::plain;
use callboard::{Board, BoardEvent, CallOptions, EventKind, ServerSpec, Settings};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Bytes between the board and the server inside the process.
const PIPE_BYTES: usize = 64 * 1024;
/// The demo does not wait a whole second before it brings the child back.
const BACKOFF: Duration = Duration::from_millis(300);
/// By then the child is back, or something is wrong.
const RECOVERY_MAX: Duration = Duration::from_secs(10);
/// Where the board finds the server inside the process.
const FILES_KEY: &str = "demo-files";

/// Shows everything once.
pub(super) async fn demo(app: &App) -> Result<(), CliError> {
    let started = Instant::now();
    let folder =
        tempfile::tempdir().map_err(|error| CliError::internal(format!("no temporary folder: {error}")))?;
    fill(folder.path())
        .map_err(|error| CliError::internal(format!("cannot write the demo's files: {error}")))?;
    let board = build(app, folder.path()).await?;
    let stage = Stage { app, board };
    stage.connect().await?;
    stage.show_tools()?;
    stage.make_calls().await?;
    stage.kill_and_recover().await?;
    let seconds = started.elapsed().as_secs_f64();
    stage.say(&format!("\nThat was all, in {seconds:.1} s. Yours next: `callboard config paths` shows where servers are written down."))
}

fn fill(folder: &Path) -> std::io::Result<()> {
    std::fs::write(
        folder.join("welcome.txt"),
        "A callboard hangs backstage and says who is needed, where and when.\n",
    )?;
    std::fs::write(
        folder.join("cast.md"),
        "# Cast\n\n- time, a child process\n- memory, another\n- files, in the house\n",
    )
}

async fn build<'a>(app: &'a App, folder: &Path) -> Result<&'a Board, CliError> {
    let own = std::env::current_exe()
        .map_err(|error| CliError::internal(format!("cannot find our own program: {error}")))?;
    let own = own.to_string_lossy().into_owned();
    let child = |name: &str| ServerSpec::stdio(name, own.clone(), ["builtin", name]);
    let files =
        Builtin::named("files", &[folder.to_string_lossy().into_owned()]).map_err(CliError::internal)?;
    let settings = Settings { reconnect_backoff_initial: BACKOFF, ..Settings::default() };
    let builder = Board::builder()
        .settings(settings)
        .servers([child("time"), child("memory"), ServerSpec::in_process("files", FILES_KEY)])
        .in_process(FILES_KEY, move || {
            let files = files.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
                let (read, write) = tokio::io::split(theirs);
                tokio::spawn(serve(files, read, write));
                Ok(ours)
            }
        });
    app.keep(app.dressed(builder, folder)).await
}

struct Stage<'a> {
    app: &'a App,
    board: &'a Board,
}

impl Stage<'_> {
    async fn connect(&self) -> Result<(), CliError> {
        self.act("1", "Three servers: two child processes, and one inside this process")?;
        let servers = self.board.servers();
        let printer = Printer::new(self.app, servers.iter().map(|server| server.name().as_str()));
        printer.head()?;
        let settled = gather(self.app, self.board, settle, |one| printer.gathered(self.board, one)).await?;
        for one in &settled {
            let (name, state) = (one.server.name().as_str(), one.server.state());
            self.tell(json!({ "step": "connect", "server": name, "state": state }))?;
            if super::gather::unhealthy([(name, state)]).is_err() {
                return Err(super::gather::single(&one.server, None));
            }
        }
        Ok(())
    }

    fn show_tools(&self) -> Result<(), CliError> {
        let catalog = self.board.catalog();
        self.act(
            "2",
            &format!("Their {} under names that are safe for models", count(catalog.len(), "tool")),
        )?;
        let rows: Vec<Vec<String>> = catalog
            .tools()
            .map(|tool| {
                vec![tool.name.to_string(), tool.server.to_string(), first_line(&tool.description().0)]
            })
            .collect();
        for row in &rows {
            self.tell(json!({ "step": "tool", "name": row[0], "server": row[1] }))?;
        }
        if self.app.screen.is_json() {
            return Ok(());
        }
        let sheet = Sheet::fitting(&self.app.screen, &["TOOL", "SERVER", "DESCRIPTION"], &rows);
        self.app.screen.result(&sheet.head())?;
        let tones = [Some(Tone::Accent), Some(Tone::Dim), None];
        rows.iter().try_for_each(|row| Ok(self.app.screen.result(&sheet.lines(row, &tones))?))
    }

    async fn make_calls(&self) -> Result<(), CliError> {
        self.act("3", "Calls")?;
        self.call(
            "time",
            "convert",
            r#"{"time":"20:00","from":"Europe/Berlin","to":"Asia/Tokyo"}"#,
            "/to/datetime",
        )
        .await?;
        self.call("memory", "remember", r#"{"key":"cue","text":"lights at nine"}"#, "/notes").await?;
        self.call("memory", "recall", r#"{"key":"cue"}"#, "/text").await?;
        self.call("files", "read", r#"{"path":"welcome.txt"}"#, "/text").await
    }

    async fn kill_and_recover(&self) -> Result<(), CliError> {
        let server =
            self.board.server("time").ok_or_else(|| CliError::internal("the board lost its server"))?;
        let pid = server.process_id().ok_or_else(|| CliError::internal("the child has no process id"))?;
        self.act("4", &format!("SIGKILL to process {pid}, the time server, from outside"))?;
        let events = self.board.events();
        kill(pid)?;
        self.tell(json!({ "step": "kill", "server": "time", "pid": pid }))?;
        let recovery = tokio::time::timeout(RECOVERY_MAX, self.watch(events, Instant::now())).await;
        recovery.map_err(|_| CliError::internal("the time server did not come back"))??;
        let new = server.process_id().map_or("a new process".to_owned(), |pid| format!("process {pid}"));
        self.say(&format!("{new} serves the next call:"))?;
        self.call("time", "now", r#"{"timezone":"Europe/Vienna"}"#, "/datetime").await
    }

    /// Shows what happens to the killed server until it is connected again.
    async fn watch(
        &self,
        mut events: broadcast::Receiver<BoardEvent>,
        from: Instant,
    ) -> Result<(), CliError> {
        loop {
            let event = match events.recv().await {
                Ok(event) => event,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return Err(CliError::internal("the board was closed")),
            };
            let EventKind::StateChanged { state, phase, cause } = &event.event else { continue };
            if event.server != "time" {
                continue;
            }
            self.tell(json!({ "step": "event", "event": event }))?;
            let ms = format!("{:>6} ms", from.elapsed().as_millis());
            let tone = if *state == "connected" { Tone::Good } else { Tone::Warn };
            let phase = phase.map(|phase| format!(" ({phase})")).unwrap_or_default();
            let cause = cause.as_deref().map(|cause| format!(": {}", first_line(cause))).unwrap_or_default();
            let screen = &self.app.screen;
            self.say(&format!(
                "{} {}{phase}{cause}",
                screen.paint(Tone::Dim, &ms),
                screen.paint(tone, state)
            ))?;
            if *state == "connected" {
                return Ok(());
            }
        }
    }

    /// Calls, and shows the part of the answer that `pointer` (RFC 6901) leads to, else its text.
    async fn call(&self, server: &str, tool: &str, arguments: &str, pointer: &str) -> Result<(), CliError> {
        let qualified = format!("mcp__{server}__{tool}");
        let started = Instant::now();
        let reply = self.board.call(&qualified, arguments, CallOptions::default()).await;
        let reply = reply.map_err(|error| CliError::from_call(server, &error))?;
        let ms = started.elapsed().as_secs_f64() * 1_000.0;
        let text = reply.text();
        self.tell(json!({ "step": "call", "tool": qualified, "ms": ms, "is_error": reply.is_error(), "text": text }))?;
        let screen = &self.app.screen;
        let took = screen.paint(Tone::Dim, &format!("{ms:.1} ms"));
        self.say(&format!("{} {arguments}  {took}", screen.paint(Tone::Accent, &qualified)))?;
        let structured =
            reply.read().ok().and_then(|result| serde_json::from_str(result.structured?.get()).ok());
        let part = structured.as_ref().and_then(|value: &Value| value.pointer(pointer)).map(plain);
        self.say(&format!("  → {}", first_line(&part.unwrap_or_else(|| text.replace('\n', " ")))))
    }

    fn act(&self, number: &str, title: &str) -> Result<(), CliError> {
        let gap = if number == "1" { "" } else { "\n" };
        self.say(&format!("{gap}{}", self.app.screen.paint(Tone::Head, &format!("{number}. {title}"))))
    }

    /// A line for people.
    fn say(&self, text: &str) -> Result<(), CliError> {
        match self.app.screen.is_json() {
            true => Ok(()),
            false => Ok(self.app.screen.result(text)?),
        }
    }

    /// An object a line for programs.
    fn tell(&self, value: Value) -> Result<(), CliError> {
        match self.app.screen.is_json() {
            true => Ok(self.app.screen.result(&value.to_string())?),
            false => Ok(()),
        }
    }
}

#[cfg(unix)]
fn kill(pid: u32) -> Result<(), CliError> {
    let pid = libc::pid_t::try_from(pid).map_err(|error| CliError::internal(error.to_string()))?;
    // SAFETY: kill takes plain numbers and touches no memory of ours.
    match unsafe { libc::kill(pid, libc::SIGKILL) } {
        0 => Ok(()),
        _ => {
            Err(CliError::internal(format!("cannot kill process {pid}: {}", std::io::Error::last_os_error())))
        }
    }
}

#[cfg(not(unix))]
fn kill(pid: u32) -> Result<(), CliError> {
    let pid = pid.to_string();
    let ended = std::process::Command::new("taskkill").args(["/F", "/PID", &pid]).output();
    ended.map(|_| ()).map_err(|error| CliError::internal(format!("cannot kill process {pid}: {error}")))
}
