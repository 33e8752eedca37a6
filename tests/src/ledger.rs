//! What servers performed, in one file that all their processes append to: the witness against whatever a client
//! claims of its calls.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Number of the server and number of the call, both in little-endian order. So short a write is never torn.
const ENTRY_BYTES: usize = 12;

/// One process's way to the file.
#[derive(Debug)]
pub struct Ledger(File);

/// One call that was performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The call.
    pub call: u64,
    /// Which server performed it.
    pub server: u32,
}

impl Ledger {
    /// Opens the file, which is made when it is not there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(path: &Path) -> io::Result<Ledger> {
        OpenOptions::new().create(true).append(true).open(path).map(Ledger)
    }

    /// Tells that a server performs a call. The call counts from here on, whatever becomes of its answer.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn performs(&self, entry: Entry) -> io::Result<()> {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(&entry.server.to_le_bytes());
        bytes[4..].copy_from_slice(&entry.call.to_le_bytes());
        (&self.0).write_all(&bytes)
    }
}

/// Everything that was told, as it came.
///
/// # Errors
/// Those of the file system, and a file that is cut.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let bytes = std::fs::read(path)?;
    let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the ledger is cut"));
    }
    let read = |entry: &[u8; ENTRY_BYTES]| {
        let [a, b, c, d, call @ ..] = *entry;
        Entry { call: u64::from_le_bytes(call), server: u32::from_le_bytes([a, b, c, d]) }
    };
    Ok(entries.iter().map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_lose_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger");
        let (one, two) = (Ledger::open(&path).expect("opens"), Ledger::open(&path).expect("opens"));
        let entries = [Entry { call: u64::MAX, server: 7 }, Entry { call: 1, server: 0 }];
        one.performs(entries[0]).expect("writes");
        two.performs(entries[1]).expect("writes");
        assert_eq!(read(&path).expect("reads"), entries);
        std::fs::write(&path, [0; ENTRY_BYTES + 1]).expect("writes");
        assert!(read(&path).is_err());
    }
}
