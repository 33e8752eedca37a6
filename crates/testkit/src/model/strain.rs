//! What the failures of its requests do to a connection, by the rules (behaviour profile 4.6 and 4.7).

use callboard_core::port::{CloseReason, IoKind, Unreachable};
use callboard_core::settings::Settings;
use std::collections::VecDeque;

/// The numbers of the rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    in_a_row: u32,
    window: usize,
    window_terminal: usize,
    silence_ms: u64,
}

impl Limits {
    pub(crate) fn new(settings: &Settings) -> Limits {
        Limits {
            in_a_row: settings.health_strikes_max as u32,
            window: settings.health_window_size,
            window_terminal: settings.health_window_terminal_max,
            silence_ms: settings.health_silence.as_millis() as u64,
        }
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answer,
    Harmless,
    Terminal,
    /// Ends the connection by itself.
    Certain,
}

impl Outcome {
    pub(crate) fn of(failure: Option<&CloseReason>) -> Outcome {
        match failure {
            None | Some(CloseReason::Status { .. }) => Outcome::Answer,
            Some(CloseReason::SessionExpired { .. } | CloseReason::AuthRequired { .. }) => Outcome::Certain,
            Some(
                CloseReason::Io { kind: IoKind::Reset | IoKind::BodyCut, .. }
                | CloseReason::Unreachable { kind: Unreachable::Refused, .. },
            ) => Outcome::Terminal,
            Some(_) => Outcome::Harmless,
        }
    }
}

/// What is held against a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strain {
    in_a_row: u32,
    window: VecDeque<bool>,
    /// Since the first terminal failure after the last answer, and how many.
    silence: Option<(u64, u32)>,
}

impl Strain {
    /// Takes an outcome; true when the connection is given up for it.
    pub(crate) fn note(&mut self, outcome: Outcome, now: u64, limits: &Limits) -> bool {
        let is_terminal = outcome == Outcome::Terminal;
        self.in_a_row = if is_terminal { self.in_a_row + 1 } else { 0 };
        match (outcome, &mut self.silence) {
            (Outcome::Certain, _) => return true,
            (Outcome::Answer, silence) => *silence = None,
            (Outcome::Harmless, _) => {}
            (Outcome::Terminal, Some((_, count))) => *count += 1,
            (Outcome::Terminal, none) => *none = Some((now, 1)),
        }
        if is_terminal || !self.window.is_empty() {
            self.window.push_back(is_terminal);
            if self.window.len() > limits.window {
                self.window.pop_front();
            }
        }
        let terminal = self.window.iter().filter(|is_terminal| **is_terminal).count();
        let is_silent =
            self.silence.is_some_and(|(since, count)| count >= 2 && now >= since + limits.silence_ms);
        (limits.in_a_row > 0 && self.in_a_row >= limits.in_a_row)
            || (limits.window_terminal > 0 && terminal >= limits.window_terminal)
            || (limits.silence_ms > 0 && is_silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_five_of_ten_or_a_minute_of_silence() {
        let limits = Limits::new(&Settings::default());
        let given_up_after = |outcomes: &[Outcome], every_ms: u64| {
            let mut strain = Strain::default();
            let mut at = 0;
            outcomes.iter().position(|outcome| {
                at += every_ms;
                strain.note(*outcome, at, &limits)
            })
        };
        use Outcome::{Answer, Harmless, Terminal};
        assert_eq!(given_up_after(&[Terminal; 3], 1), Some(2));
        assert_eq!(given_up_after(&[Terminal, Answer].repeat(6), 1), Some(8));
        assert_eq!(given_up_after(&[Terminal, Harmless, Terminal, Harmless, Harmless], 20_000), Some(3));
        assert_eq!(given_up_after(&[Terminal, Terminal, Answer, Answer, Answer, Answer], 1), None);
    }
}
