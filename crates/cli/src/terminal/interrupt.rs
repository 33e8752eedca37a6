//! Ctrl-C and SIGTERM: the first asks the command to end, the second kills what is left, at once. SIGHUP does the
//! same, unless the command has asked for it: then it means to read the configuration again.
//!
//! Signals are heard on a thread of their own: the command's thread may be stuck in a write to a pipe that
//! nobody empties, and must still be stoppable.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// From the first signal to the end by force: the two graces of a deaf child (behaviour profile 1.11) and a
/// second for everything else.
const FORCED_AFTER: Duration = Duration::from_secs(6);

/// Tells a command that goes on of SIGHUP.
#[derive(Default)]
pub(crate) struct HangUps {
    wanted: AtomicBool,
    heard: Notify,
}

impl HangUps {
    /// From now on SIGHUP ends nothing. A terminal that is gone still does.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Returns at the next one. Several that nobody has waited for are one.
    pub(crate) async fn next(&self) {
        self.heard.notified().await;
    }

    /// Takes one, if it is wanted.
    fn take(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Acquire);
        if wanted {
            self.heard.notify_one();
        }
        wanted
    }
}

/// How many of the standard streams are terminals; fewer than before when the terminal was closed.
fn terminals() -> usize {
    let streams =
        [std::io::stdin().is_terminal(), std::io::stdout().is_terminal(), std::io::stderr().is_terminal()];
    streams.into_iter().filter(|is_terminal| *is_terminal).count()
}

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
    pub(crate) fn listen(
        kill: Arc<dyn Fn() + Send + Sync>,
        hang_ups: Arc<HangUps>,
    ) -> std::io::Result<Interrupt> {
        let (tell, heard) = watch::channel(false);
        let terminals_before = terminals();
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
                while signals.next().await == Heard::HangUp
                    && terminals() == terminals_before
                    && hang_ups.take()
                {}
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

/// What a signal asks for.
#[derive(PartialEq, Eq)]
enum Heard {
    End,
    #[cfg_attr(not(unix), allow(dead_code, reason = "there is no such signal"))]
    HangUp,
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

    async fn next(&mut self) -> Heard {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Heard::End,
            _ = self.terminate.recv() => Heard::End,
            _ = self.hang_up.recv() => Heard::HangUp,
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

    async fn next(&mut self) -> Heard {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Heard::End
    }
}
