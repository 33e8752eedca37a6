//! The part of a connection that calls use directly: pending requests, the send half, counters.
//!
//! A call touches no actor: it registers here, writes, and is woken by the IO task (duplex links) or gets
//! its answer in its own task (exchanges). When the connection ends, the core is poisoned and everything
//! that waits fails with the cause.

mod guards;
mod io_signals;

pub(crate) use guards::PausedClocks;
pub(crate) use io_signals::IoSignals;

use crate::call::{CallError, Clock, ProgressSink};
use crate::dialect::{Dialect, Outline};
use crate::environment::Environment;
use crate::event::EventKind;
use crate::gate::CallGate;
use crate::health::{GivenUp, Vitals};
use crate::pending::{Clocks, Outcome, PendingTable, Swept};
use crate::port::{
    Bearing, CallActivity, CloseReason, Delivery, Diagnostics, Exchange, Generation, IdePlatform, SendHalf,
    ServerName,
};
use crate::session::Session;
use crate::telemetry::{self, ConnMetrics};
use bytes::Bytes;
use callboard_protocol::{RemoteError, ReplyBody};
use guards::{Forget, ReplyPlace, Withdraw};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;
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
    /// The server's, not this generation's.
    pub(crate) gate: Arc<CallGate>,
    pub(crate) metrics: ConnMetrics,
    pub(crate) io: IoSignals,
    pub(crate) session: OnceLock<Session>,
    pending: Mutex<PendingTable>,
    vitals: Vitals,
    unmatched: AtomicU64,
    replies: AtomicUsize,
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
        gate: Arc<CallGate>,
        (send, diagnostics): (SendHalf, Arc<dyn Diagnostics>),
    ) -> ConnCore {
        ConnCore {
            metrics: ConnMetrics::new(&server),
            vitals: Vitals::new(&env.settings),
            pending: Mutex::new(PendingTable::new(env.settings.call_slow_after)),
            env,
            server,
            platform: IdePlatform::Here,
            generation,
            send,
            diagnostics,
            gate,
            io: IoSignals::default(),
            session: OnceLock::new(),
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
        let tool = if outline.method == "tools/call" { outline.name } else { None };
        let id = self.register(waiter, progress, clocks, (now, tool))?;
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
                            Ok(reply) => {
                                self.metrics.received(reply.body.len());
                                Outcome::Reply(reply.body)
                            }
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
        (now, tool): (Instant, Option<&str>),
    ) -> Result<u64, CallError> {
        let (id, is_earlier) = self
            .pending
            .lock()
            .insert(waiter, progress, clocks, (now, tool))
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
            Outcome::Reply(ReplyBody::Result(raw)) => {
                self.note_answer();
                Ok(raw)
            }
            Outcome::Reply(ReplyBody::Error(raw)) => {
                self.note_answer();
                Err(CallError::Remote(RemoteError::from_raw(&raw)))
            }
            Outcome::Reply(ReplyBody::Invalid(why)) => {
                self.io.has_answered();
                self.note_harmless();
                Err(CallError::Invalid(why))
            }
            Outcome::TooLarge(limit) => {
                self.note_harmless();
                let reason = Arc::new(CloseReason::TooLarge { limit });
                Err(CallError::Lost { reason, delivery: Delivery::Unknown })
            }
            Outcome::TimedOut(clock) => {
                self.note_harmless();
                Err(self.timed_out(clock, what, Delivery::Unknown))
            }
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
        self.io.has_answered();
        self.vitals.answered();
    }

    /// A request ended in a way that says nothing against the connection, unless it has been silent for long.
    fn note_harmless(&self) {
        if let Some((last, given_up)) = self.vitals.harmless().filter(|_| self.closed().is_none()) {
            self.tell_strike(&last, 0, Some(given_up));
            self.retire(last);
        }
    }

    /// The failure of one request: what it says of the connection decides whether the generation goes on.
    fn note_failure(&self, reason: &Arc<CloseReason>) {
        // Before the handshake is done the machine counts, and waits as the server asks.
        if self.session().is_none() {
            return;
        }
        self.heed(reason);
        // What ends with its connection says nothing that is not known.
        if self.closed().is_some() {
            return;
        }
        match reason.bearing() {
            Bearing::Terminal(_) => {
                self.metrics.strike();
                let (strikes, given_up) = self.vitals.terminal(reason);
                self.tell_strike(reason, strikes, given_up);
                if given_up.is_some() {
                    self.retire(reason.clone());
                }
            }
            Bearing::Answered => self.note_answer(),
            Bearing::Harmless => self.note_harmless(),
            Bearing::Certain => self.retire(reason.clone()),
            Bearing::Unclear => {}
        }
    }

    fn tell_strike(&self, reason: &CloseReason, strikes: u32, given_up: Option<GivenUp>) {
        let mut cause = match reason.signal() {
            Some(signal) => format!("{signal}: {reason}"),
            None => reason.to_string(),
        };
        if let Some(given_up) = given_up {
            cause.push_str(&format!(" ({given_up}: the connection is given up)"));
        }
        self.env.emit(&self.server, self.generation, EventKind::Strikes { strikes, cause });
    }

    /// A server that is busy, and says for how long, is left alone for so long.
    fn heed(&self, reason: &CloseReason) {
        let (Some(status @ (429 | 503)), Some(wait)) = (reason.http_status(), reason.retry_after()) else {
            return;
        };
        if let Some(held) = self.gate.hold(&self.env.runtime, wait, status) {
            let for_ms = held.as_millis() as u64;
            self.env.emit(&self.server, self.generation, EventKind::QueueHeld { for_ms, status });
        }
    }

    /// Terminal failures in a row.
    pub(crate) fn strikes(&self) -> u32 {
        self.vitals.strikes()
    }

    /// Ends the generation for new requests; exchanges under way end by themselves.
    pub(crate) fn retire(&self, reason: Arc<CloseReason>) {
        self.pending.lock().close(&reason);
        self.io.retire(reason);
    }

    /// Takes nothing new, lets what is under way end, and ends the generation after it.
    pub(crate) fn drain(&self) {
        self.close_for_new(&Arc::new(CloseReason::Cancelled));
        self.io.drain();
    }

    /// Fails everything that waits, and everything that comes.
    pub(crate) fn poison(&self, reason: &Arc<CloseReason>) {
        self.pending.lock().poison(reason);
    }

    /// Takes nothing new; what waits goes on. For exchanges, whose answers do not need the link's other half.
    pub(crate) fn close_for_new(&self, reason: &Arc<CloseReason>) {
        self.pending.lock().close(reason);
        // They have no end of their own, so nothing would ever be the last to end. None begins after the close.
        if let Some(session) = self.session() {
            session.resources.stop_all();
        }
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
        let Swept { next, slow } = self.pending.lock().sweep(now);
        for (tool, elapsed) in slow {
            telemetry::slow_call(&self.server);
            let elapsed_ms = elapsed.as_millis() as u64;
            self.env.emit(&self.server, self.generation, EventKind::SlowCall { tool, elapsed_ms });
        }
        next
    }

    /// Stops all clocks until the guard is dropped: a person is being asked.
    pub(crate) fn pause_clocks(self: &Arc<Self>) -> PausedClocks {
        self.pending.lock().pause(Instant::now());
        PausedClocks(self.clone())
    }

    /// Answers a request of the server. Over exchanges each answer is one of its own; a server that asks faster
    /// than it takes answers goes without some.
    pub(crate) fn reply(self: &Arc<Self>, frame: Vec<u8>) {
        let place = ReplyPlace::take(self);
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

    fn tell_holding(self: &Arc<Self>, frame: Vec<u8>, place: Option<ReplyPlace>) {
        self.metrics.sent(frame.len());
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
        self.metrics.sent(frame.len());
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
