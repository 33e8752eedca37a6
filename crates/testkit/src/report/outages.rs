//! When a server could not be had though it was wanted, read off its bands.

use super::words;
use crate::recording::{Band, ServerTrack};

/// The bands with the place of their state, none of them empty or upside down, none past the end.
pub(super) fn bands(track: &ServerTrack, end_ms: u64) -> impl Iterator<Item = (u64, u64, usize)> + '_ {
    track.bands.iter().filter_map(move |Band { from_ms, to_ms, state }| {
        let to_ms = (*to_ms).min(end_ms);
        (*from_ms < to_ms).then(|| (*from_ms, to_ms, words::state(state)))
    })
}

/// The outages of a server, each from its start to its end: time without a connection after it was lost or could
/// not be had. A first connection that is made without trouble is none, and neither is rest.
pub(super) fn outages(track: &ServerTrack, end_ms: u64) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut away: Option<Away> = None;
    let mut was_connected = false;
    for (from_ms, to_ms, state) in bands(track, end_ms) {
        if !words::is_away(state) {
            found.extend(away.take().and_then(Away::outage));
            was_connected = state == 0;
            continue;
        }
        let begun = Away { from_ms, to_ms, is_outage: was_connected };
        let current = away.get_or_insert(begun);
        current.to_ms = current.to_ms.max(to_ms);
        current.is_outage |= words::is_trouble(state);
    }
    found.extend(away.and_then(Away::outage));
    found
}

/// Time without a connection, of which it is to be seen what it is.
struct Away {
    from_ms: u64,
    to_ms: u64,
    is_outage: bool,
}

impl Away {
    fn outage(self) -> Option<(u64, u64)> {
        self.is_outage.then_some((self.from_ms, self.to_ms))
    }
}

/// Gaps between attempts of one server with no connection between them, in milliseconds.
pub(super) fn gaps(track: &ServerTrack) -> Vec<u64> {
    let mut attempts = track.attempts_at_ms.clone();
    attempts.sort_unstable();
    let mut connected: Vec<u64> =
        bands(track, u64::MAX).filter(|(_, _, state)| *state == 0).map(|(from_ms, _, _)| from_ms).collect();
    connected.sort_unstable();
    let between = |from: u64, to: u64| {
        let next = connected.partition_point(|at| *at < from);
        connected.get(next).is_some_and(|at| *at < to)
    };
    let pairs = attempts.windows(2).filter(|pair| !between(pair[0], pair[1]));
    pairs.map(|pair| pair[1] - pair[0]).collect()
}
