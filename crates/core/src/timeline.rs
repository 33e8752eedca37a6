//! What happened to each server of late, kept whether or not anybody listens.

use crate::event::EventKind;
use crate::port::ServerName;
use callboard_protocol::text::cut;
use parking_lot::Mutex;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// One thing that happened to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimelineEntry {
    /// Since the board was built, in milliseconds.
    pub at_ms: u64,
    /// The server's generation.
    pub generation: u64,
    /// What happened: a state or phase (`connected`, `backing-off`, …), or the word of another event.
    pub event: String,
    /// Why, or what more there is to say of it; cut at 300 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Entries that are kept of one server.
const ENTRIES_MAX: usize = 64;
/// Longest text of an entry, in characters.
const CAUSE_CHARS_MAX: usize = 300;

/// An entry in a form that takes little room: ten thousand servers have one of these each.
struct Kept {
    at_ms: u64,
    generation: u64,
    event: &'static str,
    cause: Option<Box<str>>,
}

/// The latest entries of one server.
#[derive(Default)]
pub(crate) struct Timeline(Mutex<VecDeque<Kept>>);

impl Timeline {
    fn record(&self, at_ms: u64, generation: u64, event: &'static str, cause: Option<Cow<'_, str>>) {
        let cause = cause.map(|cause| match cut(&cause, CAUSE_CHARS_MAX) {
            (head, true) => format!("{head}…").into_boxed_str(),
            (head, false) => head.into(),
        });
        let mut entries = self.0.lock();
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(Kept { at_ms, generation, event, cause });
    }

    /// The entries, oldest first.
    pub(crate) fn entries(&self) -> Vec<TimelineEntry> {
        let shown = |kept: &Kept| TimelineEntry {
            at_ms: kept.at_ms,
            generation: kept.generation,
            event: kept.event.to_owned(),
            cause: kept.cause.as_deref().map(str::to_owned),
        };
        self.0.lock().iter().map(shown).collect()
    }
}

/// The timelines of a board's servers, by name: events are told by name.
#[derive(Default)]
pub(crate) struct Timelines(Mutex<BTreeMap<ServerName, Arc<Timeline>>>);

impl Timelines {
    /// A new timeline; it takes the place of one that a removed server of the same name had.
    pub(crate) fn begin(&self, server: &ServerName) -> Arc<Timeline> {
        let timeline = Arc::new(Timeline::default());
        self.0.lock().insert(server.clone(), timeline.clone());
        timeline
    }

    /// Nothing more is recorded in this timeline.
    pub(crate) fn end(&self, server: &ServerName, timeline: &Arc<Timeline>) {
        let mut timelines = self.0.lock();
        if timelines.get(server).is_some_and(|known| Arc::ptr_eq(known, timeline)) {
            timelines.remove(server);
        }
    }

    pub(crate) fn record(&self, server: &ServerName, at_ms: u64, generation: u64, event: &EventKind) {
        let Some((word, cause)) = summary(event) else { return };
        let timeline = self.0.lock().get(server).cloned();
        if let Some(timeline) = timeline {
            timeline.record(at_ms, generation, word, cause);
        }
    }
}

/// An event in a word and a text; none for what is no part of a server's life.
fn summary(event: &EventKind) -> Option<(&'static str, Option<Cow<'_, str>>)> {
    let borrowed = |text: &'_ Option<String>| text.clone().map(Cow::Owned);
    Some(match event {
        EventKind::StateChanged { state, phase, cause } => (phase.unwrap_or(state), borrowed(cause)),
        EventKind::LinkLost { cause, .. } => ("link-lost", Some(Cow::Borrowed(cause))),
        EventKind::CatalogChanged { list, added, removed, changed } => {
            let (added, removed, changed) = (added.len(), removed.len(), changed.len());
            let text = format!("{list}: {added} added, {removed} removed, {changed} changed");
            ("catalog-changed", Some(Cow::Owned(text)))
        }
        EventKind::StaleDropped { of_generation, what } => {
            ("stale-dropped", Some(Cow::Owned(format!("{what} of generation {of_generation}"))))
        }
        EventKind::ServerAdded => ("added", None),
        EventKind::ServerReplaced => ("replaced", None),
        EventKind::ServerRemoved => ("removed", None),
        EventKind::ListFetched { list, items, .. } => {
            ("list-fetched", Some(Cow::Owned(format!("{list}: {items}"))))
        }
        EventKind::ListFailed { list, cause } => {
            ("list-failed", Some(Cow::Owned(format!("{list}: {cause}"))))
        }
        EventKind::ActorPanicked { restarted } => {
            ("actor-panicked", Some(Cow::Borrowed(if *restarted { "restarted" } else { "given up" })))
        }
        EventKind::Strikes { strikes, cause } => {
            ("strike", Some(Cow::Owned(format!("{strikes} in a row: {cause}"))))
        }
        EventKind::QueueHeld { for_ms, status } => {
            ("queue-held", Some(Cow::Owned(format!("status {status}: no calls for {for_ms} ms"))))
        }
        EventKind::SlowCall { .. } | EventKind::ResourceUpdated { .. } | EventKind::ServerLog { .. } => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_keeps_the_latest_entries_and_bounds_their_texts() {
        let (timelines, server) = (Timelines::default(), ServerName::new("s"));
        let timeline = timelines.begin(&server);
        for at in 0..100 {
            let cause = Some("x".repeat(10_000));
            let event = EventKind::StateChanged { state: "pending", phase: Some("backing-off"), cause };
            timelines.record(&server, at, 1, &event);
        }
        let entries = timeline.entries();
        assert_eq!((entries.len(), entries[0].at_ms, entries[63].at_ms), (64, 36, 99));
        assert_eq!(entries[0].event, "backing-off");
        assert_eq!(entries[0].cause.as_deref().map(|cause| cause.chars().count()), Some(301));
    }

    #[test]
    fn a_late_end_of_a_removed_server_leaves_its_successor_alone() {
        let (timelines, server) = (Timelines::default(), ServerName::new("s"));
        let old = timelines.begin(&server);
        let new = timelines.begin(&server);
        timelines.end(&server, &old);
        timelines.record(&server, 0, 1, &EventKind::ServerAdded);
        assert_eq!((old.entries().len(), new.entries().len()), (0, 1));
    }
}
