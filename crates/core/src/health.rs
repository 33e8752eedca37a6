//! When a connection is given up for the failures of its requests (behaviour profile 4.6 and 4.7).
//!
//! Three rules hold side by side, each switched off by a zero: so many terminal failures in a row; so many among
//! the last outcomes; and no answer for so long with at least two of them. The second and third close the hole
//! of the first, which any harmless failure in between would reset for ever.

use crate::port::CloseReason;
use crate::settings::Settings;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Terminal failures that a silence needs to count.
const SILENCE_TERMINAL_LEAST: u32 = 2;

/// The numbers of the three rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HealthRules {
    /// Terminal failures in a row.
    pub strikes_max: usize,
    /// Outcomes that are looked at together.
    pub window_size: usize,
    /// Terminal failures among them.
    pub window_terminal_max: usize,
    /// Time without an answer.
    pub silence: Duration,
}

impl HealthRules {
    fn of(settings: &Settings) -> HealthRules {
        HealthRules {
            strikes_max: settings.health_strikes_max,
            window_size: settings.health_window_size,
            window_terminal_max: settings.health_window_terminal_max,
            silence: settings.health_silence,
        }
    }
}

/// How a request ended, as far as health goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The server answered; an error is an answer.
    Answer,
    /// A time limit of ours, or a message that cannot be used: no strike, and no sign of health.
    Harmless,
    /// A terminal signal.
    Terminal,
}

/// Which rule gave the connection up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// So many terminal failures in a row.
    InARow(u32),
    /// So many terminal failures among the last so many outcomes.
    Window {
        /// Terminal failures.
        terminal: usize,
        /// Outcomes that were looked at.
        of: usize,
    },
    /// No answer for so long.
    Silence(Duration),
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GivenUp::InARow(strikes) => write!(f, "{strikes} in a row"),
            GivenUp::Window { terminal, of } => write!(f, "{terminal} of the last {of} requests"),
            GivenUp::Silence(silence) => write!(f, "no answer for {} ms", silence.as_millis()),
        }
    }
}

/// What the outcomes of one connection's requests say of it.
#[derive(Debug, Default)]
pub(crate) struct Health {
    strikes: u32,
    /// The last outcomes since the connection was last well; true for a terminal failure.
    window: VecDeque<bool>,
    /// Since the first terminal failure after an answer: when, and how many.
    silence: Option<(Instant, u32)>,
}

impl Health {
    /// Terminal failures in a row.
    pub(crate) fn strikes(&self) -> u32 {
        self.strikes
    }

    /// Nothing is held against the connection: until the next terminal failure no outcome changes anything, so
    /// none has to be told.
    pub(crate) fn is_well(&self) -> bool {
        self.window.is_empty() && self.strikes == 0 && self.silence.is_none()
    }

    /// Takes an outcome; tells when the connection is to be given up.
    ///
    /// The time without an answer is counted from the first terminal failure after the last answer, not from
    /// that answer: when nothing is asked, nothing is answered.
    pub(crate) fn note(&mut self, seen: Seen, now: Instant, rules: &HealthRules) -> Option<GivenUp> {
        let is_terminal = seen == Seen::Terminal;
        self.strikes = if is_terminal { self.strikes.saturating_add(1) } else { 0 };
        self.silence = match (seen, self.silence) {
            (Seen::Answer, _) => None,
            (Seen::Harmless, silence) => silence,
            (Seen::Terminal, None) => Some((now, 1)),
            (Seen::Terminal, Some((since, count))) => Some((since, count.saturating_add(1))),
        };
        self.look_back(is_terminal, rules);
        self.judge(now, rules)
    }

    fn look_back(&mut self, is_terminal: bool, rules: &HealthRules) {
        if rules.window_size == 0 {
            return;
        }
        if is_terminal || !self.window.is_empty() {
            self.window.push_back(is_terminal);
        }
        while self.window.len() > rules.window_size || self.window.front() == Some(&false) {
            self.window.pop_front();
        }
    }

