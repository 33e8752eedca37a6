//! Looks again and again at the watched resources of a server that does not tell their updates itself.
//! While nothing is watched, nothing is done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::server::{Fingerprint, Poll};
use super::subscription::Change;

/// How long an update may go unnoticed.
const POLL_PERIOD: Duration = Duration::from_millis(500);

/// What the watched resources looked like.
pub(super) struct Watch {
    poll: Option<Poll>,
    seen: BTreeMap<String, Fingerprint>,
    running: JoinSet<BTreeMap<String, Fingerprint>>,
    due: Instant,
}

impl Watch {
    /// Without a way to look, the watch never finds anything.
    pub(super) fn new(poll: Option<Poll>) -> Self {
        Self { poll, seen: BTreeMap::new(), running: JoinSet::new(), due: Instant::now() }
    }

    /// Sets what is watched. What is new is looked at at once, so that no later update is missed.
    pub(super) fn set(&mut self, uris: BTreeSet<String>) {
        let Some(poll) = &self.poll else { return };
        self.seen.retain(|uri, _| uris.contains(uri));
        for uri in uris {
            self.seen.entry(uri).or_insert_with_key(|uri| poll(uri));
        }
    }

    /// Waits for updates. Dropping the wait loses nothing.
    pub(super) async fn next(&mut self) -> BTreeSet<Change> {
        let Some(poll) = self.poll.clone().filter(|_| !self.seen.is_empty()) else {
            return std::future::pending().await;
        };
        loop {
            if self.running.is_empty() {
                tokio::time::sleep_until(self.due).await;
                let (poll, uris) = (poll.clone(), self.seen.keys().cloned().collect::<Vec<_>>());
                self.running.spawn_blocking(move || {
                    uris.into_iter().map(|uri| (uri.clone(), poll(&uri))).collect::<BTreeMap<_, _>>()
                });
            }
            let looked = self.running.join_next().await;
            self.due = Instant::now() + POLL_PERIOD;
            if let Some(Ok(found)) = looked {
                let updated = self.compare(found);
                if !updated.is_empty() {
                    return updated;
                }
            }
        }
    }

    fn compare(&mut self, found: BTreeMap<String, Fingerprint>) -> BTreeSet<Change> {
        let mut updated = BTreeSet::new();
        for (uri, fingerprint) in found {
            if let Some(seen) = self.seen.get_mut(&uri)
                && *seen != fingerprint
            {
                *seen = fingerprint;
                updated.insert(Change::Resource(uri));
            }
        }
        updated
    }
}
