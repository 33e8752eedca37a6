//! Real chaos: a board as a host has it, servers that are killed, stopped, reset, swallowed, redeployed and that
//! lie, and callers who count. Whatever must hold and does not is printed at the end, and is the exit code.
//!
//! What must hold, while it goes on:
//! - every call ends, exactly once, no more than [`OVERSHOOT_MAX`] after its deadline, with the answer of its own;
//! - no call that is said to be unsent or refused was performed, none was performed twice, and each answered one
//!   was performed by the server that was asked, by the servers' own ledger;
//! - every child that ended is reaped;
//!
//! and after it: every server serves again within [`BACK_MAX`], without help if it is remote. A child's server that
//! was given up (`failed`) stays so by design, so the host reconnects it by hand, which is counted. Descriptors,
//! tasks and memory are those of before, and closing the board leaves no process and no descriptor.

mod board;
mod callers;
mod faults;
mod host;
mod judge;
mod options;
mod system;
mod watch;

use board::Keeper;
use callboard_tests::ledger;
use callers::Book;
use faults::Faults;
use host::Host;
use judge::{Report, Violations};
use options::Options;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use system::Sample;
use tokio::time::Instant;
use watch::{Lateness, Watch};

/// What a call may take beyond its deadline.
const OVERSHOOT_MAX: Duration = Duration::from_millis(250);
/// What a server may take to serve again once nothing hurts it any more: the largest gap that five attempts lead
/// to (16 s), a connect that times out, the slow retry as set here, another connect, and a busy machine.
const BACK_MAX: Duration = Duration::from_secs(40);
/// What a closed board may take to let go of all it was made of.
const RELEASED_WITHIN: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("chaos: {why}");
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("chaos: no runtime: {error}");
            return ExitCode::from(2);
        }
    };
    let folder = std::env::temp_dir().join(options.tag());
    let violations = Arc::new(Violations::default());
    let ran = runtime.block_on(run(&options, &folder, &violations));
    runtime.shutdown_timeout(Duration::from_secs(1));
    let _ = std::fs::remove_dir_all(&folder);
    match ran {
        Ok(report) => report.conclude(&options, &violations),
        Err(why) => {
            eprintln!("chaos: {why}");
            ExitCode::from(2)
        }
    }
}

async fn run(options: &Options, folder: &Path, violations: &Arc<Violations>) -> Result<Report, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let ledger = folder.join("ledger");
    // The signal and child drivers open what they keep on first use.
    drop(tokio::time::timeout(Duration::ZERO, tokio::signal::ctrl_c()).await);
    let before = Sample::take();
    let mut host = Host::start(options, &ledger).await?;
    let board = Arc::new(board::build(options, &ledger, host.addresses()).await?);
    board::all_connected(&board, options).await?;
    let quiet = Sample::take();
    println!("all {} servers are connected", options.stdio + options.http);

    let book = Arc::new(Book::new(options));
    let events = tokio::spawn(watch::count_events(board.events()));
    let lateness = Lateness::start();
    let watching = Watch::start(options, violations.clone());
    let keeper = Keeper::start(&board, options);
    let calling = callers::start(options, &board, &book, violations);
    let mut faults = Faults::new(options, &board, host.commands());
    let until = Instant::now() + options.time;
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => eprintln!("chaos: ends early"),
        () = faults.inflict(until) => {}
    }
    faults.end();
    host.restore().await?;
    calling.stop(violations).await;
    let back = board::all_back(&board, &book, violations).await;
    let samples = watching.stop().await;
    let settled = Sample::take();
    let reconnected_by_hand = keeper.stop();
    let lateness = lateness.stop();
    let inflicted = faults.told();
    drop(faults);
    let closing = Instant::now();
    board.close().await;
    let closed_in = closing.elapsed();
    drop(board);
    // They end with the last that holds a part of the board.
    let events = match tokio::time::timeout(RELEASED_WITHIN, events).await {
        Ok(events) => events.unwrap_or_default(),
        Err(_) => {
            violations.add("something still holds the closed board".into());
            Default::default()
        }
    };
    host.end().await;
    let after = system::nothing_left(&before).await;
    let performed = ledger::read(&ledger).map_err(|error| format!("the ledger: {error}"))?;
    book.judge(&performed, violations);
    Ok(Report {
        inflicted,
        calls: book.counts(),
        overshoot: book.overshoot(),
        before,
        quiet,
        settled,
        after,
        samples,
        back,
        reconnected_by_hand,
        closed_in,
        events,
        lateness,
        performed: performed.len(),
    })
}
