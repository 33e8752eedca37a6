//! Runs scenarios of the simulated world: generated ones by their seeds, or one from a file.

mod args;
mod memory;

use args::{Args, Task};
use callboard_testkit::{Instruments, Recording, Scenario, report, run_with, shrink};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Runs that shrinking may take.
const SHRINK_RUNS_MAX: usize = 400;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let args = match Args::read(&words) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("error: {why}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match run_all(&args) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

/// Runs everything that was asked for; gives how many runs were bad.
fn run_all(args: &Args) -> Result<usize, String> {
    let tasks = args.tasks()?;
    let began = Instant::now();
    let (mut bad, mut sums) = (0, Sums::default());
    for task in &tasks {
        let recording = run_once(args, task)?;
        let mut is_bad = !recording.broken.is_empty();
        if args.twice {
            let again = hash_elsewhere(&task.words)?;
            if again != recording.trace_hash {
                is_bad = true;
                println!("{}: BROKEN same-trace: {} and {again}", task.name, recording.trace_hash);
            }
        }
        sums.add(&recording);
        tell(args, task, &recording);
        if let Some(folder) = &args.report {
            write_report(folder, &task.name, &recording)?;
        }
        if is_bad {
            bad += 1;
            if args.shrink && !recording.broken.is_empty() {
                tell_smallest(&task.scenario);
            }
            if args.first {
                break;
            }
        }
    }
    if !args.json {
        println!(
            "{} runs, {bad} bad, {} calls ({} ok), {} dials, {} steps, longest step {} ms, {:.1} s",
            tasks.len(),
            sums.calls,
            sums.ok,
            sums.dials,
            sums.steps,
            sums.longest_step_real_ms,
            began.elapsed().as_secs_f64(),
        );
    }
    Ok(bad)
}

#[derive(Default)]
struct Sums {
    calls: u64,
    ok: u64,
    dials: u64,
    steps: u64,
    longest_step_real_ms: u64,
}

impl Sums {
    fn add(&mut self, recording: &Recording) {
        let totals = &recording.totals;
        self.calls += totals.calls;
        self.ok += totals.ok;
        self.dials += totals.dials;
        self.steps += totals.steps;
        self.longest_step_real_ms = self.longest_step_real_ms.max(totals.longest_step_real_ms);
    }
}

fn run_once(args: &Args, task: &Task) -> Result<Recording, String> {
    let mut instruments = Instruments {
        peak_rss_kib: Some(memory::peak_rss_kib),
        detail: args.detail(),
        ..Instruments::default()
    };
    if let Some(path) = &args.trace {
        let file = fs::File::create(path).map_err(|error| format!("{path}: {error}"))?;
        let mut lines = std::io::BufWriter::new(file);
        instruments.trace = Some(Box::new(move |line| drop(writeln!(lines, "{line}"))));
    }
    if args.watches_memory() {
        instruments.memory = Some(memory::in_use);
    }
    run_with(&task.scenario, instruments).map_err(|error| format!("{}: {error}", task.name))
}

/// The digest of the same run in another process, which shares neither memory nor random state with this one.
fn hash_elsewhere(words: &[String]) -> Result<String, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let output = std::process::Command::new(own).args(words).args(["--json", "--sums"]).output();
    let output = output.map_err(|error| format!("cannot run this program again: {error}"))?;
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the other process did not tell of its run: {error}"))?;
    Ok(told["trace_hash"].as_str().unwrap_or_default().to_owned())
}

fn tell(args: &Args, task: &Task, recording: &Recording) {
    let totals = &recording.totals;
    if args.json {
        let line = serde_json::json!({
            "name": task.name,
            "seed": recording.seed,
            "trace_hash": recording.trace_hash,
            "broken": recording.broken,
            "totals": totals,
        });
        println!("{line}");
        return;
    }
    if !args.quiet || !recording.broken.is_empty() {
        println!(
            "{}: {} calls, {} ok, {} dials, {} steps, {} ms, longest step {} ms, peak {} KiB, {}",
            task.name,
            totals.calls,
            totals.ok,
            totals.dials,
            totals.steps,
            totals.real_ms,
            totals.longest_step_real_ms,
            totals.peak_rss_kib,
            recording.trace_hash,
        );
    }
    for broken in &recording.broken {
        let server = broken.server.as_deref().unwrap_or("-");
        println!("  BROKEN {} at {} ms, server {server}: {}", broken.invariant, broken.at_ms, broken.detail);
    }
}

/// Writes what a run looked like.
fn write_report(folder: &Path, name: &str, recording: &Recording) -> Result<(), String> {
    let stem: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let write = |ending: &str, text: String| {
        let path = folder.join(format!("{stem}.{ending}"));
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    write("html", report::html(recording))?;
    write("json", report::json(recording))
}

fn tell_smallest(scenario: &Scenario) {
    eprintln!("shrinking…");
    if let Some((smallest, invariant)) = shrink(scenario, SHRINK_RUNS_MAX) {
        println!("# breaks {invariant}\n{}", smallest.to_toml());
    }
}

/// Reads a scenario from a file.
fn read(path: &Path) -> Result<Scenario, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Scenario::from_toml(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The scenario of a seed.
fn generated(seed: u64, servers: u32, hours: f64) -> Scenario {
    Scenario::generated(seed, servers, Duration::from_secs_f64(hours * 3_600.0))
}
