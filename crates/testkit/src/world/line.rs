//! One link between the board and a simulated server: what is on its way to the board, and when it gets there.

use callboard_core::port::CloseReason;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::task::Waker;
use tokio::sync::oneshot;

/// One link.
pub(crate) struct Line {
    pub server: u32,
    pub generation: u64,
    /// The how-manieth link of its server this is.
    pub ordinal: u64,
    /// Counts what was asked over it.
    pub asked: u64,
    /// Counts the notifications that were exchanges of their own.
    pub notices: u64,
    /// Each request is an exchange of its own.
    pub is_exchange: bool,
    /// Its server's count of sessions when this one's was made; none before, and without sessions.
    pub session: Option<u64>,
    /// The server has done its part of the handshake.
    pub is_greeted: bool,
    /// Nothing sent over it arrives any more.
    pub is_broken: bool,
    /// The client holds its receiving half.
    pub is_received: bool,
    /// Calls that were taken in over it and not answered.
    pub calls: BTreeSet<u64>,
    /// Exchanges under way, to be ended early when the server goes.
    pub exchanges: BTreeMap<u64, oneshot::Sender<CloseReason>>,
    inward: BinaryHeap<Reverse<Item>>,
    pushed: u64,
    waker: Option<Waker>,
}

/// What it means that an item arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// The server has done its part of the handshake.
    Greeting,
    /// The server refuses the handshake.
    Refusal,
    /// The answer to a call.
    Call(u64),
}

/// Something on its way to the board.
pub(crate) struct Item {
    at_ms: u64,
    order: u64,
    pub what: What,
}

/// What is on its way.
pub(crate) enum What {
    Text(String, Option<Mark>),
    End(CloseReason),
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        (self.at_ms, self.order) == (other.at_ms, other.order)
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Item) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Item) -> std::cmp::Ordering {
        (self.at_ms, self.order).cmp(&(other.at_ms, other.order))
    }
}

/// The next thing that arrives.
pub(crate) enum Next {
    Now(What),
    At(u64),
    Nothing,
}

impl Line {
    pub(crate) fn new(server: u32, generation: u64, ordinal: u64, is_exchange: bool) -> Line {
        Line {
            server,
            generation,
            ordinal,
            asked: 0,
            notices: 0,
            is_exchange,
            session: None,
            is_greeted: false,
            is_broken: false,
            is_received: true,
            calls: BTreeSet::new(),
            exchanges: BTreeMap::new(),
            inward: BinaryHeap::new(),
            pushed: 0,
            waker: None,
        }
    }

    fn push(&mut self, at_ms: u64, what: What) {
        self.pushed += 1;
        self.inward.push(Reverse(Item { at_ms, order: self.pushed, what }));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Sends text to the board, to arrive at that moment.
    pub(crate) fn say(&mut self, at_ms: u64, text: String, mark: Option<Mark>) {
        if !self.is_broken {
            self.push(at_ms, What::Text(text, mark));
        }
    }

    /// The server ends the link at once. What was on its way is lost; exchanges end each by itself, and their
    /// link, which is none, stays.
    pub(crate) fn end(&mut self, now: u64, reason: CloseReason) {
        for (_, ending) in std::mem::take(&mut self.exchanges) {
            let _ = ending.send(reason.clone());
        }
        if !self.is_exchange && !self.is_broken {
            self.is_broken = true;
            self.inward.clear();
            self.push(now, What::End(reason));
        }
    }

    /// The server ends the link at a later moment.
    pub(crate) fn end_later(&mut self, at_ms: u64, reason: CloseReason) {
        if !self.is_broken {
            self.push(at_ms, What::End(reason));
        }
    }

    /// Takes back an end that was to come later.
    pub(crate) fn live_on(&mut self) {
        if !self.is_broken {
            self.inward.retain(|Reverse(item)| matches!(item.what, What::Text(..)));
        }
    }

    pub(crate) fn next(&mut self, now: u64, waker: &Waker) -> Next {
        match self.inward.peek() {
            Some(Reverse(item)) if item.at_ms <= now => {
                // It was looked at just now.
                self.inward.pop().map_or(Next::Nothing, |Reverse(item)| Next::Now(item.what))
            }
            waiting => {
                let next = waiting.map_or(Next::Nothing, |Reverse(item)| Next::At(item.at_ms));
                self.waker = Some(waker.clone());
                next
            }
        }
    }
}
