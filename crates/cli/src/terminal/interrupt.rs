//! Ctrl-C and SIGTERM: the first asks the command to end, the second kills what is left, at once.
//!
//! Signals are heard on a thread of their own: the command's thread may be stuck in a write to a pipe that
//! nobody empties, and must still be stoppable.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// From the first signal to the end by force: the two graces of a deaf child (behaviour profile 1.11) and a
/// second for everything else.
const FORCED_AFTER: Duration = Duration::from_secs(6);

/// Tells of the first signal.
#[derive(Clone)]
pub(crate) struct Interrupt {
    heard: watch::Receiver<bool>,
}

impl Interrupt {
    /// Listens. `kill` is run before the process ends by force; it must not block.
    ///
    /// # Errors
    /// When the system gives no thread or no signal handler.
    pub(crate) fn listen(kill: Arc<dyn Fn() + Send + Sync>) -> std::io::Result<Interrupt> {
        let (tell, heard) = watch::channel(false);
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return ready.send(Err(error)).unwrap_or_default(),
            };
            runtime.block_on(async move {
                let mut signals = match Signals::new() {
                    Ok(signals) => signals,
                    Err(error) => return ready.send(Err(error)).unwrap_or_default(),
                };
                ready.send(Ok(())).unwrap_or_default();
                signals.next().await;
                tell.send_replace(true);
                let _ = tokio::time::timeout(FORCED_AFTER, signals.next()).await;
                kill();
                std::process::exit(crate::output::Exit::Cancelled as i32);
            });
        })?;
        is_ready.recv().map_err(std::io::Error::other)??;
        Ok(Interrupt { heard })
    }

    /// Returns at the first signal.
    pub(crate) async fn first(&mut self) {
        if self.heard.wait_for(|heard| *heard).await.is_err() {
            // The thread is gone, and nothing will be heard any more.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
