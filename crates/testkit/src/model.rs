//! The reference model of a server's life: what the specification says should follow from what was seen at its
//! links. It shares no code with the runtime's own machine and is told only facts: links that opened and ended
//! and why, what the user asked for, and what the board says it does. Times are virtual milliseconds.

mod pool;
mod strain;

pub(crate) use pool::Pools;
pub(crate) use strain::Outcome;
use strain::{Limits, Strain};

use crate::scenario::{ServerPlan, Transport};
use callboard_core::port::CloseReason;
use callboard_core::settings::Settings;

/// The numbers of behaviour profile §4, for one kind of server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub remote: bool,
    /// Each request is an exchange of its own.
    exchanges: bool,
    first_attempts: u32,
    attempts: u32,
    gap_first_ms: u64,
    gap_max_ms: u64,
    lasting_ms: u64,
    slow_retry_ms: u64,
    limits: Limits,
    jitter: f64,
    pub connect_timeout_ms: u64,
}

/// The longest `Retry-After` that is obeyed.
const RETRY_AFTER_MAX_MS: u64 = 3_600_000;

impl Numbers {
    pub(crate) fn new(settings: &Settings, plan: &ServerPlan) -> Numbers {
        let remote = plan.transport != Transport::Stdio;
        let ms = |time: std::time::Duration| time.as_millis() as u64;
        let retries = if remote { settings.connect_retries_max } else { settings.connect_retries_stdio_max };
        Numbers {
            remote,
            exchanges: plan.transport == Transport::Http,
            first_attempts: 1 + retries as u32,
            attempts: settings.reconnect_attempts_max as u32,
            gap_first_ms: ms(settings.reconnect_backoff_initial),
            gap_max_ms: ms(settings.reconnect_backoff_max),
            lasting_ms: ms(settings.reconnect_reset_after),
            slow_retry_ms: if remote { ms(settings.reconnect_slow_retry) } else { 0 },
            jitter: settings.reconnect_jitter.clamp(0.0, 1.0),
            limits: Limits::new(settings),
            connect_timeout_ms: plan.connect_timeout_ms.unwrap_or(ms(settings.connect_timeout)),
        }
    }

    /// The gap before the attempt after so many failures: 1, 2, 4, 8, 16 s, never more than 30.
    fn gap_ms(&self, failures: u32) -> u64 {
        (0..failures).fold(self.gap_first_ms, |gap, _| gap.saturating_mul(2).min(self.gap_max_ms))
    }
}

/// Why a generation ended or did not come to be, as far as the rules tell causes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The child ended.
    Ended,
    /// May pass by itself.
    Passing {
        retry_after_ms: u64,
    },
    /// No handshake in time.
    TimedOut,
    /// Trying again cannot help.
    Lasting,
    Auth,
    Expired,
    /// The user wanted a new connection, or none.
    User,
}

impl Cause {
    /// What a link's own reason comes to.
    pub(crate) fn of(reason: &CloseReason) -> Cause {
        match reason {
            CloseReason::Ended { .. } => Cause::Ended,
            CloseReason::AuthRequired { .. } => Cause::Auth,
            CloseReason::SessionExpired { .. } => Cause::Expired,
            CloseReason::Status { status: 500.. | 408 | 429, retry_after, .. } => {
                Cause::Passing { retry_after_ms: retry_after.map_or(0, |time| time.as_millis() as u64) }
            }
            CloseReason::Io { .. }
            | CloseReason::Unreachable { .. }
            | CloseReason::Spawn { .. }
            | CloseReason::NoReply => Cause::Passing { retry_after_ms: 0 },
            _ => Cause::Lasting,
        }
    }
}

/// What the board says of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Dormant,
    Queued,
    Dialing,
    Handshaking,
    BackingOff,
    Connected,
    Failed,
    NeedsAuth,
    Disabled,
}

