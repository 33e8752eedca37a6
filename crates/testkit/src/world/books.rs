//! The books about a world: the trace, what each server is, by the rules and by its own account, every call,
//! and every invariant that did not hold.

use super::told;
use crate::ledger::{Ledger, Told};
use crate::model::{Cause, Life, Numbers, Outcome, Pools, Said, Stand, Wish};
use crate::recording::{Band, Broken, CallRecord, GaugePoint, ServerTrack};
use crate::scenario::Transport;
use crate::trace::Trace;
use callboard_core::event::{BoardEvent, EventKind};
use callboard_core::port::{CloseReason, ServerName};
use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Arguments;

/// How much of a run is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Bands, calls and gauges: what a report shows.
    #[default]
    Full,
    /// Sums alone, in memory that does not grow with the run.
    Sums,
}

/// Broken invariants that are kept; the first ones say most.
const BROKEN_MAX: usize = 100;

/// The books about a world.
pub(crate) struct Books {
    pub trace: Trace,
    pub ledger: Ledger,
    detail: Detail,
    lives: Vec<Life>,
    said: Vec<(Said, u64)>,
    listed: Vec<bool>,
    tracks: Vec<ServerTrack>,
    pools: Pools,
    calls: Vec<CallRecord>,
    gauges: Vec<GaugePoint>,
    pub broken: Vec<Broken>,
    /// Links that ended for the client: their servers must have left the state by the end of the instant.
    owed: VecDeque<(u64, u32, u64)>,
    dials: u64,
    closing: bool,
}

impl Books {
    pub(crate) fn new(trace: Trace, pools: Pools, detail: Detail) -> Books {
        Books {
            trace,
            ledger: Ledger::default(),
            detail,
            lives: Vec::new(),
            said: Vec::new(),
            listed: Vec::new(),
            tracks: Vec::new(),
            pools,
            calls: Vec::new(),
            gauges: Vec::new(),
            broken: Vec::new(),
            owed: VecDeque::new(),
            dials: 0,
            closing: false,
        }
    }

    pub(crate) fn add_server(&mut self, name: &ServerName, transport: Transport, numbers: Numbers) {
        self.lives.push(Life::new(numbers));
        self.said.push((Said::Dormant, 0));
        self.listed.push(false);
        self.tracks.push(ServerTrack {
            name: name.as_str().to_owned(),
            transport: Cow::Borrowed(transport.as_str()),
            bands: Vec::new(),
            attempts_at_ms: Vec::new(),
        });
    }

    pub(crate) fn note(&mut self, now: u64, what: Arguments<'_>) {
        self.trace.note(now, what);
    }

    pub(crate) fn broke(&mut self, now: u64, invariant: &'static str, server: Option<u32>, detail: String) {
        let server = server.map(|server| self.tracks[server as usize].name.clone());
        let name = server.as_deref().unwrap_or("-");
        self.trace.note(now, format_args!("BROKEN {invariant} {name} {detail}"));
        if self.broken.len() < BROKEN_MAX {
            self.broken.push(Broken { at_ms: now, invariant: Cow::Borrowed(invariant), server, detail });
        }
    }

    pub(crate) fn wish(&mut self, server: u32, now: u64, wish: Wish) {
        self.trace.note(now, format_args!("wish {server} {wish:?}"));
        self.lives[server as usize].asked = Some((now, wish));
    }

    pub(crate) fn stand(&self, server: u32) -> Stand {
        self.lives[server as usize].stand
    }

    /// The board has had a list of the server's tools.
    pub(crate) fn is_listed(&self, server: u32) -> bool {
        self.listed[server as usize]
    }

    /// What ends from here on ends because the board is closed.
    pub(crate) fn begin_closing(&mut self) {
        self.closing = true;
    }

    pub(crate) fn missed(&mut self, events: u64) {
        self.broke(0, "events", None, format!("{events} events came faster than they were read"));
    }

