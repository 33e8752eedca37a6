//! Results of a command that goes on: written by a thread of their own, so that a reader who is slow, or does not
//! read at all, never holds up connections.

use crate::output::{CliError, json_line};
use serde_json::Value;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Pieces that may wait to be written.
const WAITING_MAX: usize = 64;
/// How long the last pieces may take once the command has ended.
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);

/// The way to stdout.
pub(crate) struct Stream {
    pieces: mpsc::Sender<String>,
    is_over: Arc<AtomicBool>,
    /// Why nothing can be written any more.
    broken: watch::Receiver<Option<io::ErrorKind>>,
}

impl Stream {
    /// Starts the threads that write, and that notice when nobody reads any more.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start() -> io::Result<Stream> {
        let (pieces, waiting) = mpsc::channel(WAITING_MAX);
        let (tell, broken) = watch::channel(None);
        let told = tell.clone();
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = is_over.clone();
        std::thread::Builder::new().name("output".into()).spawn(move || {
            if let Err(error) = write_all(waiting, &stop) {
                tell.send_replace(Some(error.kind()));
            }
        })?;
        std::thread::Builder::new().name("output-end".into()).spawn(move || {
            if wait_for_end_of_reader() {
                told.send_replace(Some(io::ErrorKind::BrokenPipe));
            }
            // Kept, so that the end of this thread alone does not look like the end of the other.
            std::mem::forget(told);
        })?;
        Ok(Stream { pieces, is_over, broken })
    }

    /// Writes a line as soon as there is room.
    ///
    /// # Errors
    /// When nobody reads stdout any more.
    pub(crate) async fn line(&mut self, mut text: String) -> Result<(), CliError> {
        text.push('\n');
        self.piece(text).await
    }

    /// Writes a JSON object as a line.
    ///
    /// # Errors
    /// When nobody reads stdout any more.
    pub(crate) async fn object(&mut self, value: &Value) -> Result<(), CliError> {
        self.line(json_line(value)).await
    }

    /// Writes text as it stands.
    ///
    /// # Errors
    /// When nobody reads stdout any more.
    pub(crate) async fn piece(&mut self, text: String) -> Result<(), CliError> {
        let pieces = self.pieces.clone();
        tokio::select! {
            biased;
            error = self.closed() => Err(error),
            sent = pieces.send(text) => sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe).into()),
        }
    }

    /// Returns when nobody reads stdout any more.
    pub(crate) async fn closed(&mut self) -> CliError {
        let kind = match self.broken.wait_for(Option::is_some).await {
            Ok(kind) => kind.unwrap_or(io::ErrorKind::BrokenPipe),
            Err(_) => io::ErrorKind::BrokenPipe,
        };
        io::Error::from(kind).into()
    }

    /// Waits a moment for what was handed over to be written.
    pub(crate) async fn end(&self) {
        let pieces = &self.pieces;
        let everything = async {
            // Room for all means that nothing waits; one more makes sure that the last one was written.
            if let Ok(room) = pieces.reserve_many(WAITING_MAX).await {
                drop(room);
            }
            let _ = pieces.send(String::new()).await;
            let _ = pieces.reserve_many(WAITING_MAX).await.map(drop);
        };
        let _ = tokio::time::timeout(LAST_WORDS_MAX, everything).await;
    }
}

impl Drop for Stream {
    /// What still waits is not written: a picture must not be drawn on a terminal that was given back.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

fn write_all(mut waiting: mpsc::Receiver<String>, is_over: &AtomicBool) -> io::Result<()> {
    while let Some(piece) = waiting.blocking_recv().filter(|_| !is_over.load(Ordering::Acquire)) {
        let mut out = io::stdout().lock();
        out.write_all(piece.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

/// Blocks until the other end of stdout is gone; false where that cannot be seen.
#[cfg(unix)]
fn wait_for_end_of_reader() -> bool {
    let mut stdout = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    loop {
        // SAFETY: `stdout` is one `pollfd` that lives through the call.
        let ready = unsafe { libc::poll(&raw mut stdout, 1, -1) };
        match ready {
            1.. => return stdout.revents & (libc::POLLERR | libc::POLLHUP) != 0,
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return false,
        }
    }
}

#[cfg(not(unix))]
fn wait_for_end_of_reader() -> bool {
    false
}
