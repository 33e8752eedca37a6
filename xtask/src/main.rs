//! Chores of the workspace: `cargo xtask ci` and its parts, each of which can be run alone.

mod bench;
mod chaos;
mod ci;
mod mutations;
mod peers;
mod shell;
mod sim;
mod tidy;

use shell::Outcome;
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

  ci                         everything that a change must pass, in order
  tidy                       edges between crates, long files, stubs, paths of a machine
  cases [--all] [--adopt] [--driver CMD] [--kind KIND]…
                             plays the cases of tests/cases; --all those beside the checkout, too;
                             --adopt copies the ones of --all that pass to tests/cases
  conformance [--auto-era]   the official suite against conformance-client, both required sets
  real-servers               public servers against the callboard command
  sim [ARGS]                 the simulated world: generated scenarios by their seeds, or files (--help for more)
  mutations [NAME]…          breaks copies of the tree, one patch of tests/mutations each: the simulation must see it
  sim storm [SERVERS]        10,000 servers that all drop at once: time, memory, the longest step
  bench [ARGS]               bench/run.sh with bench-driver as subject; ARGS go to it
  chaos [--minutes N] [--scale X] [--seed N] [--json]
                             servers that are killed, stopped, reset and swallowed, for half an hour
  bench smoke | counts       the ratios, and the instructions counted, that ci asks for

Kits and results are kept under target/kit. Beside the checkout means $CALLBOARD_SHARED, or ../shared.
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["ci"] => return ci::run(),
        ["tidy"] => tidy::run(),
        ["cases", rest @ ..] => peers::cases(rest),
        ["conformance"] => peers::conformance(peers::EraChoice::Told),
        ["conformance", "--auto-era"] => peers::conformance(peers::EraChoice::Found),
        ["real-servers"] => peers::real_servers(),
        ["chaos", rest @ ..] => chaos::run(rest),
        ["mutations", names @ ..] => mutations::run(names),
        ["sim", "storm"] => sim::storm("10000"),
        ["sim", "storm", servers] => sim::storm(servers),
        ["sim", rest @ ..] => sim::run(rest),
        ["bench", "smoke"] => bench::smoke(),
        ["bench", "counts"] => bench::counts(),
        ["bench", rest @ ..] => bench::run(rest),
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        [other, ..] => {
            eprintln!("error: no such command, or not with these words: {other}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Outcome::Passed(note) => {
            println!("passed{}", shell::after_colon(&note));
            ExitCode::SUCCESS
        }
        Outcome::LeftOut(why) => {
            println!("left out: {why}");
            ExitCode::SUCCESS
        }
        Outcome::Failed(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
