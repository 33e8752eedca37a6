//! Light servers for `chaos`, which fail when they are told to.
//!
//! `chaos-server --stdio N --ledger FILE --tag TEXT` is one server on its own streams. With `--http COUNT` in the
//! place of `--stdio N` it is many on loopback: it prints `addresses A…`, the one of the first server first, takes
//! the faults of [`host`] from its stdin and ends with it. Each call that is performed goes into the ledger before
//! anything else happens to it. Nobody has to end these processes: they do not live longer than `--life` seconds.

mod answer;
mod host;
mod http;
mod request;
mod stdio;

use callboard_tests::ledger::Ledger;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the words of the command line say.
#[derive(Debug, Default)]
struct Job {
    stdio: Option<u32>,
    http: Option<u32>,
    /// The number of the first server over HTTP.
    first: u32,
    ledger: PathBuf,
    life_s: u32,
}

fn main() -> ExitCode {
    match job(std::env::args().skip(1)).and_then(|job| run(&job)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("chaos-server: {why}");
            ExitCode::from(2)
        }
    }
}

fn job(mut words: impl Iterator<Item = String>) -> Result<Job, String> {
    let mut job = Job { life_s: 60, ..Job::default() };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{word}: {value:?} is no number"));
        match word.as_str() {
            "--stdio" => job.stdio = Some(number()?),
            "--http" => job.http = Some(number()?),
            "--first" => job.first = number()?,
            "--life" => job.life_s = number()?,
            "--ledger" => job.ledger = value.into(),
            // Others find us by it.
            "--tag" => {}
            _ => return Err(format!("what is {word:?}?")),
        }
    }
    Ok(job)
}

fn run(job: &Job) -> Result<(), String> {
    live_at_most(job.life_s);
    let ledger = Ledger::open(&job.ledger).map_err(|error| format!("{}: {error}", job.ledger.display()))?;
    match (job.stdio, job.http) {
        (Some(number), None) => stdio::serve(number, &ledger),
        (None, Some(count)) => host::run(job.first, count, ledger),
        _ => return Err("give one of --stdio and --http".into()),
    }
    .map_err(|error| error.to_string())
}

#[cfg(unix)]
fn live_at_most(seconds: u32) {
    // SAFETY: sets a timer of this process; no memory is involved.
    unsafe { libc::alarm(seconds) };
}

/// Without such a timer the end of the input is what ends us.
#[cfg(not(unix))]
fn live_at_most(_seconds: u32) {}
