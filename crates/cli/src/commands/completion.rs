//! `completion SHELL`.

use crate::app::App;
use crate::args::Cli;
use crate::output::CliError;
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints the completion script of a shell.
pub(super) fn completion(app: &App, shell: Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "callboard", &mut script);
    let script = String::from_utf8_lossy(&script);
    if app.screen.is_json() {
        let document = serde_json::json!({ "shell": shell.to_string(), "script": script });
        return Ok(app.screen.document(&document)?);
    }
    Ok(app.screen.result(script.trim_end())?)
}
