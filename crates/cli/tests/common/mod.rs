//! Runs the built binary with a home of its own, bounded in time, and finds what it leaves behind.

#![allow(dead_code, reason = "each test file uses a part of it")]

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) const CALLBOARD: &str = env!("CARGO_BIN_EXE_callboard");
/// Bound of one command; far above what it takes on a loaded machine.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// Children of an ended command are gone by then.
const GONE_WITHIN: Duration = Duration::from_secs(3);
/// Stands in configurations as a secret and must stand in no output.
pub(crate) const SECRET: &str = "planted-s3cret-value";

/// A home folder, and commands that run in it.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its exit code; none when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Run {
    /// stdout as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is no JSON ({error}): {self:?}"))
    }

    /// The error object of the last line on stderr.
    pub(crate) fn error(&self) -> Value {
        let last = self.stderr.lines().last().unwrap_or_default();
        let value: Value =
            serde_json::from_str(last).unwrap_or_else(|error| panic!("no JSON error ({error}): {self:?}"));
        value["error"].clone()
    }

    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { folder: tempfile::tempdir().expect("a folder") }
    }

    /// A home whose `servers.json` holds these servers.
    pub(crate) fn with(servers: Value) -> Home {
        let home = Home::new();
        home.write("servers.json", &json!({ "mcpServers": servers }).to_string());
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("writes");
        path
    }

    /// The binary with this home, and with `servers.json` where it is there.
    pub(crate) fn command(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(CALLBOARD);
        command.env_clear().env("HOME", self.path()).current_dir(self.path());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        let servers = self.path().join("servers.json");
        if servers.exists() {
            command.arg("--config").arg(servers);
        }
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end, and checks that it leaves no process.
    pub(crate) fn run(&self, words: &[impl AsRef<OsStr>]) -> Run {
        let run = finish(self.command(words).spawn().expect("starts"), Instant::now());
        self.assert_nothing_left();
        run
    }

    /// Fails when a process that was given this home still runs.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        let begun = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < GONE_WITHIN, "left behind: {left:?}");
            std::thread::yield_now();
        }
    }

    /// Process ids of those whose command line holds this.
    pub(crate) fn pids(&self, part: &str) -> Vec<i32> {
        self.seen().into_iter().filter(|(_, line)| line.contains(part)).map(|(pid, _)| pid).collect()
    }

    /// Command lines of the processes that were given this home.
    pub(crate) fn processes(&self) -> Vec<String> {
        self.seen().into_iter().map(|(_, line)| line).collect()
    }

    fn seen(&self) -> Vec<(i32, String)> {
        let mark = format!("HOME={}", self.path().display());
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids =
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
        pids.filter(|entry| {
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .filter_map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).ok().filter(|line| !line.is_empty())?;
            let pid = entry.file_name().to_string_lossy().parse().ok()?;
            Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        })
        .collect()
    }
}

/// A built-in server as a child process.
pub(crate) fn builtin(words: &[&str]) -> Value {
    let args: Vec<&str> = std::iter::once("builtin").chain(words.iter().copied()).collect();
    json!({ "command": CALLBOARD, "args": args })
}

/// A server that says nothing and stays.
pub(crate) fn hanging() -> Value {
    json!({ "command": "sleep", "args": ["1000"] })
}

/// Waits for the end of a child, with all it wrote; kills it when it takes too long.
pub(crate) fn finish(mut child: Child, started: Instant) -> Run {
    let read = |stream: Option<Box<dyn Read + Send>>| {
        let (send, read) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stream) = stream {
                let _ = stream.read_to_end(&mut text);
            }
            let _ = send.send(String::from_utf8_lossy(&text).into_owned());
        });
        read
    };
    let stdout = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let status = wait(&mut child);
    let took = started.elapsed();
    let text =
        |stream: mpsc::Receiver<String>| stream.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
    Run { code: status.code(), stdout: text(stdout), stderr: text(stderr), took }
}

fn wait(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        if begun.elapsed() > COMMAND_MAX {
            let _ = child.kill();
            panic!("the command goes on after {COMMAND_MAX:?}");
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
