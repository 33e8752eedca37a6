//! Does one job of `tests/fakeserver/play.py`: reads it from stdin, prints what happened as JSON lines.

mod evaluations;
mod job;
mod steps;

use job::Job;
use serde_json::json;
use std::io::Read;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("case-driver: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let job: Job = serde_json::from_str(&text)?;
    match job {
        Job::Scripted(scripted) => match steps::unsupported(&scripted) {
            Some(why) => println!("{}", json!({ "unsupported": why })),
            None => steps::play(scripted)?,
        },
        Job::Naming { input } => println!("{}", json!({ "output": evaluations::naming(&input) })),
        Job::ResultView { input } => println!("{}", json!({ "output": evaluations::result_view(&input)? })),
        Job::Other(kind) => {
            println!("{}", json!({ "unsupported": format!("nothing for the kind {kind} yet") }))
        }
    }
    Ok(())
}
