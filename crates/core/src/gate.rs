//! The places for calls to one server, and the queue before them (behaviour profile 5.13).
//!
//! A gate belongs to the server and outlives its connections: what waits keeps its turn through a reconnect, and
//! what the server asked for with `Retry-After` still holds after it. Tool calls, resources and prompts take a
//! place; other requests of a host take none but wait out a hold; replies, cancellations, lists and handshakes
//! pass by. A free place costs one exchange of a word. Waiting calls are served in turn by caller, and in order
//! within one caller.

mod queue;

use crate::telemetry::CallMetrics;
use parking_lot::Mutex;
use queue::Queue;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// Somebody waits, or the gate is held: no place is taken without the queue's lock.
const BLOCKED: usize = 1 << (usize::BITS - 1);
/// The longest time for which a server may ask to be left alone.
const HOLD_MAX: Duration = Duration::from_secs(60 * 60);
/// A hold is told of anew when it grows by so much: the answers to one burst are one hold.
const HOLD_GROWTH_LEAST: Duration = Duration::from_secs(1);

/// The places for calls to one server.
pub(crate) struct CallGate {
    /// Places taken, with [`BLOCKED`] above.
    word: AtomicUsize,
    in_flight_max: AtomicUsize,
    queue_max: usize,
    waiting: Mutex<Waits>,
    pub(crate) metrics: CallMetrics,
}

#[derive(Default)]
struct Waits {
    queue: Queue,
    hold: Option<Hold>,
}

/// What a server asked for with `Retry-After`.
#[derive(Debug, Clone)]
struct Hold {
    until: Instant,
    status: u16,
    timer: AbortHandle,
}

/// What keeps calls from leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GateView {
    /// Places taken.
    pub in_flight: usize,
    /// How many there are.
    pub in_flight_max: usize,
    /// Requests that wait.
    pub queued: usize,
    /// For how long the server has still asked to be left alone, and by which HTTP status.
    pub held: Option<(Duration, u16)>,
}

/// The queue is full.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A place among those in flight.
    Place,
    /// Only that the server may be asked anything.
    Leave,
}

impl CallGate {
    pub(crate) fn new(in_flight_max: usize, queue_max: usize, metrics: CallMetrics) -> CallGate {
        CallGate {
            word: AtomicUsize::new(0),
            in_flight_max: AtomicUsize::new(in_flight_max.clamp(1, BLOCKED - 1)),
            queue_max,
            waiting: Mutex::default(),
            metrics,
        }
    }

    fn in_flight_max(&self) -> usize {
        self.in_flight_max.load(Ordering::Relaxed)
    }

    /// Changes the number of places; calls that hold one beyond a smaller number keep it until they end.
    pub(crate) fn resize(&self, in_flight_max: usize) {
        let mut waiting = self.waiting.lock();
        self.in_flight_max.store(in_flight_max.clamp(1, BLOCKED - 1), Ordering::Relaxed);
        self.serve(&mut waiting);
    }