    /// Takes in what the board says.
    pub(crate) fn hear(&mut self, number: u32, event: &BoardEvent) {
        let at = event.at_ms;
        let EventKind::StateChanged { state, phase, .. } = &event.event else {
            if let EventKind::ListFetched { .. } = &event.event {
                self.listed[number as usize] = true;
            }
            if let Some(text) = told(&event.event) {
                self.trace.note(at, format_args!("{number} gen {} {text}", event.generation));
            }
            return;
        };
        let Some(said) = Said::of(state, *phase) else { return };
        self.trace.note(at, format_args!("{number} gen {} is {}", event.generation, said.word()));
        self.band(number, said, at);
        if self.closing {
            return;
        }
        let life = &mut self.lives[number as usize];
        let (before, remote) = (life.stand, life.numbers().remote);
        let faults = life.hear(said, event.generation, at);
        let after = life.stand;
        for (invariant, detail) in faults {
            self.broke(at, invariant, Some(number), detail);
        }
        self.keep_pools(number, remote, before, after, said, at);
    }

    fn keep_pools(&mut self, number: u32, remote: bool, before: Stand, after: Stand, said: Said, at: u64) {
        if said == Said::Dialing {
            let due_ms = if let Stand::Queued { due_ms } = before { due_ms } else { at };
            if !self.pools.take(remote, number, due_ms, at) {
                let held = self.pools.held(at);
                let detail = format!("was due at {due_ms} and is dialed at {at}, with {held} permits out");
                self.broke(at, "dial-permits", Some(number), detail);
            }
        } else if matches!(before, Stand::Trying { .. }) && !matches!(after, Stand::Trying { .. }) {
            self.pools.give_back(remote, number, at);
        }
    }

    fn band(&mut self, number: u32, said: Said, at: u64) {
        let (was, since) = std::mem::replace(&mut self.said[number as usize], (said, at));
        if self.detail == Detail::Full && at > since {
            let band = Band { from_ms: since, to_ms: at, state: Cow::Borrowed(was.word()) };
            self.tracks[number as usize].bands.push(band);
        }
    }

    /// Looks at what had to happen in an instant that is over.
    pub(crate) fn settle(&mut self, now: u64) {
        while let Some((at, server, generation)) = self.owed.front().copied().filter(|(at, ..)| *at < now) {
            self.owed.pop_front();
            let life = &self.lives[server as usize];
            if matches!(life.stand, Stand::Connected { .. }) && life.generation == generation && !self.closing
            {
                let detail = format!("what happened at {at} ends its connection, and it is still connected");
                self.broke(now, "seen-at-once", Some(server), detail);
            }
        }
    }

    /// A link, or an exchange, ended for the client with this cause.
    pub(crate) fn saw(&mut self, server: u32, generation: u64, now: u64, cause: Cause) {
        self.lives[server as usize].saw(generation, now, cause);
    }

    /// A generation must be left in this instant.
    pub(crate) fn must_leave(&mut self, server: u32, generation: u64, now: u64) {
        self.owed.push_back((now, server, generation));
    }

    /// An exchange of this generation was answered, or failed.
    pub(crate) fn exchanged(
        &mut self,
        server: u32,
        generation: u64,
        failure: Option<&CloseReason>,
        now: u64,
    ) {
        if self.lives[server as usize].ended(generation, Outcome::of(failure), now) {
            self.must_leave(server, generation, now);
        }
    }

    /// An exchange of this generation was given up from the client's side.
    pub(crate) fn given_up(&mut self, server: u32, generation: u64, now: u64) {
        self.lives[server as usize].given_up(generation, now);
    }

    pub(crate) fn greeted(&mut self, server: u32, generation: u64) {
        let life = &mut self.lives[server as usize];
        if life.generation == generation {
            life.greeted = true;
        }
    }

    /// A server is dialed.
    pub(crate) fn dialed(&mut self, server: u32, generation: u64, denied: bool, now: u64) {
        self.trace.note(now, format_args!("dial {server} gen {generation}"));
        self.dials += 1;
        if self.detail == Detail::Full {
            self.tracks[server as usize].attempts_at_ms.push(now);
        }
        if denied {
            self.broke(
                now,
                "denied-never-dialed",
                Some(server),
                "policy keeps it out, and it is dialed".into(),
            );
        }
        let life = &self.lives[server as usize];
        if !matches!(life.stand, Stand::Trying { .. }) || life.generation != generation {
            let detail = format!("is dialed for generation {generation} while it is {:?}", life.stand);
            self.broke(now, "dialed-as-said", Some(server), detail);
        }
        self.lives[server as usize].begins(generation, now);
    }

