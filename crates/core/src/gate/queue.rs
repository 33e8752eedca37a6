//! Who waits at a gate, and whose turn it is.

use super::Need;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Tells one who waits that it is its turn.
pub(super) type Grant = oneshot::Sender<()>;
type Caller = Option<Arc<str>>;
type Line = VecDeque<(u64, Grant)>;

/// Lines of waiting calls, one a caller, served in turn; and those that need no place.
#[derive(Default)]
pub(super) struct Queue {
    lines: HashMap<Caller, Line>,
    /// Callers whose line is not empty; the front one is served next.
    turns: VecDeque<Caller>,
    leaves: Line,
    len: usize,
    next_ticket: u64,
}

impl Queue {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts one at the end of its caller's line; gives its ticket.
    pub(super) fn push(&mut self, caller: Caller, need: Need, grant: Grant) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.len += 1;
        match need {
            Need::Leave => self.leaves.push_back((ticket, grant)),
            Need::Place => {
                let line = self.lines.entry(caller.clone()).or_default();
                if line.is_empty() {
                    self.turns.push_back(caller);
                }
                line.push_back((ticket, grant));
            }
        }
        ticket
    }

    /// The first of those that need no place.
    pub(super) fn next_leave(&mut self) -> Option<Grant> {
        let (_, grant) = self.leaves.pop_front()?;
        self.len -= 1;
        Some(grant)
    }

    /// The first in the line of the caller whose turn it is. That caller's next turn comes after all others'.
    pub(super) fn next_place(&mut self) -> Option<Grant> {
        let caller = self.turns.pop_front()?;
        let line = self.lines.get_mut(&caller)?;
        let (_, grant) = line.pop_front()?;
        self.len -= 1;
        match line.is_empty() {
            true => drop(self.lines.remove(&caller)),
            false => self.turns.push_back(caller),
        }
        Some(grant)
    }

    /// Takes one out of its line; false when it is in none any more.
    pub(super) fn remove(&mut self, caller: Option<&Arc<str>>, need: Need, ticket: u64) -> bool {
        let caller = caller.cloned();
        let line = match need {
            Need::Leave => Some(&mut self.leaves),
            Need::Place => self.lines.get_mut(&caller),
        };
        let Some(line) = line else { return false };
        let Ok(at) = line.binary_search_by_key(&ticket, |(ticket, _)| *ticket) else { return false };
        line.remove(at);
        let is_empty = line.is_empty();
        self.len -= 1;
        if need == Need::Place && is_empty {
            self.lines.remove(&caller);
            self.turns.retain(|other| *other != caller);
        }
        true
    }
}