    /// A place, if one is free and nobody waits.
    pub(crate) fn try_enter(&self) -> Option<Place<'_>> {
        self.take().then(|| Place::new(self))
    }

    /// Counts one place more, unless the gate is blocked or full: as a word, blocked is more than full.
    fn take(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word < self.in_flight_max() {
            match self.word.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Counts one place more for somebody who waits; under the queue's lock, with the gate blocked.
    fn take_blocked(&self) -> bool {
        let full = BLOCKED | self.in_flight_max();
        let taken = |word: usize| (word < full).then(|| word + 1);
        self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, taken).is_ok()
    }

    fn give_back(&self) {
        self.metrics.in_flight.decrement(1.0);
        if self.word.fetch_sub(1, Ordering::Release) & BLOCKED != 0 {
            self.serve(&mut self.waiting.lock());
        }
    }

    /// Takes a request into the queue. It may be served before this returns.
    pub(crate) fn enter(&self, caller: Option<&Arc<str>>, need: Need) -> Result<Waiting<'_>, Full> {
        let mut waiting = self.waiting.lock();
        if waiting.queue.len() >= self.queue_max && !self.is_free(&waiting, need) {
            drop(waiting);
            self.metrics.queue_refused.increment(1);
            return Err(Full);
        }
        self.word.fetch_or(BLOCKED, Ordering::AcqRel);
        let (grant, granted) = oneshot::channel();
        let ticket = waiting.queue.push(caller.cloned(), need, grant);
        self.metrics.queued.increment(1.0);
        self.serve(&mut waiting);
        drop(waiting);
        Ok(Waiting { gate: self, caller: caller.cloned(), need, ticket, granted, is_done: false })
    }

    /// A place has become free since it was asked for, and nobody is before this request.
    fn is_free(&self, waiting: &Waits, need: Need) -> bool {
        let places = self.word.load(Ordering::Relaxed) & !BLOCKED;
        let is_held = waiting.hold.as_ref().is_some_and(|hold| hold.until > Instant::now());
        !is_held && waiting.queue.len() == 0 && (need == Need::Leave || places < self.in_flight_max())
    }

    /// Lets those in who may go, in turn.
    fn serve(&self, waiting: &mut Waits) {
        if let Some(hold) = &waiting.hold {
            if hold.until > Instant::now() {
                return;
            }
            hold.timer.abort();
            waiting.hold = None;
        }
        let before = waiting.queue.len();
        while let Some(grant) = waiting.queue.next_leave() {
            let _ = grant.send(());
        }
        while waiting.queue.len() > 0 && self.take_blocked() {
            self.metrics.in_flight.increment(1.0);
            let mut is_taken = false;
            while !is_taken && let Some(grant) = waiting.queue.next_place() {
                // Fails for one who has just gone away: the next one gets the place.
                is_taken = grant.send(()).is_ok();
            }
            if !is_taken {
                self.metrics.in_flight.decrement(1.0);
                self.word.fetch_sub(1, Ordering::Release);
            }
        }
        self.metrics.queued.decrement((before - waiting.queue.len()) as f64);
        if waiting.queue.len() == 0 {
            self.word.fetch_and(!BLOCKED, Ordering::AcqRel);
        }
    }

    /// Lets nothing leave for so long, at most an hour; a longer hold stays. Gives the time if that is news.
    pub(crate) fn hold(
        self: &Arc<Self>,
        runtime: &Handle,
        wanted: Duration,
        status: u16,
    ) -> Option<Duration> {
        let wanted = wanted.min(HOLD_MAX);
        let now = Instant::now();
        let until = now + wanted;
        let mut waiting = self.waiting.lock();
        let known = waiting.hold.as_ref().map_or(now, |hold| hold.until.max(now));
        if until <= known {
            return None;
        }
        let gate = Arc::downgrade(self);
        let timer = runtime.spawn(async move {
            sleep_until(until).await;
            if let Some(gate) = gate.upgrade() {
                gate.serve(&mut gate.waiting.lock());
            }
        });
        self.word.fetch_or(BLOCKED, Ordering::AcqRel);
        if let Some(before) = waiting.hold.replace(Hold { until, status, timer: timer.abort_handle() }) {
            before.timer.abort();
        }
        drop(waiting);
        let is_news = known == now || until - known >= HOLD_GROWTH_LEAST;
        is_news.then(|| {
            self.metrics.hold_seconds.record(wanted.as_secs_f64());
            wanted
        })
    }

    /// The server has asked to be left alone; one load when nobody waits.
    pub(crate) fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) & BLOCKED != 0 && self.view().held.is_some()
    }

    /// What keeps calls from leaving, at this moment.
    pub(crate) fn view(&self) -> GateView {
        let waiting = self.waiting.lock();
        let left = |hold: &Hold| (hold.until.saturating_duration_since(Instant::now()), hold.status);
        GateView {
            in_flight: self.word.load(Ordering::Relaxed) & !BLOCKED,
            in_flight_max: self.in_flight_max(),
            queued: waiting.queue.len(),
            held: waiting.hold.as_ref().map(left).filter(|(left, _)| !left.is_zero()),
        }
    }
}

impl Drop for CallGate {
    fn drop(&mut self) {
        if let Some(hold) = &self.waiting.get_mut().hold {
            hold.timer.abort();
        }
    }
}

/// A place among the calls in flight, given back when it is dropped.
pub(crate) struct Place<'a>(&'a CallGate);

impl<'a> Place<'a> {
    fn new(gate: &'a CallGate) -> Place<'a> {
        gate.metrics.in_flight.increment(1.0);
        Place(gate)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// A request in the queue. Dropped, it leaves it, and a place that it was given goes on to the next.
pub(crate) struct Waiting<'a> {
    gate: &'a CallGate,
    caller: Option<Arc<str>>,
    need: Need,
    ticket: u64,
    granted: oneshot::Receiver<()>,
    is_done: bool,
}

impl<'a> Waiting<'a> {
    /// Waits for its turn; gives the place, if one was needed. Not to be asked again after that.
    pub(crate) async fn turn(&mut self) -> Option<Place<'a>> {
        // A grant is dropped unsent only with the queue, which the gate that is borrowed here keeps.
        let _ = (&mut self.granted).await;
        self.is_done = true;
        (self.need == Need::Place).then(|| Place(self.gate))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        self.granted.close();
        let was_granted = self.granted.try_recv().is_ok();
        if was_granted && self.need == Need::Place {
            self.gate.give_back();
        }
        let mut waiting = self.gate.waiting.lock();
        if !was_granted && waiting.queue.remove(self.caller.as_ref(), self.need, self.ticket) {
            self.gate.metrics.queued.decrement(1.0);
            self.gate.serve(&mut waiting);
        }
    }
}

#[cfg(test)]
mod tests;
