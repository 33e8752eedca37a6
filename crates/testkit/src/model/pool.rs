//! Dial permits by the rules: so many for local and so many for remote servers, in the order of asking; a dial
//! that takes long gives its permit up.

use std::collections::{BTreeMap, BTreeSet};

/// The pools of permits.
pub(crate) struct Pools {
    local: Pool,
    remote: Pool,
    overdue_ms: u64,
}

struct Pool {
    max: usize,
    /// Who has one, and until when at most.
    held: BTreeMap<u32, u64>,
    ends: BTreeSet<(u64, u32)>,
    /// Since when there has been no free permit; still set in the instant in which one came free.
    full_since_ms: Option<u64>,
    freed_at_ms: u64,
}

impl Pools {
    pub(crate) fn new(local_max: usize, remote_max: usize, overdue_ms: u64) -> Pools {
        let pool = |max: usize| Pool {
            max: max.max(1),
            held: BTreeMap::new(),
            ends: BTreeSet::new(),
            full_since_ms: None,
            freed_at_ms: 0,
        };
        Pools { local: pool(local_max), remote: pool(remote_max), overdue_ms }
    }

    fn of(&mut self, remote: bool) -> &mut Pool {
        if remote { &mut self.remote } else { &mut self.local }
    }

    /// A dial begins that was due at `due_ms`. False when it should have begun earlier, or not yet.
    pub(crate) fn take(&mut self, remote: bool, server: u32, due_ms: u64, now: u64) -> bool {
        let until = now + self.overdue_ms;
        let pool = self.of(remote);
        pool.settle(now);
        let in_time = due_ms == now || pool.was_full_since(due_ms, now);
        let is_free = pool.held.len() < pool.max;
        pool.insert(server, until, now);
        in_time && is_free
    }

    /// A dial is over.
    pub(crate) fn give_back(&mut self, remote: bool, server: u32, now: u64) {
        let pool = self.of(remote);
        pool.settle(now);
        pool.remove(server, now);
    }

    /// A server that is due since `due_ms` should have been dialed by now.
    pub(crate) fn is_late(&mut self, remote: bool, due_ms: u64, now: u64) -> bool {
        let pool = self.of(remote);
        pool.settle(now);
        due_ms < now && !pool.was_full_since(due_ms, now)
    }

    /// Permits that are out.
    pub(crate) fn held(&mut self, now: u64) -> usize {
        self.local.settle(now);
        self.remote.settle(now);
        self.local.held.len() + self.remote.held.len()
    }
}

impl Pool {
    /// Takes the permits back from those who have had them too long.
    fn settle(&mut self, now: u64) {
        while let Some((at, server)) = self.ends.first().copied().filter(|(at, _)| *at <= now) {
            self.remove(server, at);
        }
    }

    fn insert(&mut self, server: u32, until: u64, now: u64) {
        self.held.insert(server, until);
        self.ends.insert((until, server));
        if self.held.len() >= self.max {
            let goes_on = self.full_since_ms.is_some() && self.freed_at_ms == now;
            if !goes_on {
                self.full_since_ms = Some(now);
            }
        }
    }

    fn remove(&mut self, server: u32, now: u64) {
        if let Some(until) = self.held.remove(&server) {
            self.ends.remove(&(until, server));
            if self.held.len() + 1 >= self.max {
                self.freed_at_ms = now;
            }
        }
    }

    /// From then until this instant nobody could have had a permit.
    fn was_full_since(&self, due_ms: u64, now: u64) -> bool {
        let is_full = self.held.len() >= self.max || self.freed_at_ms == now;
        is_full && self.full_since_ms.is_some_and(|since| since <= due_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_permit_is_dialed_when_one_comes_free() {
        let mut pools = Pools::new(1, 2, 3_000);
        assert!(pools.take(true, 1, 10, 10) && pools.take(true, 2, 10, 10));
        assert!(!pools.is_late(true, 10, 500), "the pool is full");
        pools.give_back(true, 1, 600);
        assert!(pools.take(true, 3, 10, 600), "in the instant in which one came free");
        assert!(!pools.is_late(true, 650, 3_010), "full until the second one is overdue, now");
        assert!(pools.is_late(true, 650, 3_011));
        assert_eq!(pools.held(3_601), 0);
        assert!(pools.take(false, 5, 4_000, 4_000));
        assert!(!pools.take(false, 6, 4_000, 4_001), "there is one local permit");
    }
}
