//! The requests that wait for an answer: a ring of slots indexed by the low bits of their id.
//!
//! Ids grow by one and are never used twice in a connection; a slot that is still taken is passed over, and
//! the ring doubles when it is half full. Every entry has its deadlines, `subscriptions/listen` apart.

use crate::call::{Clock, ProgressSink};
use crate::port::CloseReason;
use callboard_protocol::ReplyBody;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With an answer.
    Reply(ReplyBody),
    /// With a message over the limit.
    TooLarge(usize),
    /// By one of its clocks.
    TimedOut(Clock),
    /// With its connection, or by itself.
    Lost(Arc<CloseReason>),
}

/// The clocks of one request; `None` is off.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clocks {
    /// To the first sign of life, counted from sending.
    pub first_byte: Option<Duration>,
    /// Since the last sign of life.
    pub idle: Option<Duration>,
    /// The moment when it must have ended.
    pub absolute: Option<Instant>,
}

impl Clocks {
    /// Moves the end of the whole request: a person took this time, not the server.
    pub(crate) fn put_off(&mut self, by: Duration) {
        self.absolute = self.absolute.and_then(|at| at.checked_add(by));
    }
}

struct Entry {
    id: u64,
    waiter: oneshot::Sender<Outcome>,
    progress: Option<ProgressSink>,
    clocks: Clocks,
    since: Instant,
    alive_at: Instant,
    alive: bool,
}

