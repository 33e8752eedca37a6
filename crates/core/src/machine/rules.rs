//! The numbers that govern one server, and the chance among them.

use std::time::Duration;

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
    /// Largest gap, before jitter.
    pub backoff_max: Duration,
    /// Growth of gaps.
    pub backoff_factor: f64,
    /// The part of a gap, 0 to 1, that chance may add to it.
    pub jitter: f64,
    /// Age from which a connection starts the count anew.
    pub reset_after: Duration,
    /// Gap of the slow retry; zero is off.
    pub slow_retry: Duration,
}

impl Rules {
    /// The gap before attempt number `attempt`, counted from 0, without jitter.
    pub fn gap(&self, attempt: u32) -> Duration {
        let factor = self.backoff_factor.powi(attempt.min(64) as i32);
        let gap = self.backoff_initial.as_secs_f64() * factor;
        Duration::from_secs_f64(gap.min(self.backoff_max.as_secs_f64()).max(0.0))
    }

    /// A gap with what chance adds to it. It is never shortened: a server that asked for a pause gets it.
    pub(super) fn jittered(&self, gap: Duration, dice: &mut Dice) -> Duration {
        match self.jitter.clamp(0.0, 1.0) {
            0.0 => gap,
            jitter => gap + gap.mul_f64(jitter * dice.fraction()),
        }
    }
}

/// The random numbers of one server: splitmix64, forked from the board's seed by the server's name, so that no
/// server's draws depend on how often another one drew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dice(u64);

/// The increment of splitmix64 (Steele, Lea and Flood 2014): 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    /// The generator of the server of this name.
    pub fn forked(seed: u64, name: &str) -> Dice {
        // Each byte goes through the whole mixing, so that names which differ in one bit have nothing in common.
        let state = name.bytes().fold(mixed(seed), |state, byte| mixed(state ^ u64::from(byte)));
        Dice(state)
    }

    /// The next number from 0 up to, and without, 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        // A double holds 53 bits.
        (mixed(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(GOLDEN);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_are_the_same_for_a_seed_and_a_name_and_differ_otherwise() {
        let draws = |seed, name| {
            let mut dice = Dice::forked(seed, name);
            [dice.fraction(), dice.fraction(), dice.fraction()]
        };
        assert_eq!(draws(1, "a"), draws(1, "a"));
        assert_ne!(draws(1, "a"), draws(2, "a"));
        assert_ne!(draws(1, "a"), draws(1, "b"));
        let mut dice = Dice::forked(7, "s");
        let mean = (0..10_000).map(|_| dice.fraction()).sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }
}
