//! The part of a connection that calls use directly: pending requests, the send half, counters.
//!
//! A call touches no actor: it registers here, writes, and is woken by the IO task (duplex links) or gets
//! its answer in its own task (exchanges). When the connection ends, the core is poisoned and everything
//! that waits fails with the cause.

use crate::call::{CallError, Clock, ProgressSink};
use crate::dialect::{Dialect, Outline, Withdrawal};
use crate::environment::Environment;
use crate::pending::{Clocks, Outcome, PendingTable};
use crate::port::{
    CallActivity, CloseReason, Delivery, Diagnostics, Exchange, Generation, IdePlatform, SendHalf, ServerName,
};
use crate::session::Session;
use crate::telemetry::ConnMetrics;
use bytes::Bytes;
use callboard_protocol::{RemoteError, ReplyBody};
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

/// One generation of a connection.
pub(crate) struct ConnCore {
    pub(crate) env: Arc<Environment>,
    pub(crate) server: ServerName,
    /// Decides how paths are written to the server.
    pub(crate) platform: IdePlatform,
    pub(crate) generation: Generation,
    pub(crate) send: SendHalf,
    pub(crate) diagnostics: Arc<dyn Diagnostics>,
    pub(crate) in_flight: Semaphore,
    pub(crate) queued: AtomicU32,
    pub(crate) metrics: ConnMetrics,
    pub(crate) io: IoSignals,
    pub(crate) session: OnceLock<Session>,
    pending: Mutex<PendingTable>,
    strikes: AtomicU32,
    unmatched: AtomicU64,
    replies: AtomicUsize,
}

/// How callers and the actor reach the IO task.
#[derive(Default)]
pub(crate) struct IoSignals {
    pub waker: AtomicWaker,
    /// Deadlines have to be looked at although no timer ran out.
    look: AtomicBool,
    stop: AtomicBool,
    retired: Mutex<Option<Arc<CloseReason>>>,
    answered: AtomicBool,
}

impl IoSignals {
    /// Tells the IO task to end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Why the generation must end although its link has not.
    pub(crate) fn retired(&self) -> Option<Arc<CloseReason>> {
        self.retired.lock().clone()
    }

    /// The server has answered something in this generation.
    pub(crate) fn answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Deadlines have to be looked at although no timer ran out; asked once.
    pub(crate) fn must_look(&self) -> bool {
        self.look.load(Ordering::Acquire) && self.look.swap(false, Ordering::AcqRel)
    }

    /// Has the IO task look at deadlines now.
    fn look(&self) {
        self.look.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// A request with everything that its sending needs.
pub(crate) struct Outgoing<'a> {
    pub outline: Outline<'a>,
    pub clocks: Clocks,
    pub progress: Option<ProgressSink>,
    pub is_listen: bool,
    /// When its caller asked for it.
    pub started: Instant,
    /// Headers that the link does not add by itself yet: the version, before the handshake is done.
    pub early_headers: Vec<(String, String)>,
}

impl ConnCore {
    pub(crate) fn new(
        env: Arc<Environment>,
        server: ServerName,
        generation: Generation,
        send: SendHalf,
        diagnostics: Arc<dyn Diagnostics>,
        in_flight_max: usize,
    ) -> ConnCore {
        ConnCore {
            metrics: ConnMetrics::new(&server),
            env,
            server,
            platform: IdePlatform::Here,
            generation,
            send,
            diagnostics,
            in_flight: Semaphore::new(in_flight_max.clamp(1, Semaphore::MAX_PERMITS)),
            queued: AtomicU32::new(0),
            io: IoSignals::default(),
            session: OnceLock::new(),
            pending: Mutex::new(PendingTable::default()),
            strikes: AtomicU32::new(0),
            unmatched: AtomicU64::new(0),
            replies: AtomicUsize::new(0),
        }
    }

    /// The session; present from the end of the handshake on.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.get()
    }

