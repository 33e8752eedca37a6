//! Whether the connections that a client keeps still lead anywhere.
//!
//! A path that dies without a word leaves its connections open, and each request would find out about one of them
//! for itself; over HTTP/2 all requests would share the dead one. A request that is given up after a while in
//! which nobody was answered speaks against all of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// One who leaves earlier says nothing about the connection.
const WAITED_LEAST: Duration = Duration::from_secs(1);

/// What the requests over one set of connections have met.
#[derive(Default)]
pub(super) struct Answers {
    count: AtomicU64,
    /// Which set of connections it is.
    set: AtomicU64,
    is_suspect: AtomicBool,
}

impl Answers {
    /// A request is about to be sent. `suspect` is told when it is given up in a way that speaks against the
    /// connections.
    pub(super) fn expect<Suspect: Fn()>(&self, suspect: Suspect) -> Expected<'_, Suspect> {
        Expected {
            answers: self,
            suspect,
            count: self.count.load(Ordering::Relaxed),
            set: self.set.load(Ordering::Relaxed),
            since: Instant::now(),
            has_ended: false,
        }
    }

    /// The connections are to be left behind; true once, and what is sent from now on belongs to the next set.
    pub(super) fn take_suspicion(&self) -> bool {
        let is_suspect =
            self.is_suspect.load(Ordering::Relaxed) && self.is_suspect.swap(false, Ordering::AcqRel);
        if is_suspect {
            self.set.fetch_add(1, Ordering::Relaxed);
        }
        is_suspect
    }
}

/// A request under way. Dropped before its end, it was given up.
pub(super) struct Expected<'a, Suspect: Fn()> {
    answers: &'a Answers,
    suspect: Suspect,
    count: u64,
    set: u64,
    since: Instant,
    has_ended: bool,
}

impl<Suspect: Fn()> Expected<'_, Suspect> {
    /// The server answered.
    pub(super) fn answered(mut self) {
        self.answers.count.fetch_add(1, Ordering::Relaxed);
        self.has_ended = true;
    }

    /// The connection failed, and with that is gone.
    pub(super) fn failed(mut self) {
        self.has_ended = true;
    }
}

impl<Suspect: Fn()> Drop for Expected<'_, Suspect> {
    fn drop(&mut self) {
        let answers = self.answers;
        let is_silent = !self.has_ended
            && answers.count.load(Ordering::Relaxed) == self.count
            && answers.set.load(Ordering::Relaxed) == self.set;
        if is_silent && self.since.elapsed() >= WAITED_LEAST {
            answers.is_suspect.store(true, Ordering::Release);
            (self.suspect)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_silence_speaks_against_the_connections() {
        let answers = Answers::default();
        let hangs = || async {
            let expected = answers.expect(|| {});
            tokio::time::advance(WAITED_LEAST).await;
            expected
        };
        drop(answers.expect(|| {}));
        assert!(!answers.take_suspicion(), "left at once");
        let slow = hangs().await;
        answers.expect(|| {}).answered();
        drop(slow);
        assert!(!answers.take_suspicion(), "another one was answered");
        hangs().await.failed();
        assert!(!answers.take_suspicion(), "its connection is gone");
        let late = hangs().await;
        drop(hangs().await);
        assert!(answers.take_suspicion() && !answers.take_suspicion(), "once");
        drop(late);
        assert!(!answers.take_suspicion(), "it was sent over connections left behind");
    }
}