impl Said {
    pub(crate) fn of(state: &str, phase: Option<&str>) -> Option<Said> {
        Some(match (state, phase) {
            ("pending", Some("dormant")) => Said::Dormant,
            ("pending", Some("queued")) => Said::Queued,
            ("pending", Some("dialing")) => Said::Dialing,
            ("pending", Some("handshaking")) => Said::Handshaking,
            ("pending", Some("backing-off")) => Said::BackingOff,
            ("connected", _) => Said::Connected,
            ("failed", _) => Said::Failed,
            ("needs-auth", _) => Said::NeedsAuth,
            ("disabled", _) => Said::Disabled,
            _ => return None,
        })
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Said::Dormant => "dormant",
            Said::Queued => "queued",
            Said::Dialing => "dialing",
            Said::Handshaking => "handshaking",
            Said::BackingOff => "backing-off",
            Said::Connected => "connected",
            Said::Failed => "failed",
            Said::NeedsAuth => "needs-auth",
            Said::Disabled => "disabled",
        }
    }
}

/// Where a server stands, by the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    Dormant,
    Queued {
        due_ms: u64,
    },
    Trying {
        since_ms: u64,
    },
    Connected {
        since_ms: u64,
    },
    /// Chance may put it off, up to the second moment.
    BackingOff {
        due_ms: u64,
        latest_ms: u64,
    },
    Failed {
        retry_ms: Option<u64>,
    },
    NeedsAuth,
    Disabled,
}

/// One server's life by the rules.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    numbers: Numbers,
    pub stand: Stand,
    pub generation: u64,
    /// The latest generation whose first dial has begun.
    begun: Option<u64>,
    attempt: u32,
    was_connected: bool,
    /// What was seen of the current generation: why it ended or cannot come to be, the latest last.
    causes: Vec<(u64, Cause)>,
    /// The server has finished its part of this generation's handshake.
    pub greeted: bool,
    /// The user asked for this, at this moment.
    pub asked: Option<(u64, Wish)>,
    /// What is surely held against this generation, and what may be: when a request is given up, nobody outside
    /// can tell whether its time was up, which is told to its connection, or its caller left, which is not.
    sure: Strain,
    possible: Strain,
    /// The latest moment at which its requests may have ended it.
    may_end_ms: Option<u64>,
}

/// What may move a server beside its own fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Reconnect,
    Disable,
    Enable,
}

