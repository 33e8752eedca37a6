//! The one source of chance: splitmix64 (Steele, Lea and Flood, 2014), forked by number, never shared.

/// A generator of its own for everything that draws.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The generator for one purpose: the same numbers give the same draws, whatever else was drawn before.
    pub(crate) fn of(seed: u64, purpose: &[u64]) -> Rng {
        let mut rng = Rng(seed ^ STEP);
        for part in purpose {
            rng.0 = rng.next() ^ part.wrapping_mul(STEP);
        }
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// A number from the first to the second, both included.
    pub(crate) fn between(&mut self, [least, most]: [u64; 2]) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub(crate) fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_draws_the_same_whatever_came_before() {
        let mut a = Rng::of(7, &[1, 2]);
        let mut b = Rng::of(7, &[1, 2]);
        assert_eq!([a.next(), a.next()], [b.next(), b.next()]);
        assert_ne!(Rng::of(7, &[1, 2]).next(), Rng::of(7, &[2, 1]).next());
        assert!((0..1_000).all(|_| (3..=5).contains(&a.between([3, 5]))));
    }
}
