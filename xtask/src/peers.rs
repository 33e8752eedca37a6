//! Peers that are not ours: scripted servers, the official suite, public servers.

use crate::shell::{self, Outcome, Profile, chore};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const NODE: (&str, (u32, u32)) = ("node", (20, 0));
const PYTHON: (&str, (u32, u32)) = ("python3", (3, 11));
/// What `play.py` may ask of the driver (fakeserver README, `needs`).
const FEATURES: [&str; 4] = ["modern", "legacy-sse", "auto-pagination", "progress-timeout"];

/// Why something cannot be done on this machine, if so.
fn lacking(needed: &[(&str, (u32, u32))]) -> Option<String> {
    let lacks = |(name, least): &(&str, (u32, u32))| match shell::version_of(name) {
        None => Some(format!("{name} is not installed")),
        Some(found) if found < *least => Some(format!("{name} {}.{} is too old", found.0, found.1)),
        Some(_) => None,
    };
    needed.iter().find_map(lacks)
}

// ------------------------------------------------------------------------------------------- cases

#[derive(Debug, Default, PartialEq, Eq)]
struct CaseOptions {
    all: bool,
    adopt: bool,
    driver: Option<String>,
    kinds: Vec<String>,
}

impl CaseOptions {
    fn parse(words: &[&str]) -> Result<CaseOptions, String> {
        let mut options = CaseOptions::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().map(|value| (*value).to_owned()).ok_or(format!("{word} needs a value"));
            match *word {
                "--all" => options.all = true,
                "--adopt" => (options.all, options.adopt) = (true, true),
                "--driver" => options.driver = Some(value()?),
                "--kind" => options.kinds.push(value()?),
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(options)
    }
}

/// Plays the repository's cases, or all that are beside the checkout.
pub(crate) fn cases(words: &[&str]) -> Outcome {
    let options = match CaseOptions::parse(words) {
        Ok(options) => options,
        Err(why) => return Outcome::Failed(why),
    };
    if let Some(why) = lacking(&[PYTHON]) {
        return Outcome::LeftOut(why);
    }
    let own = shell::root().join("tests/cases");
    let handed = shell::shared().map(|shared| shared.join("cases/handed")).filter(|dir| dir.is_dir());
    let folder = match (options.all, handed) {
        (false, _) => own.clone(),
        (true, Some(handed)) => handed,
        (true, None) => return Outcome::LeftOut("there are no cases beside the checkout".into()),
    };
    if case_files(&folder).is_empty() {
        return Outcome::LeftOut(format!("no case in {}", folder.display()));
    }
    match play(&options, &folder) {
        Ok((outcome, rows)) if options.adopt => adopt(&folder, &own, &rows).unwrap_or(outcome),
        Ok((outcome, _)) => outcome,
        Err(why) => Outcome::Failed(why),
    }
}

fn case_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
}

/// A row of what `play.py --out` writes.
#[derive(Deserialize)]
struct Row {
    id: String,
    result: String,
}

fn play(options: &CaseOptions, folder: &Path) -> Result<(Outcome, Vec<Row>), String> {
    let driver = match &options.driver {
        Some(driver) => driver.clone(),
        None => shell::build("callboard-tests", "case-driver", Profile::Debug)?.display().to_string(),
    };
    let out = scratch("cases")?.join("rows.json");
    let mut command = shell::program("python3");
    command.arg("tests/fakeserver/play.py").args(["--driver", &driver]).arg("--out").arg(&out);
    command.args(FEATURES.iter().flat_map(|feature| ["--has", feature]));
    command.args(options.kinds.iter().flat_map(|kind| ["--kind", kind]));
    if !options.all {
        // What was taken into the repository passed once: a wish that fails now is a step back.
        command.arg("--strict");
    }
    let outcome = chore(command.arg(folder), &["'pass':"]);
    let rows = fs::read_to_string(&out).unwrap_or_else(|_| "[]".into());
    let rows: Vec<Row> =
        serde_json::from_str(&rows).map_err(|error| format!("rows do not decode: {error}"))?;
    if rows.is_empty() {
        return Ok((Outcome::Failed("no case was played".into()), rows));
    }
    Ok((outcome, rows))
}

