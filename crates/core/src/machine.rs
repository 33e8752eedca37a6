//! The life of one connection as a pure function: `step(state, event, now, rules) -> (state, effects)`.
//!
//! Losing a peer is a state, never a crash. Numbers come from behaviour profile §4.

use crate::port::{CloseReason, Generation};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest `Retry-After` that is obeyed. A server may ask for any number of seconds, more than a clock can
/// tell among them.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// Marks a timer; one that was set for an earlier state is recognised and ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimerToken(pub u64);

/// What a pending server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing: nobody has asked for it.
    Dormant,
    /// Waiting for a dial permit.
    Queued,
    /// Opening the link.
    Dialing(Generation),
    /// Talking about versions.
    Handshaking(Generation),
    /// Waiting to try again.
    BackingOff {
        /// Until then.
        until: Instant,
        /// Which timer ends it.
        timer: TimerToken,
    },
}

/// Who switched a server off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisabledBy {
    /// Its own entry.
    Entry,
    /// The user.
    User,
}

/// The five states, each with its own data.
#[derive(Debug, Clone)]
pub enum State {
    /// Not connected, but may become so.
    Pending {
        /// What it is doing.
        phase: Phase,
        /// Attempts made since the last good connection.
        attempt: u32,
        /// Why the last one failed.
        last: Option<Arc<CloseReason>>,
    },
    /// In use.
    Connected {
        /// Which connection.
        generation: Generation,
        /// Since when.
        since: Instant,
        /// Attempts that count on if it does not last.
        attempt: u32,
    },
    /// Waits for a login.
    NeedsAuth {
        /// What the server said.
        reason: Arc<CloseReason>,
        /// Since when.
        since: Instant,
    },
    /// Given up.
    Failed {
        /// Why.
        reason: Arc<CloseReason>,
        /// What kind of failure.
        class: FailureClass,
        /// Attempts made.
        attempts: u32,
        /// Since when.
        since: Instant,
        /// When it is tried again by itself.
        slow_retry: Option<(Instant, TimerToken)>,
    },
    /// Switched off.
    Disabled {
        /// By whom.
        by: DisabledBy,
        /// Since when.
        since: Instant,
    },
}

/// Kinds of giving up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The attempts are used up.
    Unreachable,
    /// Retrying cannot help.
    Refused,
    /// The server ended before it was of use.
    Exited,
    /// The server dies soon after each start.
    CrashLoop,
    /// A defect of ours.
    Crashed,
}

impl FailureClass {
    /// The word for it in output.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureClass::Unreachable => "unreachable",
            FailureClass::Refused => "refused",
            FailureClass::Exited => "exited",
            FailureClass::CrashLoop => "crash-loop",
            FailureClass::Crashed => "crashed",
        }
    }
}

/// What happens to a connection.
#[derive(Debug, Clone)]
pub enum Event {
    /// Somebody wants to use it.
    Demand,
    /// The dial permit is here.
    PermitGranted,
    /// The link is open.
    Dialed(Generation),
    /// The handshake is done.
    Established(Generation),
    /// There is no link, or no handshake.
    ConnectFailed(Generation, Arc<CloseReason>),
    /// The link has ended; `answered`: the server had answered something over it.
    Down {
        /// Which one.
        generation: Generation,
        /// Why.
        reason: Arc<CloseReason>,
        /// The server was of use.
        answered: bool,
    },
    /// A timer ran out.
    Timer(TimerToken),
    /// The user wants a new connection.
    Reconnect,
    /// The user switches it on.
    Enable,
    /// The user switches it off.
    Disable,
    /// The actor panicked; `restarted`: its budget allows it to go on.
    Panicked {
        /// It goes on.
        restarted: bool,
    },
}

/// What the actor has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Ask for a dial permit.
    RequestPermit,
    /// Give the permit back, or withdraw the request for it.
    ReleasePermit,
    /// Open a link.
    Dial(Generation),
    /// Give up opening it.
    CancelDial,
    /// End the link.
    CloseLink(Generation),
    /// Set a timer.
    ArmTimer(TimerToken, Instant),
}

/// The numbers that govern one server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// It is reached over a network.
    pub remote: bool,
    /// A lost connection is opened anew.
    pub reconnect: bool,
    /// Attempts of a first connect.
    pub first_attempts_max: u32,
    /// Attempts after a loss.
    pub attempts_max: u32,
    /// First gap.
    pub backoff_initial: Duration,
    /// Largest gap.
    pub backoff_max: Duration,
    /// Growth of gaps.
    pub backoff_factor: f64,
    /// Age from which a connection starts the count anew.
    pub reset_after: Duration,
    /// Gap of the slow retry; zero is off.
    pub slow_retry: Duration,
}

