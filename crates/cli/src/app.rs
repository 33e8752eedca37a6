//! One run of the command: reads the arguments, runs one command against the clock and the signals, closes
//! what was opened, and says how it ended.

use crate::args::{Cli, Command, Global};
use crate::config::Config;
use crate::output::{CliError, Exit, Screen, usage_error};
use crate::terminal::{HangUps, Interrupt, TerminalElicitation};
use crate::{builtin, commands, output};
use callboard::load::LoadOptions;
use callboard::reload::Reloader;
use callboard::{
    Board, BoardBuilder, CallError, CallOptions, ConnHandle, Root, ServerSpec, Settings, StartupMode,
};
use clap::Parser;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Beyond `--timeout`, for commands that see to it themselves and print what they have.
const TIMEOUT_SLACK: Duration = Duration::from_millis(300);

/// What every command works with.
pub(crate) struct App {
    /// Where output goes.
    pub(crate) screen: Arc<Screen>,
    /// The flags of every command.
    pub(crate) global: Global,
    /// The folder that the command acts in, its variables, and the files it was told to read.
    pub(crate) surroundings: LoadOptions,
    started: Instant,
    config: OnceLock<Config>,
    board: Arc<OnceLock<Board>>,
    hang_ups: Arc<HangUps>,
}

/// The whole program.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error),
    };
    if let Command::Builtin(args) = &cli.command {
        return builtin::run(&args.name, &args.args).unwrap_or_else(|fact| {
            let error = CliError::usage(fact).or_hint(|| commands::builtin_hint(&args.name));
            finish(Err(error), &Screen::new(cli.global.json), None)
        });
    }
    let screen = Arc::new(Screen::new(cli.global.json));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return finish(
                Err(CliError::internal(format!("cannot start a runtime: {error}"))),
                &screen,
                None,
            );
        }
    };
    let app = match App::new(screen.clone(), cli.global) {
        Ok(app) => app,
        Err(error) => return finish(Err(error), &screen, None),
    };
    let outcome = runtime.block_on(supervise(&app, cli.command));
    // A thread that waits for an answer on stdin is not waited for.
    runtime.shutdown_background();
    finish(outcome, &screen, app.config.get())
}

/// Runs the command until it ends, a signal comes or the time is up; then closes the board.
async fn supervise(app: &App, command: Command) -> Result<(), CliError> {
    let board = app.board.clone();
    let kill = Arc::new(move || {
        kill_children(board.get());
        output::restore_terminal();
    });
    let mut interrupt = Interrupt::listen(kill, app.hang_ups.clone())
        .map_err(|error| CliError::internal(format!("cannot listen to signals: {error}")))?;
    let outcome = tokio::select! {
        biased;
        () = interrupt.first() => Err(CliError::cancelled()),
        limit = app.time_is_up() => Err(CliError::timed_out(limit)),
        outcome = commands::run(app, command) => outcome,
    };
    if let Some(board) = app.board.get() {
        board.close().await;
    }
    outcome
}

fn not_understood(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // `callboard --help | head` is no failure.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Exit::Usage.into()
        }
        _ => {
            let json =
                std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
            finish(Err(usage_error(error)), &Screen::new(json), None)
        }
    }
}

fn finish(outcome: Result<(), CliError>, screen: &Screen, config: Option<&Config>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let exit = error.exit();
            match config {
                Some(config) => error.print(screen, &config.scrubber),
                None => error.print(screen, &crate::output::Scrubber::default()),
            }
            exit.into()
        }
    }
}

impl App {
    fn new(screen: Arc<Screen>, global: Global) -> Result<App, CliError> {
        let mut surroundings = LoadOptions::of_process().map_err(|error| {
            CliError::usage(format!("the current folder cannot be read: {error}"))
                .hint("give a folder with --cwd")
        })?;
        // Files on the command line are relative to where it was typed, not to --cwd.
        let here = surroundings.cwd.clone();
        if !global.config.is_empty() {
            surroundings.config_files = global.config.clone();
        }
        for file in surroundings.config_files.iter_mut().filter(|file| file.as_os_str() != "-") {
            *file = here.join(&file);
        }
        if let Some(folder) = &global.cwd {
            if !folder.is_dir() {
                return Err(CliError::usage(format!("{} is no folder", folder.display())));
            }
            surroundings.cwd = here.join(folder);
        }
        Ok(App {
            screen,
            global,
            surroundings,
            started: Instant::now(),
            config: OnceLock::new(),
            board: Arc::new(OnceLock::new()),
            hang_ups: Arc::default(),
        })
    }

