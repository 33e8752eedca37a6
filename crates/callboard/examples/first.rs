//! The first program of the README: start a server, list its tools, call one.
//!
//! `cargo run -p callboard --example first -- COMMAND [ARGUMENT…]`, e.g. with `callboard builtin time`.

use callboard::{Board, CallOptions, ServerSpec};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_else(|| "callboard".into());
    let args: Vec<String> = words.collect();
    let args = if args.is_empty() { vec!["builtin".into(), "time".into()] } else { args };

    let board = Board::builder().server(ServerSpec::stdio("time", command, args)).build().await?;
    let time = board.server("time").ok_or("it was just given")?;
    for tool in &time.tools().await?.items {
        println!("{}", tool.key);
    }
    let now = time.call_tool("now", r#"{"timezone":"UTC"}"#, CallOptions::default()).await?;
    println!("{}", now.text());
    board.close().await;
    Ok(())
}
