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
    /// When a tool call counts as slow; none once that is told.
    slow_at: Option<Instant>,
}

/// What a look at the deadlines came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// The next moment to look.
    pub next: Option<Instant>,
    /// Tools whose calls have become slow, and for how long those have been under way.
    pub slow: Vec<(String, Duration)>,
}

/// Slots of an empty table.
const SLOTS_LEAST: usize = 16;
/// Characters of a tool's name that are kept to tell of slow calls.
const NAME_CHARS_KEPT: usize = 256;

impl Entry {
    fn due(&self) -> Option<(Instant, Clock)> {
        let after = |from: Instant, limit: Option<Duration>| limit.and_then(|limit| from.checked_add(limit));
        let first_byte = self.clocks.first_byte.filter(|_| !self.alive);
        let first = after(self.since, first_byte).map(|at| (at, Clock::FirstByte));
        let idle = after(self.alive_at, self.clocks.idle).map(|at| (at, Clock::Idle));
        let absolute = self.clocks.absolute.map(|at| (at, Clock::Absolute));
        [absolute, first, idle].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// The next moment at which something is to be done about it.
    fn look_at(&self) -> Option<Instant> {
        let due = self.due().map(|(at, _)| at);
        match (due, self.slow_at) {
            (Some(due), Some(slow)) => Some(due.min(slow)),
            (due, slow) => due.or(slow),
        }
    }
}

/// All requests of one connection that wait for an answer.
pub(crate) struct PendingTable {
    slots: Vec<Option<Entry>>,
    /// The tools called, slot by slot; kept apart so that their memory serves the next call.
    tools: Vec<String>,
    slow_after: Option<Duration>,
    next: u64,
    live: usize,
    closed: Option<Arc<CloseReason>>,
    is_poisoned: bool,
    paused: Option<(usize, Instant)>,
    /// When the IO task looks at deadlines next.
    look_at: Option<Instant>,
}

fn empty(len: usize) -> Vec<Option<Entry>> {
    (0..len).map(|_| None).collect()
}

impl PendingTable {
    /// An empty table; tool calls are slow after so long, never for zero.
    pub(crate) fn new(slow_after: Duration) -> PendingTable {
        PendingTable {
            slots: empty(SLOTS_LEAST),
            tools: vec![String::new(); SLOTS_LEAST],
            slow_after: (!slow_after.is_zero()).then_some(slow_after),
            next: 1,
            live: 0,
            closed: None,
            is_poisoned: false,
            paused: None,
            look_at: None,
        }
    }

    /// Takes a request in, with the tool that it calls; gives its id, and whether the IO task must be told to look at deadlines earlier.
    pub(crate) fn insert(
        &mut self,
        waiter: oneshot::Sender<Outcome>,
        progress: Option<ProgressSink>,
        clocks: Clocks,
        (now, tool): (Instant, Option<&str>),
    ) -> Result<(u64, bool), Arc<CloseReason>> {
        if let Some(reason) = &self.closed {
            return Err(reason.clone());
        }
        Ok(self.place(waiter, progress, clocks, (now, tool)))
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
            Some(_) | None => Ok(self.place(waiter, None, Clocks::default(), (now, None)).0),
        }
    }

