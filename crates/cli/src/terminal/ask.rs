//! One question at a terminal, and one line of answer.

use std::io::{self, BufRead, IsTerminal};
use tokio::sync::oneshot;

/// A person can be asked: both the questions on stderr and the answers on stdin are at a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Reads a line from stdin; none at its end (Ctrl-D). The read runs on a thread that nobody waits for: a
/// command that is cancelled meanwhile ends without it.
pub(crate) async fn read_line() -> Option<String> {
    let (answer, answered) = oneshot::channel();
    let reader = std::thread::Builder::new().name("answers".into()).spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let line = read.is_ok_and(|bytes| bytes > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned());
        // Nobody listens any more when the command was cancelled.
        let _ = answer.send(line);
    });
    reader.ok()?;
    answered.await.ok().flatten()
}
