//! Typed, expanded reading of an entry's members.

use super::keys::{self, Applies, Key};
use super::{Kind, World};
use crate::load::expand::{EXPANDED_BYTES_MAX, ExpandError, Expanded, expand};
use crate::load::finding::{EntryError, Oddity};
use crate::load::nearest::nearest;
use crate::load::raw::{Raw, RawKind, RawMap};
use callboard_protocol::Secret;

/// The members of one entry, and what was odd about them.
pub(super) struct Fields<'a> {
    map: &'a RawMap,
    world: World<'a>,
    oddities: Vec<Oddity>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(map: &'a RawMap, world: World<'a>) -> Fields<'a> {
        Fields { map, world, oddities: Vec::new() }
    }

    pub(super) fn world(&self) -> World<'a> {
        self.world
    }

    pub(super) fn note(&mut self, oddity: Oddity) {
        if !self.oddities.contains(&oddity) {
            self.oddities.push(oddity);
        }
    }

    pub(super) fn into_oddities(self) -> Vec<Oddity> {
        self.oddities
    }

    /// True when the key is there in any spelling, and not null.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.find(key).is_some()
    }

    /// The spelling that is there, or the first.
    pub(super) fn used(&self, key: &Key) -> &'static str {
        self.find(key).map_or(key.spellings[0], |(spelling, _)| spelling)
    }

    fn find(&self, key: &Key) -> Option<(&'static str, &'a Raw)> {
        let present = |spelling: &&'static str| {
            let raw = self.map.get(*spelling).filter(|raw| raw.kind != RawKind::Null)?;
            Some((*spelling, raw))
        };
        key.spellings.iter().find_map(present)
    }

    /// Text that is a word of the format, not a value: never expanded.
    pub(super) fn plain_text(&self, key: &Key) -> Result<Option<String>, EntryError> {
        let Some((at, raw)) = self.find(key) else { return Ok(None) };
        match &raw.kind {
            RawKind::Text(text) => Ok(Some(text.clone())),
            _ => Err(wrong_type(at, "text", raw)),
        }
    }

    pub(super) fn text(&mut self, key: &Key) -> Result<Option<Expanded>, EntryError> {
        let Some((at, raw)) = self.find(key) else { return Ok(None) };
        self.expanded(at, raw).map(Some)
    }

    pub(super) fn texts(&mut self, key: &Key) -> Result<Vec<Expanded>, EntryError> {
        let Some((at, raw)) = self.find(key) else { return Ok(Vec::new()) };
        match &raw.kind {
            RawKind::List(items) => self.list(at, items),
            _ => Err(wrong_type(at, "a list of texts", raw)),
        }
    }

    /// A single text or a list of them.
    pub(super) fn text_or_texts(&mut self, key: &Key) -> Result<Vec<Expanded>, EntryError> {
        let Some((at, raw)) = self.find(key) else { return Ok(Vec::new()) };
        match &raw.kind {
            RawKind::List(items) => self.list(at, items),
            RawKind::Text(_) => Ok(vec![self.expanded(at, raw)?]),
            _ => Err(wrong_type(at, "text or a list of texts", raw)),
        }
    }

    fn list(&mut self, at: &str, items: &[Raw]) -> Result<Vec<Expanded>, EntryError> {
        items.iter().enumerate().map(|(index, item)| self.expanded(&format!("{at}[{index}]"), item)).collect()
    }

    /// An object of texts, each a secret, in the order of the file.
    pub(super) fn secrets(&mut self, key: &Key) -> Result<Vec<(String, Secret)>, EntryError> {
        let Some((at, raw)) = self.find(key) else { return Ok(Vec::new()) };
        let Some(map) = raw.as_map() else {
            return Err(wrong_type(at, "an object of texts", raw));
        };
        map.iter()
            .map(|(name, value)| {
                let expanded = self.expanded(&format!("{at}.{name}"), value)?;
                Ok((name.clone(), Secret::new(expanded.text)))
            })
            .collect()
    }

    pub(super) fn truth(&self, key: &Key) -> Result<Option<bool>, EntryError> {
        let Some((at, raw)) = self.find(key) else { return Ok(None) };
        match raw.kind {
            RawKind::Bool(truth) => Ok(Some(truth)),
            _ => Err(wrong_type(at, "true or false", raw)),
        }
    }

    /// A whole number of at least 1.
    pub(super) fn count(&self, key: &Key) -> Result<Option<u64>, EntryError> {
        let Some((at, raw)) = self.find(key) else { return Ok(None) };
        let number = match &raw.kind {
            RawKind::Number(text) => text.parse().ok().filter(|number: &u64| *number > 0),
            _ => None,
        };
        match (number, &raw.kind) {
            (Some(number), _) => Ok(Some(number)),
            (None, RawKind::Number(_)) => Err(EntryError::WrongType {
                at: at.to_owned(),
                expected: "a whole number of at least 1",
                found: "another number",
            }),
            (None, _) => Err(wrong_type(at, "a whole number of at least 1", raw)),
        }
    }

    fn expanded(&mut self, at: &str, raw: &Raw) -> Result<Expanded, EntryError> {
        let RawKind::Text(text) = &raw.kind else { return Err(wrong_type(at, "text", raw)) };
        if text.trim() != text {
            self.note(Oddity::SurroundingSpace { at: at.to_owned() });
        }
        let at = at.to_owned();
        let expanded = expand(text, self.world.env).map_err(|error| match error {
            ExpandError::Unset(name) => EntryError::UnsetVariable { at: at.clone(), name },
            ExpandError::Secret(key) => EntryError::NeedsValue { at: at.clone(), key },
            ExpandError::TooLong => EntryError::TooLong { at: at.clone(), bytes_max: EXPANDED_BYTES_MAX },
        })?;
        for reference in &expanded.literal {
            self.note(Oddity::LiteralReference { at: at.clone(), reference: reference.clone() });
        }
        Ok(expanded)
    }

    /// Notes every member that does not count, and why.
    pub(super) fn note_unknown(&mut self, kind: Kind) {
        let map = self.map;
        for (name, raw) in map.iter().filter(|(_, raw)| raw.kind != RawKind::Null) {
            if let Some(oddity) = self.unknown(name, raw, kind) {
                self.note(oddity);
            }
        }
    }

    fn unknown(&self, name: &str, raw: &Raw, kind: Kind) -> Option<Oddity> {
        let own = name.to_owned();
        if let Some(key) = keys::ALL.iter().find(|key| key.spellings.contains(&name)) {
            let used = self.used(key);
            return match (key.applies, kind) {
                _ if used != name => Some(Oddity::Beside { key: own, used }),
                (Applies::Ide, Kind::Remote(kind)) if kind.is_ide() => None,
                (Applies::Stdio | Applies::Ide, Kind::Remote(_)) => {
                    Some(Oddity::OtherTransport { key: own, to: "a remote server" })
                }
                (Applies::Remote | Applies::Ide, Kind::Stdio) => {
                    Some(Oddity::OtherTransport { key: own, to: "a local program" })
                }
                (Applies::Stdio | Applies::Remote | Applies::Ide, Kind::InProcess) => {
                    Some(Oddity::OtherTransport { key: own, to: "a server of the host" })
                }
                (Applies::Always, _) | (Applies::Stdio, Kind::Stdio) | (Applies::Remote, Kind::Remote(_)) => {
                    None
                }
            };
        }
        if keys::KEPT.contains(&name) || name.starts_with("x-") || name.starts_with(['$', '_', '/', '#']) {
            return None;
        }
        // `tools: ["*"]` is all of them, which is what happens anyway.
        let is_all =
            matches!(&raw.kind, RawKind::List(items) if items.len() == 1 && items[0].as_text() == Some("*"));
        match keys::NOT_APPLIED.contains(&name) {
            true if name == "tools" && is_all => None,
            true => Some(Oddity::NotApplied { key: own }),
            false => {
                let known = keys::ALL.iter().flat_map(|key| key.spellings.iter().copied());
                Some(Oddity::UnknownKey { key: own, nearest: nearest(name, known).map(str::to_owned) })
            }
        }
    }
}

fn wrong_type(at: &str, expected: &'static str, raw: &Raw) -> EntryError {
    EntryError::WrongType { at: at.to_owned(), expected, found: raw.type_name() }
}
