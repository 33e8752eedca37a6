//! A server on its own streams: one thread, one message after the other.

use crate::answer::{Call, Deed, Manner, deed};
use callboard_tests::ledger::{Entry, Ledger};
use serde_json::Value;
use std::io::{self, BufRead, Write};
use std::time::Instant;

/// Serves until its input ends.
///
/// # Errors
/// Those of its output and of the ledger.
pub(crate) fn serve(server: u32, ledger: &Ledger) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        match deed(&message) {
            Deed::Nothing => {}
            Deed::Answer(answer) => say(&format!("{answer}\n"))?,
            Deed::Call(call) => {
                ledger.performs(Entry { call: call.number, server })?;
                rest(&call);
                if !perform(&call)? {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn rest(call: &Call) {
    let begun = Instant::now();
    while let Some(left) = call.wait.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}

/// Answers; false when that was the last it did.
fn perform(call: &Call) -> io::Result<bool> {
    let answer = call.answered(call.manner).to_string();
    match call.manner {
        Manner::Well | Manner::WrongId | Manner::Hollow => say(&format!("{answer}\n"))?,
        Manner::Noise => {
            say(&format!("{{\"half\": \n[1, 2]\nplain text\n{{\"jsonrpc\":\"2.0\"}}\n{answer}\n"))?
        }
        Manner::Cut => {
            say(&answer[..answer.len() / 2])?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// All of it at once.
fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
