//! Measuring: the bench with `bench-driver` as subject, and the two gates that ci asks for.

use crate::shell::{self, Outcome, Profile, chore};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where the bench builds and writes.
fn folder() -> PathBuf {
    shell::kit("BENCH_DIR", "bench")
}

/// The whole bench; `words` go to `run.sh`.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let driver = match shell::build("callboard-tests", "bench-driver", Profile::Release) {
        Ok(driver) => driver,
        Err(why) => return Outcome::Failed(why),
    };
    let mut command = shell::program("bench/run.sh");
    command.args(words).env("BENCH_DIR", folder()).arg("--subject").arg(subject(&driver));
    chore(&mut command, &["rounds, "])
}

fn subject(driver: &Path) -> String {
    format!("callboard={}", driver.display())
}

/// Builds the server and the least client of the bench, and our driver.
fn prepare() -> Result<PathBuf, String> {
    let mut command = shell::cargo();
    command.args([
        "build",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "refserver",
        "--package",
        "rawlimit",
    ]);
    command.current_dir(shell::root().join("bench")).env("CARGO_TARGET_DIR", folder().join("target"));
    if !shell::run(&mut command)?.ok {
        return Err("the bench does not build".into());
    }
    shell::build("callboard-tests", "bench-driver", Profile::Release)
}

// ------------------------------------------------------------------------------------------ ratios

/// How many times the least client's time a call may take, client and server on one processor.
const RATIOS_MAX: [(&str, f64); 4] = [("W1", 3.0), ("W2", 5.0), ("W3", 3.0), ("W4", 4.0)];

/// A few small rounds against the least client.
pub(crate) fn smoke() -> Outcome {
    if shell::version_of("python3").is_none() {
        return Outcome::LeftOut("python3 is not installed".into());
    }
    match measured() {
        Ok(ratios) => judge_ratios(&ratios),
        Err(why) => Outcome::Failed(why),
    }
}

fn measured() -> Result<BTreeMap<String, f64>, String> {
    let driver = prepare()?;
    let workloads: Vec<&str> = RATIOS_MAX.iter().map(|(workload, _)| *workload).collect();
    let mut command = shell::program("python3");
    command.arg("bench/run.py").arg("--bench-dir").arg(folder());
    command.args(["--rounds", "3", "--scale", "0.2", "--pin", "0", "--drivers", "raw"]);
    command.args(["--workloads", &workloads.join(","), "--subject", &subject(&driver)]);
    if !shell::run(&mut command)?.ok {
        return Err("bench/run.py failed".into());
    }
    let results = newest_results(&folder()).ok_or("bench/run.py left no results")?;
    let text = fs::read_to_string(&results).map_err(|error| format!("{}: {error}", results.display()))?;
    ratios(&text)
}

/// Their names hold the time.
fn newest_results(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_result = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("results-"))
    };
    entries.filter(is_result).max()
}

/// One run of one driver, as `run.py` logs it.
#[derive(Deserialize)]
struct Run {
    workload: String,
    asked: String,
    round: u32,
    value: f64,
    errors: u64,
}

