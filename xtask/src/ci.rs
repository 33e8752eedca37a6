//! Everything that a change must pass, in order. A step that fails does not hide the later ones.

use crate::peers::EraChoice;
use crate::shell::{self, Outcome, chore};
use crate::{bench, chaos, peers, sim, tidy};
use std::process::ExitCode;
use std::time::Instant;

struct Step {
    name: &'static str,
    run: fn() -> Outcome,
}

const STEPS: &[Step] = &[
    Step { name: "format", run: format },
    Step { name: "spelling", run: spelling },
    Step { name: "licences and bans", run: licences },
    Step { name: "tidy", run: tidy::run },
    Step { name: "clippy", run: clippy },
    Step { name: "tests", run: tests },
    Step { name: "doc tests", run: doc_tests },
    Step { name: "docs", run: docs },
    Step { name: "simulated world", run: sim::smoke },
    Step { name: "cases", run: || peers::cases(&[]) },
    Step { name: "conformance", run: || peers::conformance(EraChoice::Told) },
    Step { name: "conformance, era found", run: || peers::conformance(EraChoice::Found) },
    Step { name: "real servers", run: peers::real_servers },
    Step { name: "chaos", run: chaos::brief },
    Step { name: "bench ratios", run: bench::smoke },
    Step { name: "bench instructions", run: bench::counts },
];

/// Runs every step and prints what came of each; the last line is `N passed, N failed`.
pub(crate) fn run() -> ExitCode {
    let mut rows = Vec::with_capacity(STEPS.len());
    for step in STEPS {
        println!("\n== {}", step.name);
        let started = Instant::now();
        let outcome = (step.run)();
        let seconds = started.elapsed().as_secs();
        println!("-- {}: {} ({seconds} s)", step.name, told(&outcome));
        rows.push((step.name, outcome));
    }
    let (summary, is_good) = summary(&rows);
    print!("\n{summary}");
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed(note) => format!("passed{}", shell::after_colon(note)),
        Outcome::LeftOut(why) => format!("left out: {why}"),
        Outcome::Failed(why) => format!("failed: {why}"),
    }
}

fn summary(rows: &[(&str, Outcome)]) -> (String, bool) {
    let mut text = String::new();
    let (mut passed, mut failed) = (0, 0);
    for (name, outcome) in rows {
        match outcome {
            Outcome::Passed(_) => passed += 1,
            Outcome::LeftOut(_) => {}
            Outcome::Failed(_) => failed += 1,
        }
        text.push_str(&format!("{name}: {}\n", told(outcome)));
    }
    text.push_str(&format!("{passed} passed, {failed} failed\n"));
    (text, failed == 0)
}

fn format() -> Outcome {
    chore(shell::cargo().args(["fmt", "--all", "--check"]), &["Diff in"])
}

fn spelling() -> Outcome {
    if !shell::answers("typos", &["--version"]) {
        return Outcome::LeftOut("typos is not installed".into());
    }
    chore(&mut shell::program("typos"), &["error:"])
}

fn licences() -> Outcome {
    if !shell::answers("cargo-deny", &["--version"]) {
        return Outcome::LeftOut("cargo-deny is not installed".into());
    }
    let own = chore(shell::cargo().args(["deny", "check", "bans", "licenses", "sources"]), &["bans "]);
    let Outcome::Passed(told) = own else { return own };
    // The list of advisories lies elsewhere, and not every machine gets there.
    if !shell::answers("cargo-deny", &["fetch", "db"]) {
        return Outcome::Passed(format!("{told}; no advisories, their list cannot be fetched"));
    }
    let advisories = &["deny", "check", "advisories"];
    match chore(shell::cargo().args(advisories), &["advisories "]) {
        Outcome::Passed(more) => Outcome::Passed(format!("{told}, {more}")),
        other => other,
    }
}

fn clippy() -> Outcome {
    chore(
        shell::cargo().args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        &["error"],
    )
}

fn tests() -> Outcome {
    if shell::answers("cargo-nextest", &["nextest", "--version"]) {
        let words = ["nextest", "run", "--workspace", "--no-fail-fast"];
        return chore(shell::cargo().args(words), &["Summary [", "error: could not compile"]);
    }
    let words = ["test", "--workspace", "--lib", "--bins", "--tests", "--examples", "--no-fail-fast"];
    chore(shell::cargo().args(words), &["test result:", "error"])
}

fn doc_tests() -> Outcome {
    chore(
        shell::cargo().args(["test", "--quiet", "--workspace", "--doc", "--no-fail-fast"]),
        &["test result:"],
    )
}

fn docs() -> Outcome {
    let mut command = shell::cargo();
    command.args(["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    chore(&mut command, &["error"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_and_what_was_left_out_is_told_but_not_counted() {
        let rows = [
            ("a", Outcome::Passed("3 tests".into())),
            ("b", Outcome::LeftOut("no node".into())),
            ("c", Outcome::Failed("broken".into())),
        ];
        let (text, is_good) = summary(&rows);
        assert_eq!(text, "a: passed: 3 tests\nb: left out: no node\nc: failed: broken\n1 passed, 1 failed\n");
        assert!(!is_good);
        assert!(summary(&rows[..2]).1);
    }
}
