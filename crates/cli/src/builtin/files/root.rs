//! The directory that the `files` server stays in. Every way to a file goes through here.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use thiserror::Error;
use url::Url;

/// Why a path leads to nothing that may be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(super) enum PathError {
    /// The path, or a link on it, leaves the directory.
    #[error("{path} is outside of the served directory")]
    Outside { path: String },
    #[error("there is no {path}")]
    NotFound { path: String },
    #[error("{path} is {what}")]
    Kind { path: String, what: &'static str },
    #[error("cannot read {path}: {kind}")]
    Io { path: String, kind: io::ErrorKind },
}

impl PathError {
    fn io(path: &str, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound { path },
            kind => Self::Io { path, kind },
        }
    }
}

/// The served directory, its path free of links.
#[derive(Clone, Debug)]
pub(super) struct Root {
    directory: PathBuf,
}

/// Something inside of the served directory that exists.
#[derive(Debug)]
pub(super) struct Inside {
    /// Where it is, free of links.
    pub(super) path: PathBuf,
    /// Where it was said to be, relative to the directory, with `/` between the names; empty for itself.
    pub(super) shown: String,
    pub(super) metadata: Metadata,
}

impl Root {
    /// Fails when there is no such directory.
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let directory = fs::canonicalize(directory)?;
        fs::read_dir(&directory)?;
        Ok(Self { directory })
    }

    /// Where the directory is, free of links.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The URI of the directory, which ends in `/`.
    pub(super) fn uri(&self) -> String {
        // The path is absolute, since it is canonical, and so it has a URL.
        Url::from_directory_path(&self.directory).map(String::from).unwrap_or_default()
    }

    /// The URI of a path relative to the directory.
    pub(super) fn uri_of(&self, shown: &str) -> String {
        let url = Url::from_file_path(self.directory.join(shown));
        url.map(String::from).unwrap_or_default()
    }

    /// The path relative to the directory that a `file` URI stands for. It need not exist.
    pub(super) fn shown_of(&self, uri: &str) -> Option<String> {
        let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?;
        let path = url.to_file_path().ok()?;
        shown(path.strip_prefix(&self.directory).ok()?)
    }

    /// Finds what a relative path leads to. Links are followed as far as they stay inside.
    pub(super) fn find(&self, path: &str) -> Result<Inside, PathError> {
        let outside = || PathError::Outside { path: path.to_owned() };
        if path.contains('\0') {
            return Err(PathError::NotFound { path: path.to_owned() });
        }
        let shown = shown(Path::new(path)).ok_or_else(outside)?;
        let joined = self.directory.join(&shown);
        let found = fs::canonicalize(joined).map_err(|error| PathError::io(path, &error))?;
        if !found.starts_with(&self.directory) {
            return Err(outside());
        }
        let metadata = fs::symlink_metadata(&found).map_err(|error| PathError::io(path, &error))?;
        Ok(Inside { path: found, shown, metadata })
    }

    /// Opens the regular file that a relative path leads to. What is swapped for something else between
    /// the check and the opening is refused, and a pipe or device is never opened for long.
    pub(super) fn open(&self, path: &str) -> Result<(Inside, File), PathError> {
        let inside = self.find(path)?;
        check_regular(path, &inside.metadata)?;
        let file = open_unfollowed(&inside.path).map_err(|error| PathError::io(path, &error))?;
        let opened = file.metadata().map_err(|error| PathError::io(path, &error))?;
        check_regular(path, &opened)?;
        if !is_same(&inside.metadata, &opened) {
            return Err(PathError::Kind { path: path.to_owned(), what: "changing under the reader" });
        }
        Ok((inside, file))
    }

    /// Size and time of modification, where the path leads to something inside.
    pub(super) fn fingerprint(&self, path: &str) -> Option<(u64, Option<SystemTime>)> {
        self.find(path).ok().map(|inside| (inside.metadata.len(), inside.metadata.modified().ok()))
    }
}

/// Reads up to `bytes_max` bytes from an offset.
pub(super) fn read_part(file: &mut File, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The names of a relative path with `/` between them; none where it is absolute, goes up, or is no text.
fn shown(path: &Path) -> Option<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_str()?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(names.join("/"))
}

fn check_regular(path: &str, metadata: &Metadata) -> Result<(), PathError> {
    let what = match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => return Ok(()),
        (false, true) => "a directory",
        (false, false) => "not a regular file",
    };
    Err(PathError::Kind { path: path.to_owned(), what })
}

#[cfg(unix)]
fn open_unfollowed(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

#[cfg(not(unix))]
fn open_unfollowed(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same(_one: &Metadata, other: &Metadata) -> bool {
    other.is_file()
}
