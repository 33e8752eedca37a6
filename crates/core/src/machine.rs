//! The life of one connection as a pure function: `step(state, event, now, rules) -> (state, effects)`.
//!
//! Losing a peer is a state, never a crash. Numbers come from behaviour profile §4.

mod event;
mod rules;
mod state;

pub use event::{Effect, Event};
pub use rules::{Dice, Rules};
pub use state::{DisabledBy, FailureClass, Phase, State, TimerToken};

use crate::port::{CloseReason, Generation};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest `Retry-After` that is obeyed. A server may ask for any number of seconds, more than a clock can
/// tell among them.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

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
    dice: Dice,
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
            dice: Dice::default(),
        }
    }

    /// The same with its own random numbers.
    #[must_use]
    pub fn with_dice(self, dice: Dice) -> ConnMachine {
        ConnMachine { dice, ..self }
    }

    /// The generation that is in use, or being made.
    pub fn live(&self) -> Option<Generation> {
        match self.state {
            State::Pending { phase, .. } => phase_generation(phase),
            State::Connected { generation, .. } => Some(generation),
            State::NeedsAuth { .. } | State::Failed { .. } | State::Disabled { .. } => None,
        }
    }

    /// Attempts that may be made before it is given up.
    pub fn attempts_max(&self, rules: &Rules) -> u32 {
        if self.was_connected { rules.attempts_max } else { rules.first_attempts_max }
    }

    /// Takes an event. An event that means nothing in this state changes nothing.
    pub fn step(mut self, event: Event, now: Instant, rules: &Rules) -> (ConnMachine, Vec<Effect>) {
        if let Event::Replaced = event {
            // Another entry is another server, whose first connect it will be.
            self.was_connected = false;
        }
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
            State::Disabled { by, since } => disabled(by, since, event, now),
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
                Phase::Queued => (State::Pending { phase, attempt: 0, last }, Vec::new()),
                // Who asks while an attempt hangs wants a fresh one.
                Phase::Dialing(_) | Phase::Handshaking(_) => requeue(phase, last),
            },
            Event::Replaced => match phase {
                Phase::Dormant => (dormant(), Vec::new()),
                Phase::Queued | Phase::Dialing(_) | Phase::Handshaking(_) | Phase::BackingOff { .. } => {
                    requeue(phase, None)
                }
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
            Event::Disable => (off(DisabledBy::User, now), undo_phase(phase)),
            Event::EntryDisabled => (off(DisabledBy::Entry, now), undo_phase(phase)),
            Event::Removed => (off(DisabledBy::Removed, now), undo_phase(phase)),
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
        self.back_off(made, rules.gap(step), reason, now, rules)
    }

    fn back_off(
        &mut self,
        attempt: u32,
        gap: Duration,
        reason: Arc<CloseReason>,
        now: Instant,
        rules: &Rules,
    ) -> (State, Vec<Effect>) {
        let gap = reason.retry_after().map_or(gap, |asked| asked.min(RETRY_AFTER_MAX).max(gap));
        let until = now + rules.jittered(gap, &mut self.dice);
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
        let slow_retry =
            retry.then(|| (now + rules.jittered(rules.slow_retry, &mut self.dice), self.next_timer()));
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
            Event::Replaced => {
                let (state, mut effects) = queue(0, None);
                effects.insert(0, Effect::Drain(generation));
                (state, effects)
            }
            Event::Disable => (off(DisabledBy::User, now), vec![Effect::CloseLink(generation)]),
            Event::EntryDisabled => (off(DisabledBy::Entry, now), vec![Effect::Drain(generation)]),
            Event::Removed => (off(DisabledBy::Removed, now), vec![Effect::CloseLink(generation)]),
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
        self.back_off(attempt, rules.gap(attempt), reason, now, rules)
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
            Event::Replaced => queue(0, None),
            Event::Disable => (off(DisabledBy::User, now), Vec::new()),
            Event::EntryDisabled => (off(DisabledBy::Entry, now), Vec::new()),
            Event::Removed => (off(DisabledBy::Removed, now), Vec::new()),
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
        Event::Replaced => queue(0, None),
        Event::Disable => (off(DisabledBy::User, now), Vec::new()),
        Event::EntryDisabled => (off(DisabledBy::Entry, now), Vec::new()),
        Event::Removed => (off(DisabledBy::Removed, now), Vec::new()),
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

// Allowed targets: Disabled, Pending (by the user; by the entry what the entry had switched off).
fn disabled(by: DisabledBy, since: Instant, event: Event, now: Instant) -> (State, Vec<Effect>) {
    match event {
        Event::Enable => match by {
            DisabledBy::Entry | DisabledBy::User => (dormant(), Vec::new()),
            DisabledBy::Removed => (State::Disabled { by, since }, Vec::new()),
        },
        Event::Replaced => match by {
            DisabledBy::Entry => (dormant(), Vec::new()),
            DisabledBy::User | DisabledBy::Removed => (State::Disabled { by, since }, Vec::new()),
        },
        Event::Disable => match by {
            // What a person has switched off, no entry switches on.
            DisabledBy::Entry => (off(DisabledBy::User, now), Vec::new()),
            DisabledBy::User | DisabledBy::Removed => (State::Disabled { by, since }, Vec::new()),
        },
        Event::Removed => (off(DisabledBy::Removed, now), Vec::new()),
        Event::PermitGranted => (State::Disabled { by, since }, vec![Effect::ReleasePermit]),
        Event::Demand
        | Event::Dialed(_)
        | Event::Established(_)
        | Event::ConnectFailed(..)
        | Event::Down { .. }
        | Event::Timer(_)
        | Event::Reconnect
        | Event::EntryDisabled
        | Event::Panicked { .. } => (State::Disabled { by, since }, Vec::new()),
    }
}

fn dormant() -> State {
    State::Pending { phase: Phase::Dormant, attempt: 0, last: None }
}

fn queue(attempt: u32, last: Option<Arc<CloseReason>>) -> (State, Vec<Effect>) {
    (State::Pending { phase: Phase::Queued, attempt, last }, vec![Effect::RequestPermit])
}

/// Gives up what a phase has begun, and begins anew.
fn requeue(phase: Phase, last: Option<Arc<CloseReason>>) -> (State, Vec<Effect>) {
    let mut effects = undo_phase(phase);
    let (state, more) = queue(0, last);
    effects.extend(more);
    (state, effects)
}

fn off(by: DisabledBy, since: Instant) -> State {
    State::Disabled { by, since }
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
