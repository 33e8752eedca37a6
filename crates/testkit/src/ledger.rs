//! The truth about calls: what their callers were told, beside what their servers saw.

use callboard_core::call::CallError;
use callboard_core::port::Delivery;
use std::collections::{BTreeMap, BTreeSet};

/// A call under way.
#[derive(Debug)]
struct OpenCall {
    server: u32,
    caller: u32,
    started_ms: u64,
    deadline_ms: u64,
    /// Times that the server took it in, and so performed it.
    performed: u32,
    /// Times that the server turned it away for a session that has expired.
    refused: u32,
    /// It was lost with its link at this moment, and must end then.
    lost_at_ms: Option<u64>,
}

/// How a call ended for its caller.
pub(crate) enum Told<'a> {
    Reply(&'a str),
    Error(&'a CallError),
    GivenUp,
}

/// A call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub server: u32,
    pub caller: u32,
    pub started_ms: u64,
    pub outcome: &'static str,
}

/// An invariant that a call broke, and how.
pub(crate) type Fault = (&'static str, String);

/// The calls under way, and sums.
#[derive(Default)]
pub(crate) struct Ledger {
    open: BTreeMap<u64, OpenCall>,
    /// Servers may perform what their callers have given up.
    performed_late: BTreeMap<u64, u32>,
    unseen: u32,
    made: u64,
    ok: u64,
}

/// Calls that ended are remembered for so many later ones, in case their server performs them after all.
const REMEMBERED: u64 = 4_096;

impl Ledger {
    /// A new call; gives its number.
    pub(crate) fn begin(&mut self, server: u32, caller: u32, now: u64, deadline_ms: u64) -> u64 {
        self.made += 1;
        self.unseen += 1;
        let call = OpenCall {
            server,
            caller,
            started_ms: now,
            deadline_ms,
            performed: 0,
            refused: 0,
            lost_at_ms: None,
        };
        self.open.insert(self.made, call);
        self.made
    }

    /// A server takes a call in and performs it. At most once, whatever became of its caller.
    pub(crate) fn performed(&mut self, number: u64) -> Option<Fault> {
        let times = match self.open.get_mut(&number) {
            Some(call) => {
                self.unseen -= u32::from(call.performed == 0);
                call.performed += 1;
                call.performed
            }
            None => {
                let times = self.performed_late.entry(number).or_default();
                *times += 1;
                *times
            }
        };
        if times <= 1 {
            return None;
        }
        Some(("performed-once", format!("call {number} was performed {times} times")))
    }

    /// A server turns a call away for a session that has expired: it may come once more, never another time.
    pub(crate) fn refused(&mut self, number: u64) -> Option<Fault> {
        let call = self.open.get_mut(&number)?;
        call.refused += 1;
        (call.refused > 2)
            .then(|| ("resent-once", format!("call {number} was turned away {} times", call.refused)))
    }

    /// The link over which the calls went has ended for the client at this moment.
    pub(crate) fn lost(&mut self, numbers: &BTreeSet<u64>, now: u64) {
        for number in numbers {
            if let Some(call) = self.open.get_mut(number) {
                call.lost_at_ms.get_or_insert(now);
            }
        }
    }

    /// A call has ended for its caller: what it comes to, and every rule that this breaks.
    pub(crate) fn end(&mut self, number: u64, tool: &str, told: Told<'_>, now: u64) -> (Ended, Vec<Fault>) {
        let mut faults = Vec::new();
        let Some(call) = self.open.remove(&number) else {
            let ended = Ended { server: 0, caller: 0, started_ms: now, outcome: "ok" };
            return (ended, vec![("ends-once", format!("call {number} ended twice"))]);
        };
        if call.performed == 0 {
            self.unseen -= 1;
        }
        if call.performed > 0 {
            self.performed_late.insert(number, call.performed);
        }
        let remembered_from = self.made.saturating_sub(REMEMBERED);
        while self.performed_late.first_key_value().is_some_and(|(first, _)| *first < remembered_from) {
            self.performed_late.pop_first();
        }
        if now > call.deadline_ms {
            faults.push((
                "call-deadline",
                format!("call {number} ended {} ms after its deadline", now - call.deadline_ms),
            ));
        }
        if let Some(lost) = call.lost_at_ms
            && call.performed == 1
            && now > lost
        {
            faults.push((
                "lost-with-link",
                format!("call {number} ended {} ms after its link, which it was lost with", now - lost),
            ));
        }
        let outcome = judge(number, tool, &call, &told, &mut faults);
        self.ok += u64::from(outcome == "ok");
        let ended = Ended { server: call.server, caller: call.caller, started_ms: call.started_ms, outcome };
        (ended, faults)
    }

    /// Calls that should have ended before now, and have not.
    pub(crate) fn overdue(&self, now: u64) -> Vec<(u32, Fault)> {
        let overdue = self.open.iter().filter(|(_, call)| call.deadline_ms < now);
        let fault = |number, call: &OpenCall| {
            (
                "call-deadline",
                format!("call {number} is open {} ms after its deadline", now - call.deadline_ms),
            )
        };
        overdue.map(|(number, call)| (call.server, fault(number, call))).collect()
    }

    pub(crate) fn open(&self) -> u32 {
        self.open.len() as u32
    }

    /// Those that no server has seen.
    pub(crate) fn unseen(&self) -> u32 {
        self.unseen
    }

    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn ok(&self) -> u64 {
        self.ok
    }
}

/// What the server answers to a call: what makes a right answer right.
pub(crate) fn right_answer(number: u64, tool: &str) -> String {
    format!("{tool}:{number}")
}

fn judge(number: u64, tool: &str, call: &OpenCall, told: &Told<'_>, faults: &mut Vec<Fault>) -> &'static str {
    let mut untrue = |what: String| faults.push(("true-delivery", format!("call {number}: {what}")));
    let error = match told {
        Told::Reply(text) => {
            if *text != right_answer(number, tool) {
                untrue(format!("the answer is {text:?}"));
            }
            if call.performed != 1 {
                untrue(format!("answered, and performed {} times", call.performed));
            }
            return "ok";
        }
        Told::GivenUp => return "cancelled",
        Told::Error(error) => error,
    };
    match error {
        CallError::Remote(_) | CallError::Invalid(_) | CallError::InputNeeded(_) => {}
        _ => match error.delivery() {
            Delivery::NotSent if call.performed > 0 => {
                untrue(format!("\"not sent\", and the server performed it ({error})"));
            }
            Delivery::Refused if call.performed > 0 => {
                untrue(format!("\"refused\", and the server performed it ({error})"));
            }
            Delivery::NotSent | Delivery::Refused | Delivery::Unknown => {}
        },
    }
    match error {
        CallError::TimedOut { .. } => "timed-out",
        CallError::Lost { delivery: Delivery::NotSent | Delivery::Refused, .. } => "lost-unsent",
        CallError::Lost { delivery: Delivery::Unknown, .. } => "lost-unknown",
        CallError::QueueFull { .. } => "queue-full",
        CallError::NotConnected { .. } | CallError::Closed => "not-connected",
        CallError::Cancelled => "cancelled",
        CallError::Remote(_)
        | CallError::Invalid(_)
        | CallError::Unsupported(_)
        | CallError::InputNeeded(_) => "remote-error",
        _ => "remote-error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use callboard_core::port::CloseReason;
    use std::sync::Arc;

    fn lost(delivery: Delivery) -> CallError {
        CallError::Lost { reason: Arc::new(CloseReason::NoReply), delivery }
    }

    fn broken(faults: &[Fault]) -> Vec<&'static str> {
        faults.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn what_a_caller_is_told_must_be_true() {
        let mut ledger = Ledger::default();
        let quiet = ledger.begin(0, 0, 0, 100);
        let (ended, faults) = ledger.end(quiet, "t0", Told::Error(&lost(Delivery::NotSent)), 50);
        assert_eq!((ended.outcome, faults.len()), ("lost-unsent", 0));

        let done = ledger.begin(0, 0, 0, 100);
        assert!(ledger.performed(done).is_none());
        let (_, faults) = ledger.end(done, "t0", Told::Error(&lost(Delivery::NotSent)), 50);
        assert_eq!(broken(&faults), ["true-delivery"]);

        let wrong = ledger.begin(0, 0, 0, 100);
        ledger.performed(wrong);
        let (_, faults) = ledger.end(wrong, "t0", Told::Reply("t0:999"), 101);
        assert_eq!(broken(&faults), ["call-deadline", "true-delivery"]);
        assert!(ledger.performed(wrong).is_some(), "performed again after its end");
    }

    #[test]
    fn a_call_ends_once_and_with_its_link() {
        let mut ledger = Ledger::default();
        let call = ledger.begin(0, 0, 0, 100);
        ledger.performed(call);
        ledger.lost(&BTreeSet::from([call]), 10);
        let (_, faults) = ledger.end(call, "t0", Told::Error(&lost(Delivery::Unknown)), 11);
        assert_eq!(broken(&faults), ["lost-with-link"]);
        let (_, faults) = ledger.end(call, "t0", Told::GivenUp, 12);
        assert_eq!(broken(&faults), ["ends-once"]);
        assert_eq!((ledger.open(), ledger.unseen()), (0, 0));
    }
}