impl Rules {
    /// The gap before attempt number `attempt`, counted from 0.
    pub fn gap(&self, attempt: u32) -> Duration {
        let factor = self.backoff_factor.powi(attempt.min(64) as i32);
        let gap = self.backoff_initial.as_secs_f64() * factor;
        Duration::from_secs_f64(gap.min(self.backoff_max.as_secs_f64()))
    }
}

/// A connection's state, its generation count and its timers.
#[derive(Debug, Clone)]
pub struct ConnMachine {
    /// Where it stands.
    pub state: State,
    /// The latest generation that was dialed.
    pub generation: Generation,
    /// It was connected at least once.
    pub was_connected: bool,
    timer: TimerToken,
}

impl ConnMachine {
    /// A server that nobody has asked for yet, or one that its entry switches off.
    pub fn new(disabled: Option<DisabledBy>, now: Instant) -> ConnMachine {
        let state = match disabled {
            Some(by) => State::Disabled { by, since: now },
            None => dormant(),
        };
        ConnMachine {
            state,
            generation: Generation::default(),
            was_connected: false,
            timer: TimerToken::default(),
        }
    }

    /// Attempts that may be made before it is given up.
    pub fn attempts_max(&self, rules: &Rules) -> u32 {
        if self.was_connected { rules.attempts_max } else { rules.first_attempts_max }
    }

    /// Takes an event. An event that means nothing in this state changes nothing.
    pub fn step(mut self, event: Event, now: Instant, rules: &Rules) -> (ConnMachine, Vec<Effect>) {
        let state = std::mem::replace(&mut self.state, dormant());
        let (state, effects) = match state {
            State::Pending { phase, attempt, last } => self.pending(phase, attempt, last, event, now, rules),
            State::Connected { generation, since, attempt } => {
                self.connected((generation, since, attempt), event, now, rules)
            }
            State::NeedsAuth { reason, since } => needs_auth(reason, since, event, now),
            State::Failed { reason, class, attempts, since, slow_retry } => {
                self.failed((reason, class, attempts, since, slow_retry), event, now, rules)
            }
            State::Disabled { by, since } => disabled(by, since, event),
        };
        self.state = state;
        (self, effects)
    }

    // Allowed targets: Pending, Connected, Failed, NeedsAuth, Disabled.
    fn pending(
        &mut self,
        phase: Phase,
        attempt: u32,
        last: Option<Arc<CloseReason>>,
        event: Event,
        now: Instant,
        rules: &Rules,
    ) -> (State, Vec<Effect>) {
        let unchanged = |last| (State::Pending { phase, attempt, last }, Vec::new());
        match event {
            Event::Demand => match phase {
                Phase::Dormant => queue(attempt, last),
                Phase::Queued | Phase::Dialing(_) | Phase::Handshaking(_) | Phase::BackingOff { .. } => {
                    unchanged(last)
                }
            },
            Event::Reconnect => match phase {
                Phase::Dormant | Phase::BackingOff { .. } => queue(0, last),
                Phase::Queued | Phase::Dialing(_) | Phase::Handshaking(_) => unchanged(last),
            },
            Event::PermitGranted => match phase {
                Phase::Queued => {
                    self.generation = self.generation.next();
                    let phase = Phase::Dialing(self.generation);
                    (State::Pending { phase, attempt, last }, vec![Effect::Dial(self.generation)])
                }
                Phase::Dormant | Phase::BackingOff { .. } => {
                    (State::Pending { phase, attempt, last }, vec![Effect::ReleasePermit])
                }
                Phase::Dialing(_) | Phase::Handshaking(_) => unchanged(last),
            },
            Event::Dialed(generation) => match phase {
                Phase::Dialing(current) if current == generation => {
                    (State::Pending { phase: Phase::Handshaking(generation), attempt, last }, Vec::new())
                }
                _ => unchanged(last),
            },
            Event::Established(generation) if phase_generation(phase) == Some(generation) => {
                // A reconnect counts as an attempt until the connection has lasted.
                let attempt = if self.was_connected { attempt + 1 } else { 0 };
                self.was_connected = true;
                (State::Connected { generation, since: now, attempt }, vec![Effect::ReleasePermit])
            }
            Event::ConnectFailed(generation, reason) if phase_generation(phase) == Some(generation) => {
                let (state, mut effects) = self.connect_failed(attempt, reason, now, rules);
                effects.insert(0, Effect::ReleasePermit);
                (state, effects)
            }
            Event::Timer(token) => match phase {
                Phase::BackingOff { timer, .. } if timer == token => queue(attempt, last),
                _ => unchanged(last),
            },
            Event::Disable => (State::Disabled { by: DisabledBy::User, since: now }, undo_phase(phase)),
            Event::Panicked { restarted } => {
                let mut effects = undo_phase(phase);
                match restarted {
                    true if phase == Phase::Dormant => unchanged(last),
                    true => {
                        let (state, more) = queue(attempt, last);
                        effects.extend(more);
                        (state, effects)
                    }
                    false => (crashed(attempt, now), effects),
                }
            }
            Event::Established(_) | Event::ConnectFailed(..) | Event::Down { .. } | Event::Enable => {
                unchanged(last)
            }
        }
    }