/// Copies the cases that passed; an outcome only when that went wrong.
fn adopt(from: &Path, to: &Path, rows: &[Row]) -> Option<Outcome> {
    let passed: BTreeSet<&str> =
        rows.iter().filter(|row| row.result == "pass").map(|row| row.id.as_str()).collect();
    let mut copied = 0;
    for path in case_files(from) {
        let is_passed = path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|id| passed.contains(id));
        let target = to.join(path.file_name().unwrap_or_default());
        if !is_passed || target.exists() {
            continue;
        }
        // By content: the source may be read-only.
        if let Err(error) = fs::read(&path).and_then(|text| fs::write(&target, text)) {
            return Some(Outcome::Failed(format!("cannot copy {}: {error}", path.display())));
        }
        copied += 1;
    }
    println!("{copied} cases copied to tests/cases");
    None
}

// ------------------------------------------------------------------------------------ the official suite

/// How `conformance-client` gets to know the era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EraChoice {
    /// The suite says it.
    Told,
    /// It finds it by probing.
    Found,
}

/// Both required sets of client scenarios.
pub(crate) fn conformance(era: EraChoice) -> Outcome {
    if let Some(why) = lacking(&[NODE]) {
        return Outcome::LeftOut(why);
    }
    let home = shell::kit("CONFORMANCE_HOME", "conformance");
    if let Err(why) = set_up(shell::program("tests/conformance/setup.sh").env("CONFORMANCE_HOME", &home)) {
        return Outcome::LeftOut(why);
    }
    let client = match shell::build("callboard-tests", "conformance-client", Profile::Debug) {
        Ok(client) => client,
        Err(why) => return Outcome::Failed(why),
    };
    if client.display().to_string().contains(' ') {
        return Outcome::LeftOut(format!("the suite takes no blanks in paths: {}", client.display()));
    }
    let mut command = shell::program("tests/conformance/client.sh");
    command.env("CONFORMANCE_HOME", &home);
    let (name, without) = match era {
        EraChoice::Told => ("told", &[][..]),
        EraChoice::Found => ("found", &["env", "-u", "MCP_CONFORMANCE_PROTOCOL_VERSION"][..]),
    };
    command.args(["--expected-failures", "tests/known-failures/conformance.yml"]);
    command.arg("--out").arg(home.join(format!("results-{name}"))).arg("--").args(without).arg(client);
    match shell::run(&mut command) {
        Err(why) => Outcome::Failed(why),
        Ok(ended) => {
            let legs = ended.tail.iter().filter(|line| line.contains(" passed, ")).cloned();
            let legs = legs.collect::<Vec<_>>().join("; ");
            if ended.ok { Outcome::Passed(legs) } else { Outcome::Failed(legs) }
        }
    }
}

fn set_up(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match shell::run(command) {
        Ok(ended) if ended.ok => Ok(()),
        Ok(ended) => {
            Err(format!("{name} failed{}", shell::after_colon(ended.last_with(&[""]).unwrap_or_default())))
        }
        Err(why) => Err(why),
    }
}

// -------------------------------------------------------------------------------------- public servers

/// Public servers, judged through the command.
pub(crate) fn real_servers() -> Outcome {
    if let Some(why) = lacking(&[NODE, PYTHON]) {
        return Outcome::LeftOut(why);
    }
    let kit = shell::kit("CALLBOARD_REAL_SERVERS", "real-servers");
    if let Err(why) = set_up(shell::program("tests/real-servers/setup.sh").arg(&kit)) {
        return Outcome::LeftOut(why);
    }
    let callboard = match shell::build("callboard-cli", "callboard", Profile::Debug) {
        Ok(callboard) => callboard,
        Err(why) => return Outcome::Failed(why),
    };
    let known =
        fs::read_to_string(shell::root().join("tests/known-failures/real-servers.txt")).unwrap_or_default();
    match shell::run(shell::program("python3").arg("tests/real-servers/check.py").arg(callboard).arg(&kit)) {
        Err(why) => Outcome::Failed(why),
        Ok(ended) => judge(ended.tail.iter().map(String::as_str), &known),
    }
}