    pub(crate) fn call_begins(&mut self, server: u32, caller: u32, now: u64, deadline_ms: u64) -> u64 {
        let number = self.ledger.begin(server, caller, now, deadline_ms);
        self.trace.note(now, format_args!("call {number} of {caller} to {server}"));
        number
    }

    pub(crate) fn call_ends(&mut self, number: u64, tool: &str, told: Told<'_>, now: u64) -> &'static str {
        let (ended, faults) = self.ledger.end(number, tool, told, now);
        self.trace.note(now, format_args!("call {number} {}", ended.outcome));
        for (invariant, detail) in faults {
            self.broke(now, invariant, Some(ended.server), detail);
        }
        if self.detail == Detail::Full {
            self.calls.push(CallRecord {
                server: ended.server,
                caller: ended.caller,
                started_ms: ended.started_ms,
                ended_ms: now,
                outcome: Cow::Borrowed(ended.outcome),
            });
        }
        ended.outcome
    }

    /// A server performs a call.
    pub(crate) fn performed(&mut self, server: u32, number: u64, now: u64) {
        if let Some((invariant, detail)) = self.ledger.performed(number) {
            self.broke(now, invariant, Some(server), detail);
        }
    }

    /// A server turns a call away for a session that has expired.
    pub(crate) fn refused(&mut self, server: u32, number: u64, now: u64) {
        if let Some((invariant, detail)) = self.ledger.refused(number) {
            self.broke(now, invariant, Some(server), detail);
        }
    }

    pub(crate) fn lost(&mut self, calls: &BTreeSet<u64>, now: u64) {
        self.ledger.lost(calls, now);
    }

    /// Looks at what a server should have done by now.
    pub(crate) fn look_at(&mut self, number: u32, listed_generation: u64, now: u64) {
        if self.closing {
            return;
        }
        let life = &self.lives[number as usize];
        let numbers = *life.numbers();
        let fault = match life.stand {
            Stand::Connected { since_ms }
                if now > since_ms + 1_000 && listed_generation != life.generation =>
            {
                Some(("list-refetched", "is connected, and nobody asked for its tools".to_owned()))
            }
            Stand::BackingOff { due_ms, latest_ms } if latest_ms < now => {
                Some(("attempt-gaps", format!("was due at {due_ms} and is not tried")))
            }
            Stand::Failed { retry_ms: Some(at) } if at < now => {
                Some(("attempt-gaps", format!("was to be tried slowly at {at} and is not")))
            }
            Stand::Trying { since_ms } if since_ms + numbers.connect_timeout_ms < now => {
                Some(("attempt-limit", format!("has been tried since {since_ms}")))
            }
            Stand::Queued { due_ms } if self.pools.is_late(numbers.remote, due_ms, now) => {
                Some(("dial-permits", format!("waits for a permit since {due_ms}, and there are free ones")))
            }
            _ => None,
        };
        if let Some((invariant, detail)) = fault {
            self.broke(now, invariant, Some(number), detail);
        }
    }

    pub(crate) fn look_at_calls(&mut self, now: u64) {
        for (server, (invariant, detail)) in self.ledger.overdue(now) {
            self.broke(now, invariant, Some(server), detail);
        }
    }

    pub(crate) fn gauge(&mut self, now: u64) {
        if self.detail == Detail::Sums {
            return;
        }
        let count = |words: &[Said]| self.said.iter().filter(|(said, _)| words.contains(said)).count() as u32;
        let (connected, dialing) = (count(&[Said::Connected]), count(&[Said::Dialing, Said::Handshaking]));
        let (in_flight, queued) = (self.ledger.open(), self.ledger.unseen());
        self.gauges.push(GaugePoint { at_ms: now, in_flight, queued, connected, dialing });
    }

    pub(crate) fn permits_held(&mut self, now: u64) -> usize {
        self.pools.held(now)
    }

    pub(crate) fn dials(&self) -> u64 {
        self.dials
    }

    /// Closes the last band of every server and hands over what was kept.
    pub(crate) fn hand_over(&mut self, now: u64) -> (Vec<ServerTrack>, Vec<CallRecord>, Vec<GaugePoint>) {
        for number in 0..self.said.len() {
            let (said, _) = self.said[number];
            self.band(number as u32, said, now);
        }
        let take = |kept: &mut Vec<ServerTrack>| std::mem::take(kept);
        (take(&mut self.tracks), std::mem::take(&mut self.calls), std::mem::take(&mut self.gauges))
    }
}
