//! What all parts of a board share: ports, settings, runtime, counters.

use crate::dialect::ClientIdentity;
use crate::event::{BoardEvent, EventKind};
use crate::handler::Handlers;
use crate::port::{Dialer, EraMemory, Generation, ServerName};
use crate::settings::Settings;
use crate::telemetry;
use crate::timeline::Timelines;
use callboard_protocol::Era;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;

/// Events that a slow reader may lag behind.
const EVENTS_MAX: usize = 1_024;

/// What all parts of a board share.
pub struct Environment {
    /// Opens connections.
    pub dialer: Arc<dyn Dialer>,
    /// Every number and switch.
    pub settings: Arc<Settings>,
    /// The host's handlers.
    pub handlers: Handlers,
    /// What the client says of itself.
    pub identity: ClientIdentity,
    /// Remembers eras.
    pub eras: Arc<dyn EraMemory>,
    /// Where IO tasks run.
    pub runtime: Handle,
    /// When the board was built.
    pub built_at: Instant,
    /// What all chance comes from; each server's numbers are forked from it by its name.
    pub seed: u64,
    pub(crate) timelines: Timelines,
    pub(crate) states: StateCounts,
    /// Counts requests for dial permits, in the order of asking.
    pub(crate) tickets: AtomicU64,
    /// Grows whenever something that the catalog shows has changed.
    pub(crate) version: AtomicU64,
    events: broadcast::Sender<BoardEvent>,
    /// Held by everything that must have ended before the board has; dropped with it.
    pub(crate) alive: Mutex<Option<mpsc::Sender<()>>>,
    is_closed: AtomicBool,
}

impl Environment {
    /// Puts the parts together.
    pub fn new(dialer: Arc<dyn Dialer>, settings: Settings, runtime: Handle) -> Environment {
        Environment {
            dialer,
            settings: Arc::new(settings.bounded()),
            handlers: Handlers::default(),
            identity: ClientIdentity::default(),
            eras: Arc::new(EraVerdicts::default()),
            runtime,
            built_at: Instant::now(),
            seed: 0,
            timelines: Timelines::default(),
            states: StateCounts::default(),
            tickets: AtomicU64::new(1),
            version: AtomicU64::new(1),
            events: broadcast::channel(EVENTS_MAX).0,
            alive: Mutex::new(None),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Everything that happens from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<BoardEvent> {
        self.events.subscribe()
    }

    pub(crate) fn emit(&self, server: &ServerName, generation: Generation, event: EventKind) {
        tracing::debug!(%server, %generation, ?event, "board event");
        let at_ms = self.built_at.elapsed().as_millis() as u64;
        self.timelines.record(server, at_ms, generation.0, &event);
        if self.events.receiver_count() > 0 {
            let server = server.as_str().to_owned();
            let _ = self.events.send(BoardEvent { at_ms, server, generation: generation.0, event });
        }
    }

    /// Makes snapshots that were built before be built anew.
    pub(crate) fn bump(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Gives the board's own token: a channel that ends when everything that was started has ended.
    pub fn hold(&self, token: mpsc::Sender<()>) {
        *self.alive.lock() = Some(token);
    }

    /// Takes the board's own token back: from now on the board counts as closed.
    pub fn release(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.alive.lock().take();
    }

    /// The board has not been closed.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Acquire)
    }

    /// A token of something that must have ended before the board has.
    pub(crate) fn alive_token(&self) -> Option<mpsc::Sender<()>> {
        self.alive.lock().clone()
    }
}

/// How many servers are in each state, by the states' words.
#[derive(Default)]
pub(crate) struct StateCounts(Mutex<BTreeMap<&'static str, usize>>);

impl StateCounts {
    /// One more server is in this state.
    pub(crate) fn entered(&self, state: &'static str) {
        self.change(state, |count| count + 1);
    }

    /// One server less is in this state.
    pub(crate) fn left(&self, state: &'static str) {
        self.change(state, |count| count.saturating_sub(1));
    }

    fn change(&self, state: &'static str, change: impl FnOnce(usize) -> usize) {
        let mut counts = self.0.lock();
        let count = counts.entry(state).or_default();
        *count = change(*count);
        telemetry::servers(state, *count);
    }
}

/// Eras remembered in this process. A legacy verdict ages, since nothing else would ever upgrade it.
#[derive(Default)]
pub struct EraVerdicts {
    verdicts: Mutex<HashMap<String, (Era, Instant)>>,
}

/// How long a legacy verdict counts.
const LEGACY_VERDICT_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Fingerprints that are remembered.
const VERDICTS_MAX: usize = 4_096;

impl EraMemory for EraVerdicts {
    fn recall(&self, fingerprint: &str) -> Option<Era> {
        let (era, since) = *self.verdicts.lock().get(fingerprint)?;
        (era == Era::Modern || since.elapsed() < LEGACY_VERDICT_AGE_MAX).then_some(era)
    }

    fn remember(&self, fingerprint: &str, era: Era) {
        let mut verdicts = self.verdicts.lock();
        if verdicts.len() >= VERDICTS_MAX {
            verdicts.clear();
        }
        verdicts.insert(fingerprint.to_owned(), (era, Instant::now()));
    }

    fn forget(&self, fingerprint: &str) {
        self.verdicts.lock().remove(fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_legacy_verdict_ages_and_a_modern_one_does_not() {
        let verdicts = EraVerdicts::default();
        verdicts.remember("old", Era::Legacy);
        verdicts.remember("new", Era::Modern);
        assert_eq!(verdicts.recall("old"), Some(Era::Legacy));
        tokio::time::advance(LEGACY_VERDICT_AGE_MAX).await;
        assert_eq!((verdicts.recall("old"), verdicts.recall("new")), (None, Some(Era::Modern)));
        verdicts.forget("new");
        assert_eq!(verdicts.recall("new"), None);
    }
}