/// Compares `PASS name` and `FAIL name: why` lines with the list of failures that are known.
fn judge<'a>(lines: impl Iterator<Item = &'a str>, known: &str) -> Outcome {
    let known: BTreeSet<&str> =
        known.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let (mut passed, mut failed) = (BTreeSet::new(), BTreeSet::new());
    let mut is_whole = false;
    for line in lines {
        if let Some(rest) = line.strip_prefix("PASS ") {
            passed.insert(name_of(rest));
        } else if let Some(rest) = line.strip_prefix("FAIL ") {
            failed.insert(name_of(rest));
        }
        is_whole |= line.contains(" passed, ") && line.ends_with(" failed");
    }
    let told = |names: &[&str]| names.join(", ");
    let new: Vec<&str> = failed.difference(&known).copied().collect();
    let stale: Vec<&str> = passed.intersection(&known).copied().collect();
    if passed.is_empty() {
        return Outcome::Failed("nothing passed".into());
    }
    // A check that broke off half-way judged only what came before.
    if !is_whole {
        return Outcome::Failed("it did not come to its end".into());
    }
    match (new.as_slice(), stale.as_slice()) {
        ([], []) => Outcome::Passed(format!("{} passed, {} failed as known", passed.len(), failed.len())),
        ([], stale) => {
            Outcome::Failed(format!("pass now, so strike them from the known failures: {}", told(stale)))
        }
        (new, _) => Outcome::Failed(format!("{} failed: {}", new.len(), told(new))),
    }
}

fn name_of(rest: &str) -> &str {
    rest.split(": ").next().unwrap_or(rest)
}

/// A folder below the kits for what a run writes.
fn scratch(name: &str) -> Result<PathBuf, String> {
    let folder = shell::target().join("kit").join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_cases() {
        let parsed =
            CaseOptions::parse(&["--adopt", "--driver", "node x.mjs", "--kind", "naming"]).expect("parses");
        let kinds = vec!["naming".to_owned()];
        assert_eq!(parsed, CaseOptions { all: true, adopt: true, driver: Some("node x.mjs".into()), kinds });
        assert_eq!(CaseOptions::parse(&["--driver"]), Err("--driver needs a value".into()));
        assert_eq!(CaseOptions::parse(&["x"]), Err("unknown option x".into()));
    }

    #[test]
    fn a_program_that_is_missing_or_old_leaves_a_step_out() {
        assert_eq!(
            lacking(&[("no-such-program-here", (1, 0))]),
            Some("no-such-program-here is not installed".into())
        );
        assert!(lacking(&[("rustc", (999, 0))]).is_some_and(|why| why.ends_with("is too old")));
        assert_eq!(lacking(&[("rustc", (1, 0))]), None);
    }

    #[test]
    fn known_failures_pass_new_ones_and_stale_entries_fail() {
        let lines = ["PASS tools a: 3", "FAIL call b: no, that: was wrong", "1 passed, 1 failed"];
        let judged = |known: &str| judge(lines.into_iter(), known);
        assert_eq!(judged("# why\ncall b\n"), Outcome::Passed("1 passed, 1 failed as known".into()));
        assert_eq!(judged(""), Outcome::Failed("1 failed: call b".into()));
        assert!(matches!(judged("call b\ntools a"), Outcome::Failed(why) if why.ends_with("tools a")));
        assert_eq!(judge(["0 passed"].into_iter(), ""), Outcome::Failed("nothing passed".into()));
        let broken_off = judge(["PASS tools a", "Traceback"].into_iter(), "");
        assert_eq!(broken_off, Outcome::Failed("it did not come to its end".into()));
    }
}
