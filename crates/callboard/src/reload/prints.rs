//! What tells one state of a file from another without reading it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The state of each of several files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prints(BTreeMap<PathBuf, Option<Print>>);

/// The state of one file; a link counts as what it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Print {
    modified: Option<SystemTime>,
    bytes: u64,
    /// Device, number and time of the last change, where the system has them: a file that was put in the place of
    /// another may have its age and length.
    identity: (u64, u64, i64, i64),
}

impl Prints {
    /// The files as they are now. Blocks on file IO.
    pub(super) fn of(paths: impl IntoIterator<Item = PathBuf>) -> Prints {
        Prints(paths.into_iter().map(|path| (path.clone(), print(&path))).collect())
    }

    /// Which files these are.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.0.keys().cloned().collect()
    }
}

/// None for a file that cannot be seen.
fn print(path: &Path) -> Option<Print> {
    let about = path.metadata().ok()?;
    Some(Print { modified: about.modified().ok(), bytes: about.len(), identity: identity(&about) })
}

#[cfg(unix)]
fn identity(about: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (about.dev(), about.ino(), about.ctime(), about.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_about: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    (0, 0, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_same_length_in_the_place_of_another_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, next) = (folder.path().join("a.json"), folder.path().join("a.json.new"));
        let paths = || vec![file.clone(), folder.path().join("absent.json")];
        let absent = Prints::of(paths());
        std::fs::write(&file, "{1}").expect("writes");
        let one = Prints::of(paths());
        assert_ne!(absent, one);
        assert_eq!(one, Prints::of(paths()));
        std::fs::write(&next, "{2}").expect("writes");
        std::fs::rename(&next, &file).expect("moves");
        assert_ne!(one, Prints::of(paths()));
    }
}
