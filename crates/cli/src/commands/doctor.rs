//! `doctor`: what servers need around them, what is wrong in the configuration, how every server is, and
//! what earlier runs of others left behind.

use super::gather::{gather, unhealthy};
use super::list::target;
use super::status::{Printer, settle};
use crate::app::App;
use crate::config::Config;
use crate::output::{CliError, Exit, Sheet, Tone, count};
use callboard::load::describe::warning_json;
use callboard::{ServerSpec, TransportSpec};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Programs that servers are commonly started with; each may be missing where no server needs it.
const PROGRAMS: [&str; 6] = ["node", "npx", "python3", "uvx", "docker", "git"];

/// Checks everything that can be checked.
pub(super) async fn doctor(app: &App) -> Result<(), CliError> {
    let config = app.config();
    let programs: Vec<(&str, Option<PathBuf>)> = PROGRAMS.iter().map(|name| (*name, on_path(name))).collect();
    // Before our own servers run, lest we find those.
    let strays = strays(&config.servers());
    if !app.screen.is_json() {
        print_programs(app, &programs)?;
        print_config(app, config)?;
        print_strays(app, &strays)?;
    }
    let board = app.board(config.servers()).await?;
    let printer = Printer::new(app, config.entries().into_iter().map(|entry| entry.name.as_str()));
    if !config.servers().is_empty() {
        heading(app, "servers")?;
        printer.head()?;
    }
    let gathered = gather(app, board, settle, |one| printer.gathered(board, one)).await?;
    let sick = unhealthy(gathered.iter().map(|one| (one.server.name().as_str(), one.server.state())));
    if app.screen.is_json() {
        let found = programs.iter().map(|(name, path)| json!({ "name": name, "path": path }));
        let strays = strays.iter().map(|stray| json!({ "pid": stray.pid, "command": stray.command }));
        let mut document = json!({
            "ok": sick.is_ok() && config.problems.is_empty(),
            "programs": found.collect::<Vec<Value>>(),
            "problems": config.problems_json(),
            "warnings": config.warnings.iter().map(warning_json).collect::<Vec<Value>>(),
            "servers": board.status().servers,
            "strays": strays.collect::<Vec<Value>>(),
        });
        config.scrubber.clean_json(&mut document);
        app.screen.document(&document)?;
    }
    sick?;
    match config.problems.first() {
        None => Ok(()),
        Some(first) => {
            let fact = format!("the configuration has {}", count(config.problems.len(), "problem"));
            Err(CliError::new(Exit::Config, first.code, fact).hint(&first.hint))
        }
    }
}

fn heading(app: &App, text: &str) -> Result<(), CliError> {
    match app.screen.is_json() {
        true => Ok(()),
        false => Ok(app.screen.result(&app.screen.paint(Tone::Head, text))?),
    }
}

fn print_programs(app: &App, programs: &[(&str, Option<PathBuf>)]) -> Result<(), CliError> {
    heading(app, "programs that servers are often started with")?;
    let rows: Vec<Vec<String>> = programs
        .iter()
        .map(|(name, path)| {
            let path = path.as_ref().map_or("not on PATH".to_owned(), |path| path.display().to_string());
            vec![format!("  {name}"), path]
        })
        .collect();
    let sheet = Sheet::fitting(&app.screen, &["", ""], &rows);
    for (row, (_, path)) in rows.iter().zip(programs) {
        let tone = if path.is_some() { Tone::Good } else { Tone::Dim };
        app.screen.result(&sheet.lines(row, &[Some(tone), None]))?;
    }
    Ok(app.screen.result("")?)
}

fn print_config(app: &App, config: &Config) -> Result<(), CliError> {
    heading(app, "configuration")?;
    let found = config.places.iter().filter(|place| place.found);
    let files: Vec<String> = found.map(|place| place.path.display().to_string()).collect();
    match files.as_slice() {
        [] => {
            app.screen.result("  no file found; `callboard config paths` shows where they are looked for")?
        }
        files => files.iter().try_for_each(|file| app.screen.result(&format!("  {file}")))?,
    }
    for problem in &config.problems {
        let word = app.screen.paint(Tone::Bad, "problem");
        app.screen.result(&format!("  {word}  {problem}\n           {}", problem.hint))?;
    }
    for warning in &config.warnings {
        app.screen.result(&format!("  {}  {warning}", app.screen.paint(Tone::Warn, "warning")))?;
    }
    Ok(app.screen.result("")?)
}

fn print_strays(app: &App, strays: &[Stray]) -> Result<(), CliError> {
    if strays.is_empty() {
        return Ok(());
    }
    heading(app, "processes that look like a server of yours and belong to nobody")?;
    for stray in strays {
        app.screen.result(&format!("  {}  {}", stray.pid, stray.command))?;
    }
    Ok(app.screen.result("")?)
}

/// Where a program would be started from.
fn on_path(name: &str) -> Option<PathBuf> {
    let suffix = std::env::consts::EXE_SUFFIX;
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).flat_map(|folder| {
        let scripts = if cfg!(windows) { vec![".cmd", ".bat"] } else { Vec::new() };
        std::iter::once(suffix)
            .chain(scripts)
            .map(move |suffix| folder.join(format!("{name}{suffix}")))
            .collect::<Vec<_>>()
    });
    places.find(|place| is_program(place))
}

#[cfg(unix)]
fn is_program(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &std::path::Path) -> bool {
    path.is_file()
}

/// A process without a parent that runs a configured server's command line.
struct Stray {
    pid: u32,
    command: String,
}

/// Looks at the processes of this machine, where it shows them under `/proc`.
fn strays(servers: &[ServerSpec]) -> Vec<Stray> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(1)).filter_map(|pid| stray(pid, servers)).collect()
}

fn stray(pid: u32, servers: &[ServerSpec]) -> Option<Stray> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let words = words.strip_suffix(&[String::new()])?;
    let owner = servers.iter().find(|server| match &server.transport {
        TransportSpec::Stdio(stdio) => {
            let program = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
            words
                .split_first()
                .is_some_and(|(first, args)| program(first) == program(&stdio.command) && args == stdio.args)
        }
        TransportSpec::Http(_) | TransportSpec::InProcess(_) => false,
    })?;
    // The masked form: the real one may hold secrets.
    Some(Stray { pid, command: target(owner) })
}

/// The fourth field of `stat` (proc(5)); the second is in parentheses and may hold anything.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("sh").is_some());
        assert!(on_path("no-such-program-here").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_with_a_parent_is_no_stray() {
        assert!(parent_of(std::process::id()).is_some_and(|parent| parent > 0));
        assert!(strays(&[ServerSpec::stdio("a", "no-such-program-here", [""; 0])]).is_empty());
    }
}
