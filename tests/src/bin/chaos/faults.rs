//! What is done to the servers, drawn from the seed: which fault, to which server, when, and for how long.

use crate::options::Options;
use crate::system::{Signal, signal};
use callboard::{Board, ConnHandle};
use callboard_tests::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// How long a fault lasts, in milliseconds.
const LASTS_MS: (u64, u64) = (500, 8_000);
/// What a server asks for in its `Retry-After`, in seconds.
const RETRY_AFTER_S: (u64, u64) = (1, 4);
/// Faults of one kind come in a row sometimes: one in so many is of a server that was hurt a moment ago.
const AGAIN_EVERY: u64 = 5;

pub(crate) struct Faults {
    servers: Vec<ConnHandle>,
    stdio: usize,
    tag: String,
    gap_ms: f64,
    random: Random,
    commands: Option<mpsc::Sender<String>>,
    last: usize,
    /// Children that stand still now.
    stopped: Arc<Mutex<BTreeSet<u32>>>,
    later: JoinSet<()>,
    told: BTreeMap<&'static str, u64>,
}

impl Faults {
    pub(crate) fn new(options: &Options, board: &Board, commands: Option<mpsc::Sender<String>>) -> Faults {
        Faults {
            servers: board.servers(),
            stdio: options.stdio as usize,
            tag: options.tag(),
            gap_ms: options.fault_gap_ms(),
            random: Random::new(options.seed),
            commands,
            last: 0,
            stopped: Arc::default(),
            later: JoinSet::new(),
            told: BTreeMap::new(),
        }
    }

    pub(crate) async fn inflict(&mut self, until: Instant) {
        loop {
            let next = Instant::now() + Duration::from_millis(self.random.gap_ms(self.gap_ms));
            sleep_until(next.min(until)).await;
            if next >= until {
                return;
            }
            while self.later.try_join_next().is_some() {}
            if !self.random.once_in(AGAIN_EVERY) {
                self.last = self.random.below(self.servers.len());
            }
            let lasts = self.random.between(LASTS_MS.0, LASTS_MS.1);
            let what = match self.last < self.stdio {
                true => self.hurt_child(self.last, lasts),
                false => self.hurt_remote(self.last, lasts),
            };
            *self.told.entry(what).or_default() += 1;
        }
    }

    fn hurt_child(&mut self, server: usize, lasts: u64) -> &'static str {
        let choice = self.random.below(4);
        let Some(pid) = self.servers[server].process_id() else { return "none, no child" };
        match choice {
            0 | 1 => {
                signal(pid, Signal::Kill, &self.tag);
                "kill -9"
            }
            2 => {
                self.stop(pid, lasts, Signal::Continue);
                "stop, continue"
            }
            _ => {
                self.stop(pid, lasts, Signal::Kill);
                "stop, kill -9"
            }
        }
    }

    /// Stops a child, and sends it another signal later.
    fn stop(&mut self, pid: u32, lasts: u64, then: Signal) {
        signal(pid, Signal::Stop, &self.tag);
        let (stopped, tag) = (self.stopped.clone(), self.tag.clone());
        stopped.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
        self.later.spawn(async move {
            sleep(Duration::from_millis(lasts)).await;
            if stopped.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid) {
                signal(pid, then, &tag);
            }
        });
    }

    fn hurt_remote(&mut self, server: usize, lasts: u64) -> &'static str {
        let choice = self.random.below(6);
        let retry_after = self.random.between(RETRY_AFTER_S.0, RETRY_AFTER_S.1);
        let (what, command) = match choice {
            0 => ("reset", format!("reset {server}")),
            1 => ("503 with Retry-After", format!("unavailable {server} {lasts} {retry_after}")),
            2 => ("sessions forgotten", format!("forget {server}")),
            3 => ("garbage", format!("garbage {server} {lasts}")),
            // Only every third server has a relay in front of it; the others go down instead.
            4 | 5 if server.is_multiple_of(3) => {
                let which = ["requests", "answers", "both"][self.random.below(3)];
                ("half open", format!("swallow {server} {lasts} {which}"))
            }
            _ => ("down", format!("down {server} {lasts}")),
        };
        let sent = self.commands.as_ref().map(|commands| commands.try_send(command));
        if matches!(sent, Some(Ok(()))) { what } else { "none, no host" }
    }

    /// Lets everything that stands still go on, and hurts nobody any more.
    pub(crate) fn end(&mut self) {
        self.later.abort_all();
        self.commands = None;
        let stopped = std::mem::take(&mut *self.stopped.lock().unwrap_or_else(PoisonError::into_inner));
        for pid in stopped {
            signal(pid, Signal::Continue, &self.tag);
        }
    }

    /// How often which fault.
    pub(crate) fn told(&self) -> BTreeMap<&'static str, u64> {
        self.told.clone()
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.end();
    }
}