    fn judge(&self, now: Instant, rules: &HealthRules) -> Option<GivenUp> {
        let reached = |count: usize, max: usize| max > 0 && count >= max;
        if reached(self.strikes as usize, rules.strikes_max) {
            return Some(GivenUp::InARow(self.strikes));
        }
        let terminal = self.window.iter().filter(|is_terminal| **is_terminal).count();
        if reached(terminal, rules.window_terminal_max) {
            return Some(GivenUp::Window { terminal, of: self.window.len() });
        }
        let (since, count) = self.silence?;
        let silence = now.saturating_duration_since(since);
        let is_silent = !rules.silence.is_zero() && silence >= rules.silence;
        (is_silent && count >= SILENCE_TERMINAL_LEAST).then_some(GivenUp::Silence(silence))
    }
}

/// The health of one connection, as many tasks tell of it. While it is well, telling costs one load.
pub(crate) struct Vitals {
    rules: HealthRules,
    is_unwell: AtomicBool,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    health: Health,
    last: Option<Arc<CloseReason>>,
}

impl Vitals {
    pub(crate) fn new(settings: &Settings) -> Vitals {
        let rules = HealthRules::of(settings);
        Vitals { rules, is_unwell: AtomicBool::new(false), told: Mutex::default() }
    }

    /// The server answered.
    pub(crate) fn answered(&self) {
        if self.is_unwell.load(Ordering::Relaxed) {
            self.note(&mut self.told.lock(), Seen::Answer);
        }
    }

    /// A request ended in a way that says nothing against the connection. Gives the last terminal failure when
    /// the connection has been silent for too long.
    pub(crate) fn harmless(&self) -> Option<(Arc<CloseReason>, GivenUp)> {
        if !self.is_unwell.load(Ordering::Relaxed) {
            return None;
        }
        let mut told = self.told.lock();
        let given_up = self.note(&mut told, Seen::Harmless)?;
        told.last.clone().map(|last| (last, given_up))
    }

    /// A request met a terminal signal. Gives how many have in a row, and whether the connection is given up.
    pub(crate) fn terminal(&self, reason: &Arc<CloseReason>) -> (u32, Option<GivenUp>) {
        let mut told = self.told.lock();
        told.last = Some(reason.clone());
        let given_up = self.note(&mut told, Seen::Terminal);
        (told.health.strikes(), given_up)
    }

    /// Terminal failures in a row.
    pub(crate) fn strikes(&self) -> u32 {
        self.told.lock().health.strikes()
    }

