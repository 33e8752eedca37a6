//! Numbers that look random and are the same for the same seed.

/// A generator after SplitMix64 (Steele, Lea and Flood, 2014): one addition and three multiplications a number.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A generator of its own for one part of a whole.
    pub fn fork(&self, part: u64) -> Random {
        let mut forked = Random(self.0 ^ part.wrapping_mul(0xd134_2543_de82_ef95));
        Random(forked.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `least` to `most`, both of which can come.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        let span = u128::from(most.saturating_sub(least)) + 1;
        least + ((u128::from(self.number()) * span) >> 64) as u64
    }

    /// A position in a list of `len`, which is not empty.
    pub fn below(&mut self, len: usize) -> usize {
        self.between(0, len.saturating_sub(1) as u64) as usize
    }

    /// True once in so many times, on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.between(1, times) == 1
    }

    /// Milliseconds to the next of events that come at random, `mean` apart on average.
    pub fn gap_ms(&mut self, mean: f64) -> u64 {
        let share = (self.number() >> 11) as f64 / (1u64 << 53) as f64;
        (-mean * (1.0 - share).ln()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_parts_differ() {
        let numbers = |mut random: Random| (0..4).map(|_| random.number()).collect::<Vec<_>>();
        let root = Random::new(7);
        assert_eq!(numbers(root.clone()), numbers(Random::new(7)));
        assert_ne!(numbers(root.fork(1)), numbers(root.fork(2)));
    }

    #[test]
    fn both_ends_come_and_gaps_have_their_mean() {
        let mut random = Random::new(1);
        let seen: std::collections::BTreeSet<u64> = (0..200).map(|_| random.between(3, 5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [3, 4, 5]);
        let sum: u64 = (0..20_000).map(|_| random.gap_ms(100.0)).sum();
        assert!((1_900_000..2_100_000).contains(&sum), "{sum}");
    }
}