    /// One attempt to connect has failed: another one later, or none.
    fn connect_failed(
        &mut self,
        attempt: u32,
        reason: Arc<CloseReason>,
        now: Instant,
        rules: &Rules,
    ) -> (State, Vec<Effect>) {
        let made = attempt + 1;
        if reason.requires_auth() {
            return (State::NeedsAuth { reason, since: now }, Vec::new());
        }
        let timed_out = matches!(*reason, CloseReason::ConnectTimedOut { .. });
        if !reason.is_retryable() || (timed_out && !rules.remote) {
            return self.give_up(reason, FailureClass::Refused, made, now, rules);
        }
        if made >= self.attempts_max(rules) {
            let class = match (&*reason, self.was_connected) {
                (CloseReason::Ended { .. }, true) => FailureClass::CrashLoop,
                (CloseReason::Ended { .. }, false) => FailureClass::Exited,
                _ => FailureClass::Unreachable,
            };
            return self.give_up(reason, class, made, now, rules);
        }
        // A first connect has made one attempt before its first gap, a reconnect none.
        let step = if self.was_connected { made } else { attempt };
        self.back_off(made, rules.gap(step), reason, now)
    }

    fn back_off(
        &mut self,
        attempt: u32,
        gap: Duration,
        reason: Arc<CloseReason>,
        now: Instant,
    ) -> (State, Vec<Effect>) {
        let until = now + reason.retry_after().map_or(gap, |asked| asked.min(RETRY_AFTER_MAX).max(gap));
        let timer = self.next_timer();
        let phase = Phase::BackingOff { until, timer };
        (State::Pending { phase, attempt, last: Some(reason) }, vec![Effect::ArmTimer(timer, until)])
    }

    fn give_up(
        &mut self,
        reason: Arc<CloseReason>,
        class: FailureClass,
        attempts: u32,
        now: Instant,
        rules: &Rules,
    ) -> (State, Vec<Effect>) {
        let retry = rules.remote && !rules.slow_retry.is_zero();
        let slow_retry = retry.then(|| (now + rules.slow_retry, self.next_timer()));
        let effects = slow_retry.map(|(at, timer)| Effect::ArmTimer(timer, at)).into_iter().collect();
        (State::Failed { reason, class, attempts, since: now, slow_retry }, effects)
    }

    fn next_timer(&mut self) -> TimerToken {
        self.timer = TimerToken(self.timer.0 + 1);
        self.timer
    }

    // Allowed targets: Connected, Pending, NeedsAuth, Failed, Disabled.
    fn connected(
        &mut self,
        (generation, since, attempt): (Generation, Instant, u32),
        event: Event,
        now: Instant,
        rules: &Rules,
    ) -> (State, Vec<Effect>) {
        match event {
            Event::Down { generation: of, reason, answered } if of == generation => {
                let lasted = answered && now - since >= rules.reset_after;
                self.lost(if lasted { 0 } else { attempt }, reason, now, rules)
            }
            Event::Reconnect => {
                let (state, mut effects) = queue(0, None);
                effects.insert(0, Effect::CloseLink(generation));
                (state, effects)
            }
            Event::Disable => {
                (State::Disabled { by: DisabledBy::User, since: now }, vec![Effect::CloseLink(generation)])
            }
            Event::Panicked { restarted: true } => {
                let (state, mut effects) = queue(attempt, None);
                effects.insert(0, Effect::CloseLink(generation));
                (state, effects)
            }
            Event::Panicked { restarted: false } => {
                (crashed(attempt, now), vec![Effect::CloseLink(generation)])
            }
            Event::PermitGranted => {
                (State::Connected { generation, since, attempt }, vec![Effect::ReleasePermit])
            }
            Event::Demand
            | Event::Dialed(_)
            | Event::Established(_)
            | Event::ConnectFailed(..)
            | Event::Down { .. }
            | Event::Timer(_)
            | Event::Enable => (State::Connected { generation, since, attempt }, Vec::new()),
        }
    }