    fn note(&self, told: &mut Told, seen: Seen) -> Option<GivenUp> {
        let given_up = told.health.note(seen, Instant::now(), &self.rules);
        self.is_unwell.store(!told.health.is_well(), Ordering::Relaxed);
        given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: HealthRules = HealthRules {
        strikes_max: 3,
        window_size: 10,
        window_terminal_max: 5,
        silence: Duration::from_secs(60),
    };
    const OFF: HealthRules =
        HealthRules { strikes_max: 0, window_size: 0, window_terminal_max: 0, silence: Duration::ZERO };

    fn seen(letter: char) -> Seen {
        match letter {
            'a' => Seen::Answer,
            'h' => Seen::Harmless,
            't' => Seen::Terminal,
            other => panic!("{other}"),
        }
    }

    /// The outcome, counted from 1, at which the connection is given up, when one comes every `every` seconds.
    fn given_up(rules: HealthRules, outcomes: &str, every: u64) -> Option<(usize, GivenUp)> {
        let (mut health, begin) = (Health::default(), Instant::now());
        outcomes.chars().enumerate().find_map(|(n, letter)| {
            let now = begin + Duration::from_secs(every * n as u64);
            health.note(seen(letter), now, &rules).map(|given_up| (n + 1, given_up))
        })
    }

    #[test]
    fn the_three_rules_as_a_table() {
        let window = |terminal, of| GivenUp::Window { terminal, of };
        let silence = |s| GivenUp::Silence(Duration::from_secs(s));
        let cases = [
            ("three strikes in a row", RULES, "ttt", 0, Some((3, GivenUp::InARow(3)))),
            ("an answer resets the count", RULES, "ttattatt", 0, Some((7, window(5, 7)))),
            ("alternating with what is harmless", RULES, "thththtaththt", 0, Some((9, window(5, 9)))),
            ("alternating with answers", RULES, "tatatatat", 0, Some((9, window(5, 9)))),
            ("five of ten, but not of the last ten", RULES, "taataataataataataataataa", 0, None),
            ("the window moves on", RULES, "ttaaaaaaaattaaaaaaaatt", 0, None),
            ("silence with two of them", RULES, "tht", 40, Some((3, silence(80)))),
            ("silence tells itself at any outcome", RULES, "thth", 25, Some((4, silence(75)))),
            ("one of them is not enough", RULES, "thhhhhhhhhhhh", 60, None),
            ("an answer ends the silence", RULES, "tat", 60, None),
            ("two of them with nothing between", RULES, "att", 600, Some((3, silence(600)))),
            ("all switched off", OFF, "tttttttttttttttt", 60, None),
            (
                "the window alone",
                HealthRules { window_size: 4, window_terminal_max: 2, ..OFF },
                "taaatat",
                0,
                Some((7, window(2, 3))),
            ),
        ];
        for (name, rules, outcomes, every, want) in cases {
            assert_eq!(given_up(rules, outcomes, every), want, "{name}");
        }
    }

    #[test]
    fn idle_time_before_the_first_failure_does_not_count() {
        let (mut health, begin) = (Health::default(), Instant::now());
        assert_eq!(health.note(Seen::Answer, begin, &RULES), None);
        let later = begin + Duration::from_secs(3_600);
        assert_eq!(health.note(Seen::Terminal, later, &RULES), None);
        assert_eq!(health.note(Seen::Terminal, later, &RULES), None);
    }

    proptest! {
        /// Told of everything or only of what comes while it is not well: the verdicts are the same, and they are
        /// those of the rules written down plainly.
        #[test]
        fn leaving_out_what_comes_while_it_is_well_changes_nothing(
            outcomes in proptest::collection::vec((0..3_u8, 0..40_u64), 0..60),
            strikes_max in 0..5_usize, window_size in 0..8_usize, window_terminal_max in 0..5_usize,
            silence in 0..120_u64,
        ) {
            let silence = Duration::from_secs(silence);
            let rules = HealthRules { strikes_max, window_size, window_terminal_max, silence };
            let (mut told_all, mut told_less, begin) = (Health::default(), Health::default(), Instant::now());
            let (mut now, mut history) = (begin, Vec::new());
            for (kind, gap) in outcomes {
                now += Duration::from_secs(gap);
                let seen = [Seen::Answer, Seen::Harmless, Seen::Terminal][kind as usize];
                history.push((seen, now));
                let all = told_all.note(seen, now, &rules);
                let less = match told_less.is_well() && seen != Seen::Terminal {
                    true => None,
                    false => told_less.note(seen, now, &rules),
                };
                prop_assert_eq!(all, less);
                prop_assert_eq!(all.is_some(), plainly(&history, &rules));
            }
        }
    }

    fn plainly(history: &[(Seen, Instant)], rules: &HealthRules) -> bool {
        let terminal = |seen: &Seen| *seen == Seen::Terminal;
        let in_a_row = history.iter().rev().take_while(|(seen, _)| terminal(seen)).count();
        let recent = history.iter().rev().take(rules.window_size);
        let in_window = recent.filter(|(seen, _)| terminal(seen)).count();
        let unanswered = history.iter().rev().take_while(|(seen, _)| *seen != Seen::Answer);
        let failures: Vec<_> = unanswered.filter(|(seen, _)| terminal(seen)).map(|(_, at)| *at).collect();
        let silent = match (failures.last(), history.last()) {
            (Some(first), Some((_, now))) => *now - *first >= rules.silence && failures.len() >= 2,
            _ => false,
        };
        (rules.strikes_max > 0 && in_a_row >= rules.strikes_max)
            || (rules.window_size > 0
                && rules.window_terminal_max > 0
                && in_window >= rules.window_terminal_max)
            || (!rules.silence.is_zero() && silent)
    }
}
