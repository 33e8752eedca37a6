//! A server that can misbehave as a process: it starts others, hears nothing, floods stderr, dies, says nothing.
//!
//! It speaks just enough of the sessions' era to be connected, listed and called (tool `pid`). The words after
//! `--tag` and the number of the process that judges it are what a test finds it and its descendants by.

use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Ends what no test has ended.
const LIFE_MAX: Duration = Duration::from_secs(180);

/// What a flood writes at once and how often: more than a pipe takes, and not all of a processor.
const FLOOD_BYTES: usize = 256 * 1024;
const FLOOD_EVERY: Duration = Duration::from_millis(20);

/// What it does besides.
#[derive(Debug, Default)]
struct Manners {
    /// Found in every command line of the family.
    tag: String,
    /// Made when the list of tools has been asked for.
    up: Option<String>,
    /// Starts a child that minds nothing but signals and holds all three streams.
    grandchild: bool,
    /// Minds neither the end of its input nor SIGTERM, SIGINT and SIGHUP.
    deaf: bool,
    /// Writes to stderr for as long as it lives.
    stderr_flood: bool,
    /// Never answers.
    silent: bool,
    /// Ends at once, with code 3.
    exits: bool,
    /// Is a grandchild.
    lingers: bool,
}

fn main() -> ExitCode {
    let manners = match manners(std::env::args().skip(1)) {
        Ok(manners) => manners,
        Err(word) => {
            eprintln!("test-server: what is {word:?}?");
            return ExitCode::from(2);
        }
    };
    system::live_at_most(LIFE_MAX);
    if manners.exits {
        eprintln!("test-server: as I was told");
        return ExitCode::from(3);
    }
    if manners.deaf {
        system::hear_nothing();
    }
    if manners.lingers {
        stay();
    }
    if manners.grandchild
        && let Err(error) = start_grandchild(&manners)
    {
        eprintln!("test-server: no grandchild: {error}");
        return ExitCode::FAILURE;
    }
    if manners.stderr_flood {
        std::thread::spawn(flood);
    }
    serve(&manners);
    if manners.deaf {
        stay();
    }
    ExitCode::SUCCESS
}

fn manners(words: impl Iterator<Item = String>) -> Result<Manners, String> {
    let mut manners = Manners::default();
    let mut words = words;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--tag" => manners.tag = words.next().ok_or(word)?,
            "--up" => manners.up = Some(words.next().ok_or(word)?),
            "--plain" => {}
            "--grandchild" => manners.grandchild = true,
            "--deaf" => manners.deaf = true,
            "--stderr-flood" => manners.stderr_flood = true,
            "--silent" => manners.silent = true,
            "--exits" => manners.exits = true,
            "--lingers" => manners.lingers = true,
            _ => return Err(word),
        }
    }
    Ok(manners)
}

fn start_grandchild(manners: &Manners) -> std::io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--tag", &manners.tag, "--lingers"]).args(manners.deaf.then_some("--deaf"));
    command.stdin(Stdio::inherit()).spawn().map(drop)
}

fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

fn flood() {
    let text = "All work and no play makes Jack a dull boy.\n".repeat(FLOOD_BYTES / 44);
    while std::io::stderr().write_all(text.as_bytes()).is_ok() {
        std::thread::park_timeout(FLOOD_EVERY);
    }
}

fn serve(manners: &Manners) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        if manners.silent {
            continue;
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let method = message["method"].as_str().unwrap_or_default();
        if let Some(id) = message.get("id") {
            let mut reply = json!({ "jsonrpc": "2.0", "id": id });
            match answer(method) {
                Some(result) => reply["result"] = result,
                None => reply["error"] = json!({ "code": -32601, "message": "method not found" }),
            }
            if writeln!(std::io::stdout(), "{reply}").is_err() {
                return;
            }
        }
        if method == "tools/list"
            && let Some(file) = &manners.up
        {
            // A test that waits for it says what is missing.
            let _ = std::fs::write(file, std::process::id().to_string());
        }
    }
}

fn answer(method: &str) -> Option<Value> {
    let pid = || std::process::id().to_string();
    Some(match method {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "test-server", "version": "1" },
        }),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": [{ "name": "pid", "inputSchema": { "type": "object" } }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": pid() }] }),
        _ => return None,
    })
}

#[cfg(unix)]
mod system {
    use std::time::Duration;

    pub(super) fn live_at_most(time: Duration) {
        let seconds = libc::c_uint::try_from(time.as_secs()).unwrap_or(libc::c_uint::MAX);
        // SAFETY: sets a timer of this process; no memory is involved.
        unsafe { libc::alarm(seconds) };
    }

    pub(super) fn hear_nothing() {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            // SAFETY: ignoring a signal installs no handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
}

/// Nothing of this is asked for where there are no signals.
#[cfg(not(unix))]
mod system {
    use std::time::Duration;

    pub(super) fn live_at_most(_time: Duration) {}

    pub(super) fn hear_nothing() {}
}
