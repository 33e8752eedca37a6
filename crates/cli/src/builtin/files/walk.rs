//! Goes through the files below a directory in the order of their paths, within limits.

use std::fs;
use std::path::{Path, PathBuf};

/// Entries that one walk looks at; a larger tree is shown in part.
const ENTRIES_MAX: usize = 50_000;

/// Directories inside of each other.
const DEPTH_MAX: usize = 32;

/// A regular file on the way.
pub(super) struct Found {
    /// Relative to where the served directory is, with `/` between the names.
    pub(super) shown: String,
    pub(super) bytes: u64,
}

/// A walk over the files that are not hidden. Links are not followed, what cannot be read is left out.
pub(super) struct Walk {
    root: PathBuf,
    /// Entries still to look at, the next one last.
    waiting: Vec<Entry>,
    looked_at: usize,
    after: Option<PathBuf>,
}

struct Entry {
    shown: String,
    depth: usize,
}

impl Walk {
    /// Walks below `shown`, a directory within `root`, over the files after that path.
    pub(super) fn new(root: &Path, shown: &str, after: Option<&str>) -> Self {
        let mut walk = Self {
            root: root.to_owned(),
            waiting: Vec::new(),
            looked_at: 0,
            after: after.map(PathBuf::from),
        };
        walk.enter(shown, 0);
        walk
    }

    /// Whether the limit cut the walk short.
    pub(super) fn is_cut(&self) -> bool {
        self.looked_at >= ENTRIES_MAX
    }

    fn enter(&mut self, shown: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        let Ok(entries) = fs::read_dir(self.root.join(shown)) else { return };
        let mut names: Vec<String> = entries
            .flatten()
            .take(ENTRIES_MAX)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_unstable_by(|one, other| other.cmp(one));
        let prefix = if shown.is_empty() { String::new() } else { format!("{shown}/") };
        let entries = names.into_iter().map(|name| Entry { shown: format!("{prefix}{name}"), depth });
        self.waiting.extend(entries);
    }

    /// Whether all that this path can lead to was on an earlier page.
    fn is_before_start(&self, shown: &str, is_directory: bool) -> bool {
        self.after.as_deref().is_some_and(|after| {
            let path = Path::new(shown);
            path <= after && !(is_directory && after.starts_with(path))
        })
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        while !self.is_cut() {
            let entry = self.waiting.pop()?;
            self.looked_at += 1;
            let Ok(metadata) = fs::symlink_metadata(self.root.join(&entry.shown)) else { continue };
            if self.is_before_start(&entry.shown, metadata.is_dir()) {
                continue;
            }
            if metadata.is_dir() {
                self.enter(&entry.shown, entry.depth + 1);
            } else if metadata.is_file() {
                return Some(Found { shown: entry.shown, bytes: metadata.len() });
            }
        }
        None
    }
}