    /// Sends one request and waits for its raw result.
    pub(crate) async fn request(
        self: &Arc<Self>,
        dialect: &dyn Dialect,
        outgoing: Outgoing<'_>,
    ) -> Result<Bytes, CallError> {
        let (waiter, mut answer) = oneshot::channel();
        let Outgoing { outline, clocks, progress, is_listen, early_headers, started } = outgoing;
        let unmatched_before = self.unmatched.load(Ordering::Relaxed);
        let what = What { method: outline.method, name: outline.name, started, unmatched_before };
        // The clocks of a request run from here on, not from the moment its caller began to wait for a place.
        let now = Instant::now();
        if clocks.absolute.is_some_and(|at| at <= now) {
            return Err(self.timed_out(Clock::Absolute, &what, Delivery::NotSent));
        }
        let id = self.register(waiter, progress, clocks, now)?;
        let mut frame = Vec::with_capacity(192 + outline.params.len() + outline.meta.len());
        dialect.write_request(&mut frame, id, &outline);
        self.metrics.sent(frame.len());
        let mut guard = Withdraw { core: self, dialect, id, armed: true };
        let outcome = match &self.send {
            SendHalf::Duplex(link) => {
                if let Err(reason) = link.send(&frame) {
                    guard.disarm();
                    self.pending.lock().remove(id);
                    return Err(CallError::Lost { reason: Arc::new(reason), delivery: Delivery::NotSent });
                }
                answer.await.unwrap_or_else(|_| self.lost())
            }
            SendHalf::Exchange(link) => {
                let mut headers = dialect.headers(&outline);
                headers.extend(early_headers);
                let activity = self.clone() as Arc<dyn CallActivity>;
                let exchange = link.exchange(Exchange {
                    id,
                    frame,
                    headers,
                    activity,
                    is_listen,
                    may_ask_back: outline.name.is_some(),
                });
                tokio::select! {
                    biased;
                    outcome = &mut answer => outcome.unwrap_or_else(|_| self.lost()),
                    reply = exchange => {
                        self.pending.lock().remove(id);
                        match reply {
                            Ok(reply) => Outcome::Reply(reply.body),
                            Err(reason) => Outcome::Lost(Arc::new(reason)),
                        }
                    }
                }
            }
        };
        if !matches!(outcome, Outcome::TimedOut(_)) {
            guard.disarm();
        }
        self.conclude(outcome, &what)
    }

    /// Does something that a person or a model is asked for, unless the connection ends first.
    ///
    /// # Errors
    /// [`CallError::Lost`] with the reason of the end.
    pub(crate) async fn while_open<T>(&self, work: impl Future<Output = T>) -> Result<T, CallError> {
        let (waiter, ended) = oneshot::channel();
        let attended = self.pending.lock().attend(waiter, Instant::now());
        let id = attended.map_err(|reason| CallError::Lost { reason, delivery: Delivery::Unknown })?;
        let _forget = Forget { core: self, id };
        tokio::select! {
            biased;
            _ = ended => {
                let reason = self.closed().unwrap_or_else(|| Arc::new(CloseReason::Cancelled));
                Err(CallError::Lost { reason, delivery: Delivery::Unknown })
            }
            done = work => Ok(done),
        }
    }

    fn register(
        &self,
        waiter: oneshot::Sender<Outcome>,
        progress: Option<ProgressSink>,
        clocks: Clocks,
        now: Instant,
    ) -> Result<u64, CallError> {
        let (id, is_earlier) = self
            .pending
            .lock()
            .insert(waiter, progress, clocks, now)
            .map_err(|reason| CallError::Lost { reason, delivery: Delivery::NotSent })?;
        if is_earlier {
            self.io.look();
        }
        Ok(id)
    }

    fn lost(&self) -> Outcome {
        let reason = self.pending.lock().closed().cloned();
        Outcome::Lost(reason.unwrap_or_else(|| Arc::new(CloseReason::Cancelled)))
    }