/// The median of our time divided by the least client's of the same round, by workload.
fn ratios(log: &str) -> Result<BTreeMap<String, f64>, String> {
    let mut rounds: BTreeMap<(String, u32), BTreeMap<String, f64>> = BTreeMap::new();
    for line in log.lines() {
        let run: Run =
            serde_json::from_str(line).map_err(|error| format!("a result does not decode: {error}"))?;
        if run.errors > 0 {
            return Err(format!("{} made {} errors in {}", run.asked, run.errors, run.workload));
        }
        rounds.entry((run.workload, run.round)).or_default().insert(run.asked, run.value);
    }
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for ((workload, _), values) in rounds {
        if let (Some(ours), Some(raw)) = (values.get("callboard"), values.get("raw")) {
            found.entry(workload).or_default().push(ours / raw);
        }
    }
    Ok(found.into_iter().map(|(workload, ratios)| (workload, median(ratios))).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn judge_ratios(ratios: &BTreeMap<String, f64>) -> Outcome {
    let mut wrong = Vec::new();
    let mut told = Vec::new();
    for (workload, max) in RATIOS_MAX {
        match ratios.get(workload) {
            None => wrong.push(format!("{workload} has no result")),
            Some(ratio) => {
                told.push(format!("{workload} {ratio:.2}"));
                if ratio.is_nan() || *ratio > max {
                    wrong.push(format!(
                        "{workload} takes {ratio:.2} times the least client, {max} are allowed"
                    ));
                }
            }
        }
    }
    if wrong.is_empty() {
        Outcome::Passed(format!("times the least client: {}", told.join(", ")))
    } else {
        Outcome::Failed(wrong.join("; "))
    }
}

// ------------------------------------------------------------------------------------ instructions

struct Count {
    workload: &'static str,
    words: &'static [&'static str],
    over_http: bool,
    calls: (u64, u64),
    /// Instructions one call may take in our process.
    max: u64,
}

const COUNTS: [Count; 3] = [
    Count { workload: "W1", words: &[], over_http: false, calls: (200, 1_200), max: 20_000 },
    Count {
        workload: "W2",
        words: &["--concurrency", "64"],
        over_http: false,
        calls: (640, 3_840),
        max: 16_000,
    },
    Count { workload: "W3", words: &[], over_http: true, calls: (200, 1_200), max: 90_000 },
];

/// Instructions of one call, counted: two runs of different length, and the difference divided.
pub(crate) fn counts() -> Outcome {
    if !shell::answers("valgrind", &["--version"]) {
        return Outcome::LeftOut("valgrind is not installed".into());
    }
    let driver = match prepare() {
        Ok(driver) => driver,
        Err(why) => return Outcome::Failed(why),
    };
    let mut told = Vec::new();
    let mut wrong = Vec::new();
    for count in &COUNTS {
        match per_call(count, &driver) {
            Err(why) => wrong.push(format!("{}: {why}", count.workload)),
            Ok(instructions) => {
                told.push(format!("{} {instructions}", count.workload));
                println!("{}: {instructions} instructions a call, {} allowed", count.workload, count.max);
                if instructions > count.max {
                    wrong.push(format!(
                        "{} takes {instructions} instructions a call, {} allowed",
                        count.workload, count.max
                    ));
                }
            }
        }
    }
    if wrong.is_empty() { Outcome::Passed(told.join(", ")) } else { Outcome::Failed(wrong.join("; ")) }
}

fn per_call(count: &Count, driver: &Path) -> Result<u64, String> {
    let (few, many) = count.calls;
    let difference = collected(count, driver, many)?.checked_sub(collected(count, driver, few)?);
    let difference = difference.ok_or("more calls took fewer instructions")?;
    Ok(difference / (many - few))
}

fn collected(count: &Count, driver: &Path, calls: u64) -> Result<u64, String> {
    let server = folder().join("target/release/refserver");
    let calls = calls.to_string();
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(driver);
    command
        .args(["--workload", count.workload, "--op", "call", "--warmup", "100", "--n", &calls])
        .args(count.words);
    let listening = if count.over_http { Some(Listening::start(&server)?) } else { None };
    match &listening {
        Some(listening) => command.args(["--url", &format!("http://127.0.0.1:{}/mcp", listening.port)]),
        None => command.args(["--stdio", &format!("{} --stdio", server.display())]),
    };
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run valgrind: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let report = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !report.contains("\"errors\":0") {
        return Err(format!("the driver failed: {} {}", last_line(&report), last_line(&told)));
    }
    collected_in(&told).ok_or_else(|| "valgrind printed no count".to_owned())
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

/// The number in valgrind's line `==1== Collected : 123`.
fn collected_in(told: &str) -> Option<u64> {
    told.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse().ok())
}

/// The bench's server over HTTP; ended when this is dropped.
struct Listening {
    child: Child,
    port: String,
}

impl Listening {
    fn start(server: &Path) -> Result<Listening, String> {
        let started = Command::new(server).args(["--http", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("cannot start {}: {error}", server.display()))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|pipe| BufReader::new(pipe).read_line(&mut line));
        let port = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let listening = Listening { child, port };
        match read {
            Some(Ok(_)) if !listening.port.is_empty() => Ok(listening),
            _ => Err(format!("the server printed no port: {line:?}")),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(workload: &str, asked: &str, round: u32, value: f64, errors: u64) -> String {
        format!(
            r#"{{"workload":"{workload}","asked":"{asked}","round":{round},"value":{value},"errors":{errors},"n":1}}"#
        )
    }

    #[test]
    fn ratios_are_medians_over_rounds() {
        let mut log = Vec::new();
        for (round, ours) in [(0, 20.0), (1, 90.0), (2, 30.0)] {
            log.push(line("W1", "raw", round, 10.0, 0));
            log.push(line("W1", "callboard", round, ours, 0));
        }
        assert_eq!(ratios(&log.join("\n")), Ok(BTreeMap::from([("W1".to_owned(), 3.0)])));
        assert!(ratios(&line("W1", "callboard", 0, 1.0, 2)).is_err());
        assert!(ratios("no json").is_err());
    }

    #[test]
    fn a_slow_or_missing_workload_fails() {
        let all =
            |ratio: f64| RATIOS_MAX.iter().map(|(workload, _)| ((*workload).to_owned(), ratio)).collect();
        assert!(matches!(judge_ratios(&all(1.5)), Outcome::Passed(_)));
        assert!(matches!(judge_ratios(&all(50.0)), Outcome::Failed(_)));
        assert!(matches!(judge_ratios(&all(f64::NAN)), Outcome::Failed(_)));
        assert!(matches!(judge_ratios(&BTreeMap::new()), Outcome::Failed(_)));
    }

    #[test]
    fn the_count_is_read_from_what_valgrind_prints() {
        let told = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n==7== I   refs:      123,456\n";
        assert_eq!(collected_in(told), Some(123_456));
        assert_eq!(collected_in("==7== nothing"), None);
    }
}