    /// A connection that was in use has ended.
    fn lost(
        &mut self,
        attempt: u32,
        reason: Arc<CloseReason>,
        now: Instant,
        rules: &Rules,
    ) -> (State, Vec<Effect>) {
        if reason.requires_auth() {
            return (State::NeedsAuth { reason, since: now }, Vec::new());
        }
        if matches!(*reason, CloseReason::SessionExpired { .. }) && attempt == 0 {
            // The server itself is fine and waits for a new session. One that forgets each new session at once
            // is not fine, and gets its gaps like any other.
            return queue(attempt, Some(reason));
        }
        if !rules.reconnect {
            return self.give_up(reason, FailureClass::Refused, attempt, now, rules);
        }
        if matches!(*reason, CloseReason::Ended { .. }) && attempt + 1 >= rules.attempts_max {
            return self.give_up(reason, FailureClass::CrashLoop, attempt + 1, now, rules);
        }
        if attempt >= rules.attempts_max {
            return self.give_up(reason, FailureClass::Unreachable, attempt, now, rules);
        }
        self.back_off(attempt, rules.gap(attempt), reason, now)
    }

    // Allowed targets: Failed, Pending, Disabled.
    fn failed(
        &mut self,
        (reason, class, attempts, since, slow_retry): Failure,
        event: Event,
        now: Instant,
        rules: &Rules,
    ) -> (State, Vec<Effect>) {
        match event {
            Event::Timer(token) if slow_retry.is_some_and(|(_, timer)| timer == token) => {
                // One attempt; its failure leads back here.
                queue(self.attempts_max(rules).saturating_sub(1), Some(reason))
            }
            Event::Reconnect => queue(0, Some(reason)),
            Event::Disable => (State::Disabled { by: DisabledBy::User, since: now }, Vec::new()),
            Event::PermitGranted => {
                (State::Failed { reason, class, attempts, since, slow_retry }, vec![Effect::ReleasePermit])
            }
            Event::Demand
            | Event::Dialed(_)
            | Event::Established(_)
            | Event::ConnectFailed(..)
            | Event::Down { .. }
            | Event::Timer(_)
            | Event::Enable
            | Event::Panicked { .. } => {
                (State::Failed { reason, class, attempts, since, slow_retry }, Vec::new())
            }
        }
    }
}

type Failure = (Arc<CloseReason>, FailureClass, u32, Instant, Option<(Instant, TimerToken)>);

// Allowed targets: NeedsAuth, Pending, Disabled.
fn needs_auth(reason: Arc<CloseReason>, since: Instant, event: Event, now: Instant) -> (State, Vec<Effect>) {
    match event {
        Event::Reconnect => queue(0, Some(reason)),
        Event::Disable => (State::Disabled { by: DisabledBy::User, since: now }, Vec::new()),
        Event::PermitGranted => (State::NeedsAuth { reason, since }, vec![Effect::ReleasePermit]),
        Event::Demand
        | Event::Dialed(_)
        | Event::Established(_)
        | Event::ConnectFailed(..)
        | Event::Down { .. }
        | Event::Timer(_)
        | Event::Enable
        | Event::Panicked { .. } => (State::NeedsAuth { reason, since }, Vec::new()),
    }
}

// Allowed targets: Disabled, Pending (by the user only).
fn disabled(by: DisabledBy, since: Instant, event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::Enable => (dormant(), Vec::new()),
        Event::PermitGranted => (State::Disabled { by, since }, vec![Effect::ReleasePermit]),
        Event::Demand
        | Event::Dialed(_)
        | Event::Established(_)
        | Event::ConnectFailed(..)
        | Event::Down { .. }
        | Event::Timer(_)
        | Event::Reconnect
        | Event::Disable
        | Event::Panicked { .. } => (State::Disabled { by, since }, Vec::new()),
    }
}

fn dormant() -> State {
    State::Pending { phase: Phase::Dormant, attempt: 0, last: None }
}

fn queue(attempt: u32, last: Option<Arc<CloseReason>>) -> (State, Vec<Effect>) {
    (State::Pending { phase: Phase::Queued, attempt, last }, vec![Effect::RequestPermit])
}

fn crashed(attempts: u32, now: Instant) -> State {
    let reason = Arc::new(CloseReason::Protocol("the connection's actor panicked too often".into()));
    State::Failed { reason, class: FailureClass::Crashed, attempts, since: now, slow_retry: None }
}

fn phase_generation(phase: Phase) -> Option<Generation> {
    match phase {
        Phase::Dialing(generation) | Phase::Handshaking(generation) => Some(generation),
        Phase::Dormant | Phase::Queued | Phase::BackingOff { .. } => None,
    }
}

fn undo_phase(phase: Phase) -> Vec<Effect> {
    match phase {
        Phase::Queued => vec![Effect::ReleasePermit],
        Phase::Dialing(_) | Phase::Handshaking(_) => vec![Effect::CancelDial, Effect::ReleasePermit],
        Phase::Dormant | Phase::BackingOff { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