    fn place(
        &mut self,
        waiter: oneshot::Sender<Outcome>,
        progress: Option<ProgressSink>,
        clocks: Clocks,
        (now, tool): (Instant, Option<&str>),
    ) -> (u64, bool) {
        if self.live * 2 >= self.slots.len() {
            self.grow();
        }
        while self.slots[self.slot(self.next)].is_some() {
            self.next += 1;
        }
        let id = self.next;
        self.next += 1;
        let slot = self.slot(id);
        let slow_at = match tool {
            Some(tool) => {
                self.tools[slot].clear();
                self.tools[slot].push_str(callboard_protocol::text::cut(tool, NAME_CHARS_KEPT).0);
                self.slow_after.and_then(|after| now.checked_add(after))
            }
            None => None,
        };
        let entry = Entry { id, waiter, progress, clocks, since: now, alive_at: now, alive: false, slow_at };
        let due = entry.look_at();
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
        let len = self.slots.len() * 2;
        let (mut slots, mut tools) = (empty(len), vec![String::new(); len]);
        for (entry, tool) in self.slots.drain(..).zip(self.tools.drain(..)) {
            if let Some(entry) = entry {
                let slot = entry.id as usize & (len - 1);
                slots[slot] = Some(entry);
                tools[slot] = tool;
            }
        }
        (self.slots, self.tools) = (slots, tools);
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

    /// Ends what is overdue, finds what has become slow, and gives the next moment to look again.
    pub(crate) fn sweep(&mut self, now: Instant) -> Swept {
        self.look_at = None;
        let mut swept = Swept::default();
        if self.paused.is_some() {
            return swept;
        }
        for (slot, tool) in self.slots.iter_mut().zip(&self.tools) {
            let Some(entry) = slot else { continue };
            if entry.slow_at.take_if(|at| *at <= now).is_some() {
                swept.slow.push((tool.clone(), now - entry.since));
            }
            match entry.due() {
                Some((at, clock)) if at <= now => {
                    if let Some(entry) = slot.take() {
                        self.live -= 1;
                        let _ = entry.waiter.send(Outcome::TimedOut(clock));
                    }
                }
                Some(_) | None => {
                    swept.next = [swept.next, entry.look_at()].into_iter().flatten().min();
                }
            }
        }
        self.look_at = swept.next;
        swept
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
                    entry.slow_at = entry.slow_at.map(|at| at + stood);
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
        (table.insert(waiter, None, clocks, (now, None)).expect("open").0, answer)
    }

    fn reply() -> Outcome {
        Outcome::Reply(ReplyBody::Result(Bytes::from_static(b"{}")))
    }

    #[test]
    fn ids_are_never_used_twice_and_late_replies_find_nobody() {
        let now = Instant::now();
        let mut table = PendingTable::new(Duration::ZERO);
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
        let mut table = PendingTable::new(Duration::ZERO);
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
        let mut table = PendingTable::new(Duration::ZERO);
        let first = Clocks { first_byte: Some(s(1)), idle: Some(s(5)), absolute: Some(now + s(60)) };
        let (a, mut a_answer) = insert(&mut table, first, now);
        let (b, mut b_answer) = insert(&mut table, first, now);
        assert!(table.touch(b, now + s(1)).is_some());
        assert_eq!(table.sweep(now + s(1)).next, Some(now + s(6)));
        assert!(matches!(a_answer.try_recv(), Ok(Outcome::TimedOut(Clock::FirstByte))));
        assert!(table.touch(a, now).is_none());
        assert_eq!(table.sweep(now + s(6)).next, None);
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
        let mut table = PendingTable::new(Duration::ZERO);
        let (_, mut answer) =
            insert(&mut table, Clocks { absolute: Some(now + s(10)), ..Clocks::default() }, now);
        table.pause(now + s(5));
        assert_eq!(table.sweep(now + s(100)).next, None);
        table.resume(now + s(105));
        assert_eq!(table.sweep(now + s(106)).next, Some(now + s(110)));
        assert!(answer.try_recv().is_err());
    }

    #[test]
    fn a_slow_call_is_told_once_by_its_tool_and_by_no_clock_of_its_own() {
        let now = Instant::now();
        let s = Duration::from_secs;
        let mut table = PendingTable::new(s(2));
        let clocks = Clocks { absolute: Some(now + s(60)), ..Clocks::default() };
        let _other = insert(&mut table, clocks, now);
        let call = |table: &mut PendingTable, tool: &str, now| {
            let (waiter, answer) = oneshot::channel();
            let (_, is_earlier) = table.insert(waiter, None, clocks, (now, Some(tool))).expect("open");
            (answer, is_earlier)
        };
        let (_first, is_earlier) = call(&mut table, "first", now);
        assert!(is_earlier);
        let (_second, is_earlier) = call(&mut table, "second", now + s(1));
        assert!(!is_earlier, "later calls must not wake the IO task");
        // Enough to make the ring grow around them.
        let _more: Vec<_> = (0..40).map(|_| insert(&mut table, clocks, now)).collect();
        let slow = |names: &[(&str, u64)]| {
            names.iter().map(|(name, after)| ((*name).to_owned(), s(*after))).collect::<Vec<_>>()
        };
        assert_eq!(table.sweep(now + s(2)), Swept { next: Some(now + s(3)), slow: slow(&[("first", 2)]) });
        table.pause(now + s(2));
        table.resume(now + s(12));
        assert_eq!(table.sweep(now + s(12)), Swept { next: Some(now + s(13)), slow: slow(&[]) });
        assert_eq!(table.sweep(now + s(13)), Swept { next: Some(now + s(70)), slow: slow(&[("second", 2)]) });
        assert_eq!(table.sweep(now + s(69)).slow, slow(&[]));
    }

    #[test]
    fn a_limit_beyond_what_clocks_can_tell_is_none() {
        let now = Instant::now();
        let mut table = PendingTable::new(Duration::ZERO);
        let forever = Clocks { first_byte: Some(Duration::MAX), idle: Some(Duration::MAX), absolute: None };
        let (_, _answer) = insert(&mut table, forever, now);
        assert_eq!(table.sweep(now).next, None);
    }

    #[test]
    fn what_attends_a_connection_outlives_its_closing_but_not_its_end() {
        let now = Instant::now();
        let mut table = PendingTable::new(Duration::ZERO);
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
        let mut table = PendingTable::new(Duration::ZERO);
        let (_, mut answer) = insert(&mut table, Clocks::default(), now);
        table.poison(&Arc::new(CloseReason::Cancelled));
        assert!(matches!(answer.try_recv(), Ok(Outcome::Lost(_))));
        let (waiter, _answer) = oneshot::channel();
        assert!(table.insert(waiter, None, Clocks::default(), (now, None)).is_err());
    }
}
