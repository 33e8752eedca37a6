//! The `callboard` command; for now it serves the built-in servers alone.

mod builtin;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.as_slice() {
        [command, name, args @ ..] if command == "builtin" => builtin::run(name, args),
        _ => Err("usage: callboard builtin time|memory|files DIR".to_owned()),
    };
    outcome.unwrap_or_else(|fact| {
        eprintln!("error: {fact}");
        ExitCode::from(1)
    })
}
