//! The simulated world, run by its own program, so that these chores stay quick to build.

use crate::shell::{self, Outcome, chore};
use std::process::Command;

/// What closes the output of a run.
const SUMS: &str = " runs, ";

/// Runs it with these words, as a release.
pub(crate) fn run(words: &[&str]) -> Outcome {
    chore(program(&["--release"]).args(words), &[SUMS, "error:"])
}

/// What every change must pass: ten seeds, each twice, and everything that once broke. Not as a release, which
/// takes longer to build than this takes to run.
pub(crate) fn smoke() -> Outcome {
    let seeds = chore(program(&[]).args(["--seeds", "1..10", "--twice", "--quiet"]), &[SUMS, "error:"]);
    let Outcome::Passed(told) = seeds else { return seeds };
    let replay = ["--replay", "tests/seeds.txt", "--twice", "--quiet"];
    match chore(program(&[]).args(replay), &[SUMS, "error:"]) {
        Outcome::Passed(more) => Outcome::Passed(format!("{told}; replayed: {more}")),
        other => other,
    }
}

/// So many servers that all drop at once.
pub(crate) fn storm(servers: &str) -> Outcome {
    chore(program(&["--release"]).args(["--storm", servers]), &[SUMS, "error:"])
}

fn program(profile: &[&str]) -> Command {
    let mut cargo = shell::cargo();
    cargo.args(["run", "--quiet"]).args(profile);
    cargo.args(["-p", "callboard-testkit", "--bin", "callboard-sim", "--"]);
    cargo
}
