//! The notes and their limits.

use std::collections::BTreeMap;
use std::ops::Bound;

use thiserror::Error;

/// Notes at a time; more is a database.
const NOTES_MAX: usize = 1_000;

/// Longest key, in bytes.
pub(super) const KEY_BYTES_MAX: usize = 128;

/// Longest note, in bytes: a few pages of text.
pub(super) const NOTE_BYTES_MAX: usize = 16 * 1024;

/// All keys and notes together, in bytes.
const STORE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) text: String,
}

impl Note {
    /// Whether the note or its key contains the query, which is in lower case.
    pub(super) fn contains(&self, key: &str, query: &str) -> bool {
        key.to_lowercase().contains(query) || self.text.to_lowercase().contains(query)
    }
}

/// What a change of one note means for the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The first note came.
    First,
    Added,
    Replaced,
    Removed,
    /// The last note went.
    Last,
}

/// Why a note cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum StoreError {
    #[error("a key has at least one character, and none of them is a control character")]
    Key,
    #[error("there are {NOTES_MAX} notes already; forget one first")]
    TooMany,
    #[error("the notes would be over {STORE_BYTES_MAX} bytes together; forget one first")]
    TooLarge,
}

/// All notes, in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Store {
    notes: BTreeMap<String, Note>,
    bytes: usize,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Note> {
        self.notes.get(key)
    }

    /// Keeps a note, in place of the one with that key. When it fails, nothing has changed.
    pub(super) fn put(&mut self, key: &str, text: String) -> Result<Change, StoreError> {
        if key.is_empty() || key.chars().any(char::is_control) {
            return Err(StoreError::Key);
        }
        let old_bytes = self.notes.get(key).map(|note| key.len() + note.text.len());
        if old_bytes.is_none() && self.notes.len() >= NOTES_MAX {
            return Err(StoreError::TooMany);
        }
        let bytes = self.bytes - old_bytes.unwrap_or(0) + key.len() + text.len();
        if bytes > STORE_BYTES_MAX {
            return Err(StoreError::TooLarge);
        }
        self.bytes = bytes;
        self.notes.insert(key.to_owned(), Note { text });
        Ok(match (old_bytes, self.notes.len()) {
            (Some(_), _) => Change::Replaced,
            (None, 1) => Change::First,
            (None, _) => Change::Added,
        })
    }

    /// Drops a note; none where there is no such note.
    pub(super) fn remove(&mut self, key: &str) -> Option<Change> {
        let note = self.notes.remove(key)?;
        self.bytes -= key.len() + note.text.len();
        Some(if self.notes.is_empty() { Change::Last } else { Change::Removed })
    }

    /// The notes whose keys come after that one.
    pub(super) fn after(&self, key: Option<&str>) -> impl Iterator<Item = (&str, &Note)> {
        let start = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.notes.range::<str, _>((start, Bound::Unbounded)).map(|(key, note)| (key.as_str(), note))
    }

    /// The keys that start with that text.
    pub(super) fn keys(&self, prefix: &str) -> Vec<String> {
        self.notes.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_a_change_means() {
        let mut store = Store::default();
        assert_eq!(store.put("a", "1".to_owned()), Ok(Change::First));
        assert_eq!(store.put("b", "2".to_owned()), Ok(Change::Added));
        assert_eq!(store.put("a", "3".to_owned()), Ok(Change::Replaced));
        assert_eq!(store.remove("c"), None);
        assert_eq!(store.remove("a"), Some(Change::Removed));
        assert_eq!(store.remove("b"), Some(Change::Last));
        assert_eq!(store.bytes, 0);
    }

    #[test]
    fn limits_hold_and_replacing_frees() {
        let mut store = Store::default();
        assert_eq!(store.put("", String::new()), Err(StoreError::Key));
        assert_eq!(store.put("a\nb", String::new()), Err(StoreError::Key));
        for number in 0..NOTES_MAX {
            store.put(&format!("{number:04}"), String::new()).expect("there is room");
        }
        assert_eq!(store.put("one more", String::new()), Err(StoreError::TooMany));
        assert_eq!(store.put("0000", "x".repeat(STORE_BYTES_MAX)), Err(StoreError::TooLarge));
        assert_eq!(store.put("0000", "x".to_owned()), Ok(Change::Replaced));
        assert_eq!(store.bytes, NOTES_MAX * 4 + 1);
    }
}
