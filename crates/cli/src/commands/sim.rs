//! `sim`: the configured servers on the simulated world, and what becomes of them.

mod file;

use crate::app::App;
use crate::args::SimArgs;
use crate::output::{CliError, Exit, Sheet, Tone};
use callboard_testkit::report::{self, ServerSummary, Summary, duration};
use callboard_testkit::{Recording, Scenario, SimError, run};
use file::Setup;
use std::cmp::Reverse;
use std::fmt::Write;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Longest scenario: with a line a server, more than any world holds.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Servers that a table tells of; a report has them all.
const ROWS_MAX: usize = 50;

/// Plays a scenario and says what became of the servers.
pub(super) async fn sim(app: &App, args: SimArgs) -> Result<(), CliError> {
    let text = read(&args.file).map_err(|error| {
        let fact = format!("cannot read {}: {error}", args.file.display());
        CliError::new(Exit::Config, "bad-scenario", fact).hint("give the path of a scenario, a TOML file")
    })?;
    let config = app.config();
    config.warn(&app.screen);
    let setup = Setup::of(config);
    let (scenario, notes) = file::scenario(&args, &text, &setup)?;
    notes.iter().for_each(|note| app.screen.warn(note));
    let recording = played(scenario, &args.file).await?;
    let summary = report::summary(&recording);
    if app.screen.is_json() {
        let document = report::json(&recording);
        let document: serde_json::Value = serde_json::from_str(&document)
            .map_err(|error| CliError::internal(format!("the document is no JSON: {error}")))?;
        app.screen.document(&document)?;
    } else {
        tell(app, &summary)?;
    }
    if let Some(folder) = &args.report {
        write_report(app, folder, &recording)?;
    }
    match summary.broken.first() {
        None => Ok(()),
        Some(first) => {
            let all = summary.broken.len();
            let fact =
                format!("{all} invariants were broken, the first is {}: {}", first.invariant, first.detail);
            Err(CliError::new(Exit::Usage, "invariant-broken", fact).hint(format!(
                "this is a defect of callboard; to see it again: callboard sim {} --seed {}",
                args.file.display(),
                summary.seed
            )))
        }
    }
}

/// The text of a scenario, which is not read beyond its bound.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}

/// Runs it on a thread of its own, where a world has its own runtime.
async fn played(scenario: Scenario, file: &Path) -> Result<Recording, CliError> {
    let run = tokio::task::spawn_blocking(move || run(&scenario)).await;
    match run.map_err(|error| CliError::internal(format!("the simulation ended early: {error}")))? {
        Ok(recording) => Ok(recording),
        Err(SimError::Scenario(problems)) => Err(CliError::new(
            Exit::Config,
            "bad-scenario",
            format!("{}: {}", file.display(), problems.join("; ")),
        )
        .hint("change the file so that its parts fit together")),
        Err(error) => Err(CliError::internal(error.to_string())),
    }
}

fn write_report(app: &App, folder: &Path, recording: &Recording) -> Result<(), CliError> {
    let failed = |error: std::io::Error| {
        CliError::usage(format!("cannot write the report into {}: {error}", folder.display()))
            .hint("give a folder that can be written to")
    };
    fs::create_dir_all(folder).map_err(failed)?;
    fs::write(folder.join("report.json"), report::json(recording)).map_err(failed)?;
    let page = folder.join("report.html");
    fs::write(&page, report::html(recording)).map_err(failed)?;
    app.screen.note(&format!("pictures: {}", page.display()));
    Ok(())
}

fn tell(app: &App, summary: &Summary) -> Result<(), CliError> {
    let mut order: Vec<&ServerSummary> = summary.servers.iter().collect();
    if order.len() > ROWS_MAX {
        order.sort_by_key(|server| Reverse(server.outage_ms));
        order.truncate(ROWS_MAX);
    }
    let headings =
        ["NAME", "TRANSPORT", "CONNECTED", "CALLS", "FAILED", "RECONNECTS", "LONGEST OUTAGE", "OTHER STATES"];
    let rows: Vec<Vec<String>> = order.iter().map(|server| row(server, summary.duration_ms)).collect();
    let sheet = Sheet::fitting(&app.screen, &headings, &rows);
    app.screen.result(&sheet.head())?;
    for (cells, server) in rows.iter().zip(&order) {
        let failed = (server.calls_failed > 0).then_some(Tone::Bad);
        let outage = (server.outages > 0).then_some(Tone::Warn);
        let tones = [Some(Tone::Accent), Some(Tone::Dim), None, None, failed, None, outage, Some(Tone::Dim)];
        app.screen.result(&sheet.lines(cells, &tones))?;
    }
    if summary.servers.len() > order.len() {
        app.screen.note(&format!(
            "the {} servers with the longest outages, of {}; --json and --report have more",
            order.len(),
            summary.servers.len()
        ));
    }
    app.screen.result(&format!("\n{}", sums(summary)))?;
    for broken in &summary.broken {
        let server = broken.server.as_deref().unwrap_or("-");
        let at = duration(broken.at_ms);
        let line = format!("broken after {at}: {} (server {server}): {}", broken.invariant, broken.detail);
        app.screen.result(&crate::output::printable(&line))?;
    }
    Ok(())
}

fn row(server: &ServerSummary, whole_ms: u64) -> Vec<String> {
    let outage = match server.outages {
        0 => "-".to_owned(),
        _ => duration(server.longest_outage_ms),
    };
    let others = server.state_ms.iter().filter(|(state, _)| **state != "connected");
    let others: Vec<String> =
        others.map(|(state, ms)| format!("{state} {}", report::percent(*ms, whole_ms))).collect();
    vec![
        server.name.clone(),
        server.transport.clone(),
        report::percent(server.in_state("connected"), whole_ms),
        server.calls.to_string(),
        server.calls_failed.to_string(),
        server.reconnects.to_string(),
        outage,
        others.join(", "),
    ]
}

/// The run in a few lines.
fn sums(summary: &Summary) -> String {
    let (totals, storm) = (&summary.totals, &summary.storm);
    let mut text = format!("calls: {}, {} answered", totals.calls, report::percent(totals.ok, totals.calls));
    if let Some(ok) = summary.outcomes.get("ok") {
        // A String takes everything.
        let _ = write!(
            text,
            " (half within {}, 95 % within {}, 99 % within {})",
            duration(ok.p50_ms),
            duration(ok.p95_ms),
            duration(ok.p99_ms)
        );
    }
    let bad = summary.outcomes.iter().filter(|(end, _)| **end != "ok");
    let bad: Vec<String> = bad.map(|(end, sum)| format!("{} {end}", sum.calls)).collect();
    if !bad.is_empty() {
        // A String takes everything.
        let _ = write!(text, "; {}", bad.join(", "));
    }
    // A String takes everything.
    let _ = write!(
        text,
        "\ndials: {}, at most {} within a second; at most {} servers away at once; longest gap between attempts {}\n",
        storm.dials,
        storm.dials_per_second_max,
        storm.away_max,
        duration(storm.gap_max_ms)
    );
    let held = match summary.broken.len() {
        0 => "every invariant held".to_owned(),
        many => format!("{many} invariants broken"),
    };
    let (virtual_time, real) = (duration(summary.duration_ms), duration(totals.real_ms));
    text + &format!("{held}; {virtual_time} simulated in {real}, seed {}", summary.seed)
}
