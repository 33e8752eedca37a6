//! A host with a board, as small as one can be: connects all servers of a file, says so, and closes the board at
//! SIGINT or SIGTERM.
//!
//! `board-host FILE` reads `mcpServers` of FILE and prints one line, `connected N`, when no server is on its way
//! any more; N counts those that are connected.

use callboard::{Board, ServerSpec, StateView};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

#[derive(Deserialize)]
struct File {
    #[serde(rename = "mcpServers")]
    servers: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    command: String,
    args: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("board-host: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(unix)]
async fn run() -> Result<(), Box<dyn Error>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let board = board().await?;
    tokio::select! {
        biased;
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = hold(&board) => {}
    }
    board.close().await;
    Ok(())
}

#[cfg(not(unix))]
async fn run() -> Result<(), Box<dyn Error>> {
    let board = board().await?;
    tokio::select! {
        biased;
        heard = tokio::signal::ctrl_c() => heard?,
        () = hold(&board) => {}
    }
    board.close().await;
    Ok(())
}

async fn board() -> Result<Board, Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("give a file")?;
    let file: File = serde_json::from_slice(&std::fs::read(path)?)?;
    let specs =
        file.servers.into_iter().map(|(name, entry)| ServerSpec::stdio(name, entry.command, entry.args));
    Ok(Board::builder().servers(specs).build().await?)
}

/// Connects all, tells, and does not return.
async fn hold(board: &Board) {
    board.connect_all();
    for server in board.servers() {
        // A failure shows in the count.
        if server.connect(None).await.is_ok() {
            let _ = server.tools().await;
        }
    }
    let is_connected = |state: StateView| matches!(state, StateView::Connected { .. });
    println!("connected {}", board.servers().iter().filter(|server| is_connected(server.state())).count());
    std::future::pending::<()>().await;
}
