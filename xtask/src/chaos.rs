//! Real chaos: the harness of `tests/src/bin/chaos`, with the servers that it hurts.

use crate::shell::{self, Outcome, Profile, chore};

/// The run that every change goes through: a tenth of the servers and callers, for a minute. With this seed each
/// kind of fault comes.
const BRIEF: [&str; 6] = ["--minutes", "1", "--scale", "0.1", "--seed", "16"];
/// What the harness closes with.
const CLOSING: [&str; 2] = ["beyond the deadline:", "violation"];

/// The long run; `words` go to the harness.
pub(crate) fn run(words: &[&str]) -> Outcome {
    inflict(Profile::Release, words)
}

/// The brief one, with the builds that the tests have made already.
pub(crate) fn brief() -> Outcome {
    inflict(Profile::Debug, &BRIEF)
}

fn inflict(profile: Profile, words: &[&str]) -> Outcome {
    if !cfg!(target_os = "linux") {
        // Children are told from others, and leaks are seen, by /proc.
        return Outcome::LeftOut("there is no /proc here".into());
    }
    let built = shell::build("callboard-tests", "chaos-server", profile);
    match built.and_then(|_| shell::build("callboard-tests", "chaos", profile)) {
        Ok(harness) => chore(shell::program(harness).args(words), &CLOSING),
        Err(why) => Outcome::Failed(why),
    }
}
