//! The `callboard` command: MCP servers at a terminal. The contract is the page on the command line.
//!
//! This crate knows nothing about
//! - how servers are connected, supervised and called: it asks a board,
//! - the formats of configuration files: it asks the facade to load them.

mod app;
mod args;
mod builtin;
mod commands;
mod config;
mod metrics;
mod output;
mod schema;
mod terminal;

fn main() -> std::process::ExitCode {
    app::main()
}