    /// The configuration, read on first use. What is wrong in it is warned of once.
    pub(crate) fn config(&self) -> &Config {
        self.config.get_or_init(|| Config::load(&self.surroundings))
    }

    /// The configuration, read by something that can read it again. For commands that go on: from now on SIGHUP ends
    /// nothing.
    pub(crate) fn reloader(&self) -> (Reloader, Arc<HangUps>) {
        let reloader = Reloader::new(self.surroundings.clone());
        self.config.get_or_init(|| Config::of(reloader.loaded().clone()));
        self.hang_ups.want();
        (reloader, self.hang_ups.clone())
    }

    /// The board of this run, with these servers and no others. It is closed when the command ends.
    pub(crate) async fn board(&self, servers: Vec<ServerSpec>) -> Result<&Board, CliError> {
        // Commands say themselves which servers they connect.
        let settings = Settings { startup_mode: StartupMode::Lazy, ..self.config().settings.clone() };
        let builder = Board::builder().settings(settings).servers(servers);
        self.keep(self.dressed(builder, &self.config().project_folder)).await
    }

    /// The board of this run, with the one server that was named or with all. What is wrong elsewhere in the
    /// configuration is told where all were meant.
    pub(crate) async fn board_of(&self, name: Option<&str>) -> Result<&Board, CliError> {
        let config = self.config();
        let servers = match name {
            Some(name) => vec![config.server(name)?],
            None => config.servers(),
        };
        if servers.is_empty() && !self.screen.is_json() {
            return Err(config.nothing());
        }
        if name.is_none() {
            config.warn(&self.screen);
        }
        self.board(servers).await
    }

    /// The server of this name, on a board of its own.
    pub(crate) async fn server(&self, name: &str) -> Result<ConnHandle, CliError> {
        let board = self.board(vec![self.config().server(name)?]).await?;
        board.server(name).ok_or_else(|| CliError::internal("the board lost its server"))
    }

    /// What this command offers to servers: its name, a person at the terminal, a folder.
    pub(crate) fn dressed(&self, builder: BoardBuilder, folder: &Path) -> BoardBuilder {
        let mut builder = builder
            .client_info("callboard", env!("CARGO_PKG_VERSION"))
            .elicitation(Arc::new(TerminalElicitation::new(&self.screen)));
        if let Ok(uri) = url::Url::from_directory_path(folder) {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            let uri = uri.as_str().trim_end_matches('/').to_owned();
            builder = builder.roots(vec![Root { uri, name }]);
        }
        builder
    }

    /// Builds a board and sees to its end.
    pub(crate) async fn keep(&self, builder: BoardBuilder) -> Result<&Board, CliError> {
        let board = builder.build().await.map_err(|error| CliError::internal(error.to_string()))?;
        Ok(self.board.get_or_init(|| board))
    }

    /// Until `--timeout`; none without one.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.global.timeout.map(|limit| limit.saturating_sub(self.started.elapsed()))
    }

    /// Waits for a connection or a list, within `--timeout`; none when it has passed.
    pub(crate) async fn within<T>(
        &self,
        waiting: impl Future<Output = Result<T, CallError>>,
    ) -> Option<Result<T, CallError>> {
        match self.time_left() {
            Some(left) => tokio::time::timeout(left, waiting).await.ok(),
            None => Some(waiting.await),
        }
    }

    /// How long the command may go on, if that is bounded.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.global.timeout
    }

    /// Options of a request within `--timeout`.
    pub(crate) fn call_options(&self) -> CallOptions {
        CallOptions { timeout: self.time_left(), ..CallOptions::default() }
    }

    async fn time_is_up(&self) -> Duration {
        match self.global.timeout {
            Some(limit) => {
                tokio::time::sleep(limit + TIMEOUT_SLACK).await;
                limit
            }
            None => std::future::pending().await,
        }
    }
}

/// Ends the process groups of all children, without waiting.
#[cfg(unix)]
fn kill_children(board: Option<&Board>) {
    for server in board.into_iter().flat_map(Board::servers) {
        let Some(pid) = server.process_id().and_then(|pid| libc::pid_t::try_from(pid).ok()) else { continue };
        // SAFETY: kill takes plain numbers and touches no memory of ours.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
    }
}

#[cfg(not(unix))]
fn kill_children(_board: Option<&Board>) {}