    /// Turns how a request ended into what its caller gets.
    fn conclude(&self, outcome: Outcome, what: &What<'_>) -> Result<Bytes, CallError> {
        match outcome {
            Outcome::Reply(body) => {
                self.note_answer();
                match body {
                    ReplyBody::Result(raw) => Ok(raw),
                    ReplyBody::Error(raw) => Err(CallError::Remote(RemoteError::from_raw(&raw))),
                    ReplyBody::Invalid(why) => Err(CallError::Invalid(why)),
                }
            }
            Outcome::TooLarge(limit) => {
                let reason = Arc::new(CloseReason::TooLarge { limit });
                Err(CallError::Lost { reason, delivery: Delivery::Unknown })
            }
            Outcome::TimedOut(clock) => Err(self.timed_out(clock, what, Delivery::Unknown)),
            Outcome::Lost(reason) => {
                self.note_failure(&reason);
                let delivery = reason.delivery();
                Err(CallError::Lost { reason, delivery })
            }
        }
    }

    fn timed_out(&self, clock: Clock, what: &What<'_>, delivery: Delivery) -> CallError {
        CallError::TimedOut {
            what: match what.name {
                Some(name) => format!("{} {name}", what.method),
                None => what.method.to_owned(),
            },
            clock,
            elapsed: what.started.elapsed(),
            delivery,
            unmatched: self.unmatched.load(Ordering::Relaxed) - what.unmatched_before,
        }
    }

    fn note_answer(&self) {
        self.io.answered.store(true, Ordering::Relaxed);
        if self.strikes.load(Ordering::Relaxed) != 0 {
            self.strikes.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a terminal failure of an exchange; enough of them in a row, or a certain one, end the generation.
    fn note_failure(&self, reason: &Arc<CloseReason>) {
        let SendHalf::Exchange(_) = self.send else { return };
        if self.session().is_none() {
            return;
        }
        match **reason {
            CloseReason::SessionExpired { .. } | CloseReason::AuthRequired { .. } => {
                self.retire(reason.clone())
            }
            _ if reason.is_terminal() => {
                let strikes = self.strikes.fetch_add(1, Ordering::Relaxed) + 1;
                if strikes as usize >= self.env.settings.health_strikes_max {
                    self.retire(reason.clone());
                }
            }
            _ => self.note_answer(),
        }
    }

    /// Ends the generation for new requests; exchanges under way end by themselves.
    pub(crate) fn retire(&self, reason: Arc<CloseReason>) {
        self.pending.lock().close(&reason);
        self.io.retired.lock().get_or_insert(reason);
        self.io.waker.wake();
    }

    /// Fails everything that waits, and everything that comes.
    pub(crate) fn poison(&self, reason: &Arc<CloseReason>) {
        self.pending.lock().poison(reason);
        self.in_flight.close();
    }

    /// Takes nothing new; what waits goes on. For exchanges, whose answers do not need the link's other half.
    pub(crate) fn close_for_new(&self, reason: &Arc<CloseReason>) {
        self.pending.lock().close(reason);
    }

    /// Why nothing new is taken.
    pub(crate) fn closed(&self) -> Option<Arc<CloseReason>> {
        self.pending.lock().closed().cloned()
    }

    /// Requests that wait for an answer.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.lock().len()
    }

    /// Ends a request by its id; counts the answer as unmatched when nobody waits.
    pub(crate) fn complete(&self, id: u64, outcome: Outcome) {
        if !self.pending.lock().complete(id, outcome) {
            self.note_unmatched();
        }
    }

    pub(crate) fn note_unmatched(&self) {
        self.unmatched.fetch_add(1, Ordering::Relaxed);
        self.metrics.unmatched();
    }

    /// A sign of life of a request, with its progress sink if it still waits.
    pub(crate) fn touch(&self, id: u64) -> Option<Option<ProgressSink>> {
        self.pending.lock().touch(id, Instant::now())
    }

    /// Ends what is overdue and gives the next moment to look.
    pub(crate) fn sweep(&self, now: Instant) -> Option<Instant> {
        self.pending.lock().sweep(now)
    }

    /// Stops all clocks until the guard is dropped: a person is being asked.
    pub(crate) fn pause_clocks(self: &Arc<Self>) -> PausedClocks {
        self.pending.lock().pause(Instant::now());
        PausedClocks(self.clone())
    }

    /// Answers a request of the server. Over exchanges each answer is one of its own; a server that asks faster
    /// than it takes answers goes without some.
    pub(crate) fn reply(self: &Arc<Self>, frame: Vec<u8>) {
        let place = Place::take(self);
        match place {
            Some(place) => self.tell_holding(frame, Some(place)),
            None => {
                self.metrics.unanswered();
                tracing::debug!(server = %self.server, "too many answers are under way to the server");
            }
        }
    }

    /// Sends a notification without waiting for it.
    pub(crate) fn tell(self: &Arc<Self>, frame: Vec<u8>) {
        self.tell_holding(frame, None);
    }

    fn tell_holding(self: &Arc<Self>, frame: Vec<u8>, place: Option<Place>) {
        match &self.send {
            SendHalf::Duplex(link) => {
                if let Err(reason) = link.send(&frame) {
                    tracing::debug!(server = %self.server, %reason, "could not send");
                }
            }
            SendHalf::Exchange(link) => {
                let sending = link.notify(frame, Vec::new());
                let server = self.server.clone();
                self.env.runtime.spawn(async move {
                    if let Err(reason) = sending.await {
                        tracing::debug!(%server, %reason, "could not send");
                    }
                    drop(place);
                });
            }
        }
    }

    /// Sends a notification and waits until it is on its way; over HTTP, until it is acknowledged.
    pub(crate) async fn tell_and_wait(
        &self,
        frame: Vec<u8>,
        headers: Vec<(String, String)>,
    ) -> Result<(), CloseReason> {
        match &self.send {
            SendHalf::Duplex(link) => link.send(&frame),
            SendHalf::Exchange(link) => link.notify(frame, headers).await,
        }
    }

    /// True when requests are exchanges of their own.
    pub(crate) fn is_exchange(&self) -> bool {
        matches!(self.send, SendHalf::Exchange(_))
    }
}

/// Answers to one server's requests that may be under way at once.
const REPLIES_MAX: usize = 256;

/// One of the answers under way.
struct Place(Arc<ConnCore>);

impl Place {
    fn take(core: &Arc<ConnCore>) -> Option<Place> {
        let place = Place(core.clone());
        (core.replies.fetch_add(1, Ordering::Relaxed) < REPLIES_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.replies.fetch_sub(1, Ordering::Relaxed);
    }
}

struct What<'a> {
    method: &'a str,
    name: Option<&'a str>,
    started: Instant,
    unmatched_before: u64,
}

impl CallActivity for ConnCore {
    fn active(&self, id: u64) {
        let _ = self.touch(id);
    }
}

/// The connection's clocks stand still while this lives.
pub(crate) struct PausedClocks(Arc<ConnCore>);

impl Drop for PausedClocks {
    fn drop(&mut self) {
        self.0.pending.lock().resume(Instant::now());
        self.0.io.look();
    }
}

/// Takes something that waits for no answer out of the table of those that do.
struct Forget<'a> {
    core: &'a ConnCore,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.core.pending.lock().remove(self.id);
    }
}

