//! Starts the MCP server whose command line it is given, lists its tools, and calls one:
//! `cargo run -p callboard --example first -- list '{"path":"."}' callboard builtin files .`

use callboard::{Board, CallOptions, ServerSpec};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mut word = |what: &str| words.next().ok_or(format!("usage: first TOOL ARGUMENTS COMMAND…: {what} is missing"));
    let (tool, arguments, command) = (word("TOOL")?, word("ARGUMENTS")?, word("COMMAND")?);
    let board = Board::builder().server(ServerSpec::stdio("mine", command, words)).build().await?;
    let server = board.server("mine").ok_or("no such server")?;
    for listed in &server.tools().await?.items {
        println!("mine has {}", listed.key);
    }
    let options = CallOptions::with_timeout(Duration::from_secs(10));
    let reply = server.call_tool(&tool, &arguments, options).await?;
    println!("{}", reply.text());
    board.close().await;
    Ok(())
}