/// An invariant that does not hold, and how.
pub(crate) type Fault = (&'static str, String);

/// Causes of one generation that are kept: enough for the worst instant.
const CAUSES_MAX: usize = 16;

impl Life {
    pub(crate) fn new(numbers: Numbers) -> Life {
        Life {
            numbers,
            stand: Stand::Dormant,
            generation: 0,
            begun: None,
            attempt: 0,
            was_connected: false,
            causes: Vec::new(),
            greeted: false,
            asked: None,
            sure: Strain::default(),
            possible: Strain::default(),
            may_end_ms: None,
        }
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    fn attempts_max(&self) -> u32 {
        if self.was_connected { self.numbers.attempts } else { self.numbers.first_attempts }
    }

    fn wished(&self, now: u64, wish: Wish) -> bool {
        self.asked == Some((now, wish))
    }

    /// The first dial of this generation begins, and with it the limit of the attempt. A child that is started in
    /// another's place may have waited until nothing was left of that one, for as long as its graces last.
    pub(crate) fn begins(&mut self, generation: u64, now: u64) {
        let Stand::Trying { since_ms } = &mut self.stand else { return };
        let is_first = generation == self.generation && self.begun != Some(generation);
        if is_first && !self.numbers.remote && now <= *since_ms + CLOSE_GRACES_MS {
            *since_ms = now;
        }
        self.begun = Some(generation);
    }

    /// A link of this generation, or an exchange over it, ended with this reason.
    pub(crate) fn saw(&mut self, generation: u64, now: u64, cause: Cause) {
        if generation == self.generation {
            if self.causes.len() == CAUSES_MAX {
                self.causes.remove(0);
            }
            self.causes.push((now, cause));
        }
    }

    /// A request of this generation has ended. True when that surely ends the connection.
    pub(crate) fn ended(&mut self, generation: u64, outcome: Outcome, now: u64) -> bool {
        if generation != self.generation || !matches!(self.stand, Stand::Connected { .. }) {
            return false;
        }
        if self.possible.note(outcome, now, &self.numbers.limits) {
            self.may_end_ms = Some(now);
            if outcome == Outcome::Harmless {
                // The last terminal failure is what ends it.
                self.causes.push((now, Cause::Passing { retry_after_ms: 0 }));
            }
        }
        self.sure.note(outcome, now, &self.numbers.limits)
    }

    /// A request of this generation was given up, by its caller or by a clock.
    pub(crate) fn given_up(&mut self, generation: u64, now: u64) {
        if generation == self.generation && matches!(self.stand, Stand::Connected { .. }) {
            // At worst it resets what is held against the connection; at best it ends a silence.
            self.sure.note(Outcome::Harmless, now, &self.numbers.limits);
            if self.possible.clone().note(Outcome::Harmless, now, &self.numbers.limits) {
                self.may_end_ms = Some(now);
                self.causes.push((now, Cause::Passing { retry_after_ms: 0 }));
            }
        }
    }

    /// Takes what the board says and checks it against the rules.
    pub(crate) fn hear(&mut self, said: Said, generation: u64, now: u64) -> Vec<Fault> {
        let before = self.stand;
        let result = match said {
            Said::Dormant => self.dormant(now),
            Said::Queued => self.queued(now),
            Said::Dialing => self.dialing(generation, now),
            Said::Handshaking => match self.stand {
                Stand::Trying { .. } if generation == self.generation => Ok(self.stand),
                _ => Err(("states", "is handshaking without having dialed".to_owned())),
            },
            Said::BackingOff => self.backing_off(now),
            Said::Connected => self.connected(generation, now),
            Said::Failed => self.failed(now),
            Said::NeedsAuth => match self.has(now, |cause| cause == Cause::Auth) {
                true => Ok(Stand::NeedsAuth),
                false => Err(("states", "needs a login that nobody asked for".to_owned())),
            },
            Said::Disabled => match self.wished(now, Wish::Disable) {
                true => Ok(Stand::Disabled),
                false => Err(("states", "is switched off, and nobody did it".to_owned())),
            },
        };
        match result {
            Ok(stand) => {
                self.stand = stand;
                Vec::new()
            }
            Err((invariant, what)) => {
                self.follow(said, now);
                vec![(
                    invariant,
                    format!(
                        "{what} (generation {generation}, attempt {}, was {before:?}, seen {:?})",
                        self.attempt, self.causes
                    ),
                )]
            }
        }
    }

    /// Goes along with the board after it broke a rule, so that one fault is told once.
    fn follow(&mut self, said: Said, now: u64) {
        self.stand = match said {
            Said::Dormant => Stand::Dormant,
            Said::Queued => Stand::Queued { due_ms: now },
            Said::Dialing | Said::Handshaking => Stand::Trying { since_ms: now },
            Said::BackingOff => Stand::BackingOff { due_ms: now, latest_ms: u64::MAX },
            Said::Connected => Stand::Connected { since_ms: now },
            Said::Failed => Stand::Failed { retry_ms: None },
            Said::NeedsAuth => Stand::NeedsAuth,
            Said::Disabled => Stand::Disabled,
        };
    }

    fn has(&self, now: u64, is: impl Fn(Cause) -> bool) -> bool {
        self.causes.iter().any(|(at, cause)| *at == now && is(*cause))
    }

    /// The causes that may be behind what the board says now, the latest last: seen in this instant; for an attempt
    /// that ran into its limit, that.
    fn plausible(&self, now: u64) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let Stand::Trying { since_ms } = self.stand {
            // What a broken write leads to shows a little later, when the child's own end is waited for.
            let late = self.causes.iter().filter(|(at, _)| *at < now && now <= at + TRUE_END_WAIT_MS);
            causes.extend(late.map(|(_, cause)| *cause));
            if now >= since_ms + self.numbers.connect_timeout_ms {
                causes.push(Cause::TimedOut);
            }
        }
        causes.extend(self.causes.iter().filter(|(at, _)| *at == now).map(|(_, cause)| *cause));
        causes
    }

    fn dormant(&mut self, now: u64) -> Result<Stand, Fault> {
        match self.stand {
            Stand::Disabled if self.wished(now, Wish::Enable) => {
                self.attempt = 0;
                Ok(Stand::Dormant)
            }
            _ => Err(("states", "has become dormant".to_owned())),
        }
    }

    fn queued(&mut self, now: u64) -> Result<Stand, Fault> {
        let queued = Stand::Queued { due_ms: now };
        if self.wished(now, Wish::Reconnect) && self.stand != Stand::Disabled {
            self.attempt = 0;
            self.causes.push((now, Cause::User));
            return Ok(queued);
        }
        match self.stand {
            Stand::Dormant => Ok(queued),
            Stand::BackingOff { due_ms, latest_ms } if (due_ms..=latest_ms).contains(&now) => Ok(queued),
            Stand::BackingOff { due_ms, .. } => {
                Err(("attempt-gaps", format!("is tried again at {now}, and the gap ends at {due_ms}")))
            }
            Stand::Failed { retry_ms: Some(at) } if at == now => {
                // One attempt, whose failure leads back.
                self.attempt = self.attempts_max().saturating_sub(1);
                Ok(queued)
            }
            Stand::Failed { retry_ms } => Err((
                "attempt-gaps",
                format!("is tried again at {now} after it was given up, not at {retry_ms:?}"),
            )),
            Stand::Connected { since_ms } if self.has(now, |cause| cause == Cause::Expired) => {
                if self.lasted(since_ms, now) {
                    self.attempt = 0;
                }
                match self.attempt {
                    0 => Ok(queued),
                    _ => Err((
                        "attempt-gaps",
                        "loses one session after the other, and gets no gaps".to_owned(),
                    )),
                }
            }
            Stand::Connected { .. } => Err(("attempt-gaps", "is connected anew without a gap".to_owned())),
            Stand::NeedsAuth | Stand::Disabled | Stand::Queued { .. } | Stand::Trying { .. } => {
                Err(("states", "is tried again, and nobody asked for it".to_owned()))
            }
        }
    }

    fn dialing(&mut self, generation: u64, now: u64) -> Result<Stand, Fault> {
        let before = std::mem::replace(&mut self.generation, generation);
        self.causes.clear();
        self.greeted = false;
        self.sure = Strain::default();
        self.possible = Strain::default();
        self.may_end_ms = None;
        match self.stand {
            Stand::Queued { .. } if generation == before + 1 => Ok(Stand::Trying { since_ms: now }),
            Stand::Queued { .. } => Err(("generations", format!("generation {generation} follows {before}"))),
            _ => Err(("states", "is dialed out of turn".to_owned())),
        }
    }

    fn connected(&mut self, generation: u64, now: u64) -> Result<Stand, Fault> {
        let Stand::Trying { .. } = self.stand else {
            return Err(("states", "is connected without having been dialed".to_owned()));
        };
        if generation != self.generation || !self.greeted {
            return Err((
                "old-generation",
                "is connected, and its server did not finish a handshake".to_owned(),
            ));
        }
        self.attempt = if self.was_connected { self.attempt + 1 } else { 0 };
        self.was_connected = true;
        Ok(Stand::Connected { since_ms: now })
    }

    fn lasted(&self, since_ms: u64, now: u64) -> bool {
        now - since_ms >= self.numbers.lasting_ms
    }

    /// Exchanges end a connection only by the rules.
    fn may_be_lost(&self, now: u64) -> Result<(), Fault> {
        match self.numbers.exchanges && self.may_end_ms != Some(now) {
            true => Err(("strikes", "is given up, and its requests have not failed so often".to_owned())),
            false => Ok(()),
        }
    }

    fn backing_off(&mut self, now: u64) -> Result<Stand, Fault> {
        let causes = self.plausible(now);
        if causes.is_empty() {
            return Err(("old-generation", "backs off, and nothing has ended".to_owned()));
        }
        let may_wait =
            |cause: &Cause| matches!(cause, Cause::Ended | Cause::Passing { .. } | Cause::TimedOut);
        let mut asked = causes.iter().filter_map(|cause| match cause {
            Cause::Passing { retry_after_ms } => Some(*retry_after_ms),
            _ => None,
        });
        let asked_ms = asked.next_back().unwrap_or(0).min(RETRY_AFTER_MAX_MS);
        let failures = match self.stand {
            Stand::Trying { .. } => {
                let made = self.attempt + 1;
                let timed_out_child = !self.numbers.remote && causes == [Cause::TimedOut];
                if !causes.iter().any(|cause| may_wait(cause) || *cause == Cause::Expired) || timed_out_child
                {
                    return Err(("attempt-count", "is to be tried again, which cannot help".to_owned()));
                }
                if made >= self.attempts_max() {
                    return Err(("attempt-count", format!("is to be tried again after {made} attempts")));
                }
                self.attempt = made;
                if self.was_connected { made } else { made - 1 }
            }
            Stand::Connected { since_ms } => {
                self.may_be_lost(now)?;
                if self.lasted(since_ms, now) {
                    self.attempt = 0;
                }
                if self.attempt == 0 && causes.iter().all(|cause| *cause == Cause::Expired) {
                    return Err(("attempt-gaps", "has lost its session, and waits".to_owned()));
                }
                if self.attempt >= self.attempts_max() {
                    return Err((
                        "attempt-count",
                        format!("is to be tried again after {} attempts", self.attempt),
                    ));
                }
                self.attempt
            }
            _ => return Err(("states", "backs off without having been tried".to_owned())),
        };
        let gap_ms = self.numbers.gap_ms(failures).max(asked_ms);
        let due_ms = now + gap_ms;
        let more_ms = (gap_ms as f64 * self.numbers.jitter).ceil() as u64;
        Ok(Stand::BackingOff { due_ms, latest_ms: due_ms + more_ms })
    }

    fn failed(&mut self, now: u64) -> Result<Stand, Fault> {
        let causes = self.plausible(now);
        if causes.is_empty() {
            return Err(("old-generation", "is given up, and nothing has ended".to_owned()));
        }
        if let Stand::Connected { .. } = self.stand {
            self.may_be_lost(now)?;
        }
        let may_give_up = match self.stand {
            Stand::Trying { .. } => {
                let made = self.attempt + 1;
                let lasting = |cause: &Cause| match cause {
                    Cause::Lasting => true,
                    Cause::TimedOut => !self.numbers.remote,
                    Cause::Ended | Cause::Passing { .. } | Cause::Auth | Cause::Expired | Cause::User => {
                        false
                    }
                };
                made >= self.attempts_max() || causes.iter().any(lasting)
            }
            Stand::Connected { since_ms } => {
                let attempt = if self.lasted(since_ms, now) { 0 } else { self.attempt };
                let crash_loop = causes.contains(&Cause::Ended) && attempt + 1 >= self.attempts_max();
                crash_loop || attempt >= self.attempts_max()
            }
            _ => false,
        };
        if !may_give_up {
            return Err(("attempt-count", "is given up too early".to_owned()));
        }
        let retry_ms = (self.numbers.slow_retry_ms > 0).then(|| now + self.numbers.slow_retry_ms);
        Ok(Stand::Failed { retry_ms })
    }
}

/// How long the runtime may wait for the end of a child whose pipe is broken.
const TRUE_END_WAIT_MS: u64 = 500;
/// How long the ending of a child may take by the default graces (`stdio.close_grace_ms`, `stdio.term_grace_ms`).
const CLOSE_GRACES_MS: u64 = 4_000;