/// Calls a request off when its caller goes away, or its time is up.
struct Withdraw<'a> {
    core: &'a Arc<ConnCore>,
    dialect: &'a dyn Dialect,
    id: u64,
    armed: bool,
}

impl Withdraw<'_> {
    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let timed_out = !self.core.pending.lock().remove(self.id);
        // `initialize` must never be cancelled, and before its end there is nothing else to cancel.
        if self.core.session().is_none() {
            return;
        }
        let reason = if timed_out { "timeout" } else { "cancelled by the client" };
        match self.dialect.withdrawal(self.id, reason, self.core.is_exchange()) {
            Withdrawal::Notify(frame) => self.core.tell(frame),
            Withdrawal::CloseStream => {}
        }
    }
}

/// How long until a moment, for error texts and timers.
pub(crate) fn clocks_for(
    first_byte: std::time::Duration,
    idle: std::time::Duration,
    absolute: std::time::Duration,
    now: Instant,
) -> Clocks {
    let on = |d: std::time::Duration| (!d.is_zero()).then_some(d);
    Clocks { first_byte: on(first_byte), idle: on(idle), absolute: moment(now, absolute) }
}

/// When a limit has passed; never for zero, and for a time beyond what clocks can tell.
pub(crate) fn moment(from: Instant, limit: std::time::Duration) -> Option<Instant> {
    from.checked_add(limit).filter(|_| !limit.is_zero())
}