impl Entry {
    fn due(&self) -> Option<(Instant, Clock)> {
        let after = |from: Instant, limit: Option<Duration>| limit.and_then(|limit| from.checked_add(limit));
        let first_byte = self.clocks.first_byte.filter(|_| !self.alive);
        let first = after(self.since, first_byte).map(|at| (at, Clock::FirstByte));
        let idle = after(self.alive_at, self.clocks.idle).map(|at| (at, Clock::Idle));
        let absolute = self.clocks.absolute.map(|at| (at, Clock::Absolute));
        [absolute, first, idle].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

/// All requests of one connection that wait for an answer.
pub(crate) struct PendingTable {
    slots: Vec<Option<Entry>>,
    next: u64,
    live: usize,
    closed: Option<Arc<CloseReason>>,
    is_poisoned: bool,
    paused: Option<(usize, Instant)>,
    /// When the IO task looks at deadlines next.
    look_at: Option<Instant>,
}

impl Default for PendingTable {
    fn default() -> PendingTable {
        PendingTable {
            slots: empty(16),
            next: 1,
            live: 0,
            closed: None,
            is_poisoned: false,
            paused: None,
            look_at: None,
        }
    }
}

fn empty(len: usize) -> Vec<Option<Entry>> {
    (0..len).map(|_| None).collect()
}

impl PendingTable {
    /// Takes a request in; gives its id, and whether the IO task must be told to look at deadlines earlier.
    pub(crate) fn insert(
        &mut self,
        waiter: oneshot::Sender<Outcome>,
        progress: Option<ProgressSink>,
        clocks: Clocks,
        now: Instant,
    ) -> Result<(u64, bool), Arc<CloseReason>> {
        if let Some(reason) = &self.closed {
            return Err(reason.clone());
        }
        Ok(self.place(waiter, progress, clocks, now))
    }

    /// Takes something in that ends with the connection and before it by nothing but [`PendingTable::remove`];
    /// also while no requests are taken, since those that wait may need it. Gives its id.
    pub(crate) fn attend(
        &mut self,
        waiter: oneshot::Sender<Outcome>,
        now: Instant,
    ) -> Result<u64, Arc<CloseReason>> {
        match &self.closed {
            Some(reason) if self.is_poisoned => Err(reason.clone()),
            Some(_) | None => Ok(self.place(waiter, None, Clocks::default(), now).0),
        }
    }

    fn place(
        &mut self,
        waiter: oneshot::Sender<Outcome>,
        progress: Option<ProgressSink>,
        clocks: Clocks,
        now: Instant,
    ) -> (u64, bool) {
        if self.live * 2 >= self.slots.len() {
            self.grow();
        }
        while self.slots[self.slot(self.next)].is_some() {
            self.next += 1;
        }
        let id = self.next;
        self.next += 1;
        let entry = Entry { id, waiter, progress, clocks, since: now, alive_at: now, alive: false };
        let due = entry.due().map(|(at, _)| at);
        let slot = self.slot(id);
        self.slots[slot] = Some(entry);
        self.live += 1;
        let is_earlier = due.is_some_and(|due| self.look_at.is_none_or(|at| due < at));
        if is_earlier {
            self.look_at = due;
        }
        (id, is_earlier)
    }

    fn slot(&self, id: u64) -> usize {
        id as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        let mut slots = empty(self.slots.len() * 2);
        for entry in self.slots.drain(..).flatten() {
            let slot = entry.id as usize & (slots.len() - 1);
            slots[slot] = Some(entry);
        }
        self.slots = slots;
    }

    fn take(&mut self, id: u64) -> Option<Entry> {
        let slot = self.slot(id);
        let entry = self.slots[slot].take_if(|entry| entry.id == id)?;
        self.live -= 1;
        Some(entry)
    }

    /// Forgets a request; true when it was still waiting.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        self.take(id).is_some()
    }

    /// Ends a request; false when nobody waits under this id.
    pub(crate) fn complete(&mut self, id: u64, outcome: Outcome) -> bool {
        self.take(id).is_some_and(|entry| entry.waiter.send(outcome).is_ok())
    }

    /// A sign of life of a request; gives who wants to know of its progress.
    pub(crate) fn touch(&mut self, id: u64, now: Instant) -> Option<Option<ProgressSink>> {
        let slot = self.slot(id);
        let entry = self.slots[slot].as_mut().filter(|entry| entry.id == id)?;
        entry.alive_at = now;
        entry.alive = true;
        Some(entry.progress.clone())
    }

    /// Ends what is overdue and gives the next moment to look again.
    pub(crate) fn sweep(&mut self, now: Instant) -> Option<Instant> {
        self.look_at = None;
        if self.paused.is_some() {
            return None;
        }
        let mut next = None;
        for slot in 0..self.slots.len() {
            let Some((at, clock)) = self.slots[slot].as_ref().and_then(Entry::due) else { continue };
            if at > now {
                next = Some(next.map_or(at, |next: Instant| next.min(at)));
            } else if let Some(entry) = self.slots[slot].take() {
                self.live -= 1;
                let _ = entry.waiter.send(Outcome::TimedOut(clock));
            }
        }
        self.look_at = next;
        next
    }

    /// Stops all clocks; counted.
    pub(crate) fn pause(&mut self, now: Instant) {
        match &mut self.paused {
            Some((count, _)) => *count += 1,
            none => *none = Some((1, now)),
        }
    }

    /// Undoes one [`PendingTable::pause`]; with the last one the clocks go on where they stood.
    pub(crate) fn resume(&mut self, now: Instant) {
        match &mut self.paused {
            Some((count, since)) if *count == 1 => {
                let since = *since;
                self.paused = None;
                for entry in self.slots.iter_mut().flatten() {
                    let stood = now - since.max(entry.since);
                    entry.alive_at += stood;
                    entry.since += stood;
                    entry.clocks.absolute = entry.clocks.absolute.map(|at| at + stood);
                }
            }
            Some((count, _)) => *count -= 1,
            None => {}
        }
    }

    /// Takes no more requests. Those that wait stay.
    pub(crate) fn close(&mut self, reason: &Arc<CloseReason>) {
        self.closed.get_or_insert_with(|| reason.clone());
    }

    /// Takes no more requests and ends all that wait.
    pub(crate) fn poison(&mut self, reason: &Arc<CloseReason>) {
        self.close(reason);
        self.is_poisoned = true;
        for entry in self.slots.iter_mut().filter_map(Option::take) {
            let _ = entry.waiter.send(Outcome::Lost(reason.clone()));
        }
        self.live = 0;
    }

    /// Why no more requests are taken.
    pub(crate) fn closed(&self) -> Option<&Arc<CloseReason>> {
        self.closed.as_ref()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn insert(table: &mut PendingTable, clocks: Clocks, now: Instant) -> (u64, oneshot::Receiver<Outcome>) {
        let (waiter, answer) = oneshot::channel();
        (table.insert(waiter, None, clocks, now).expect("open").0, answer)
    }

    fn reply() -> Outcome {
        Outcome::Reply(ReplyBody::Result(Bytes::from_static(b"{}")))
    }

    #[test]
    fn ids_are_never_used_twice_and_late_replies_find_nobody() {
        let now = Instant::now();
        let mut table = PendingTable::default();
        let (kept, mut kept_answer) = insert(&mut table, Clocks::default(), now);
        let mut seen = std::collections::BTreeSet::from([kept]);
        for _ in 0..200 {
            let (id, answer) = insert(&mut table, Clocks::default(), now);
            assert!(seen.insert(id));
            assert!(table.complete(id, reply()) && !table.complete(id, reply()));
            drop(answer);
        }
        assert!(kept_answer.try_recv().is_err());
        assert!(table.complete(kept, reply()) && kept_answer.try_recv().is_ok());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn the_ring_grows_around_those_that_wait() {
        let now = Instant::now();
        let mut table = PendingTable::default();
        let waiting: Vec<_> = (0..1_000).map(|_| insert(&mut table, Clocks::default(), now)).collect();
        for (id, mut answer) in waiting {
            assert!(table.complete(id, reply()));
            assert!(matches!(answer.try_recv(), Ok(Outcome::Reply(_))));
        }
    }

    #[test]
    fn each_clock_ends_its_own_request() {
        let now = Instant::now();
        let s = Duration::from_secs;
        let mut table = PendingTable::default();
        let first = Clocks { first_byte: Some(s(1)), idle: Some(s(5)), absolute: Some(now + s(60)) };
        let (a, mut a_answer) = insert(&mut table, first, now);
        let (b, mut b_answer) = insert(&mut table, first, now);
        assert!(table.touch(b, now + s(1)).is_some());
        assert_eq!(table.sweep(now + s(1)), Some(now + s(6)));
        assert!(matches!(a_answer.try_recv(), Ok(Outcome::TimedOut(Clock::FirstByte))));
        assert!(table.touch(a, now).is_none());
        assert_eq!(table.sweep(now + s(6)), None);
        assert!(matches!(b_answer.try_recv(), Ok(Outcome::TimedOut(Clock::Idle))));
        let (c, mut c_answer) = insert(&mut table, first, now);
        for t in 1..60 {
            table.touch(c, now + s(t));
            table.sweep(now + s(t));
        }
        table.sweep(now + s(60));
        assert!(matches!(c_answer.try_recv(), Ok(Outcome::TimedOut(Clock::Absolute))));
    }

    #[test]
    fn paused_clocks_stand_still() {
        let now = Instant::now();
        let s = Duration::from_secs;
        let mut table = PendingTable::default();
        let (_, mut answer) =
            insert(&mut table, Clocks { absolute: Some(now + s(10)), ..Clocks::default() }, now);
        table.pause(now + s(5));
        assert_eq!(table.sweep(now + s(100)), None);
        table.resume(now + s(105));
        assert_eq!(table.sweep(now + s(106)), Some(now + s(110)));
        assert!(answer.try_recv().is_err());
    }

    #[test]
    fn a_limit_beyond_what_clocks_can_tell_is_none() {
        let now = Instant::now();
        let mut table = PendingTable::default();
        let forever = Clocks { first_byte: Some(Duration::MAX), idle: Some(Duration::MAX), absolute: None };
        let (_, _answer) = insert(&mut table, forever, now);
        assert_eq!(table.sweep(now), None);
    }

    #[test]
    fn what_attends_a_connection_outlives_its_closing_but_not_its_end() {
        let now = Instant::now();
        let mut table = PendingTable::default();
        let reason = Arc::new(CloseReason::Cancelled);
        table.close(&reason);
        let (waiter, mut ended) = oneshot::channel();
        table.attend(waiter, now).expect("the connection still ends its calls");
        table.poison(&reason);
        assert!(matches!(ended.try_recv(), Ok(Outcome::Lost(_))));
        assert!(table.attend(oneshot::channel().0, now).is_err());
    }

    #[test]
    fn a_poisoned_table_fails_everything_and_takes_nothing() {
        let now = Instant::now();
        let mut table = PendingTable::default();
        let (_, mut answer) = insert(&mut table, Clocks::default(), now);
        table.poison(&Arc::new(CloseReason::Cancelled));
        assert!(matches!(answer.try_recv(), Ok(Outcome::Lost(_))));
        let (waiter, _answer) = oneshot::channel();
        assert!(table.insert(waiter, None, Clocks::default(), now).is_err());
    }
}
