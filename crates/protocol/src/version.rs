//! Protocol revisions and the two eras they fall into.

use std::fmt;
use std::str::FromStr;

/// How a peer is spoken to: with a handshake and a session, or request by request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: `initialize`, sessions, requests of the server.
    Legacy,
    /// 2026-07-28: per-request metadata, no handshake.
    Modern,
}

impl Era {
    /// `legacy` or `modern`, as in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

/// A released revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProtocolVersion {
    /// 2024-11-05.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25.
    V2025_11_25,
    /// 2026-07-28.
    V2026_07_28,
}

impl ProtocolVersion {
    /// Every revision, oldest first.
    pub const ALL: [ProtocolVersion; 5] = [
        ProtocolVersion::V2024_11_05,
        ProtocolVersion::V2025_03_26,
        ProtocolVersion::V2025_06_18,
        ProtocolVersion::V2025_11_25,
        ProtocolVersion::V2026_07_28,
    ];
    /// What a legacy handshake offers first.
    pub const LEGACY_NEWEST: ProtocolVersion = ProtocolVersion::V2025_11_25;
    /// What a modern request speaks.
    pub const MODERN_NEWEST: ProtocolVersion = ProtocolVersion::V2026_07_28;

    /// The date that names the revision on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ProtocolVersion::V2024_11_05 => "2024-11-05",
            ProtocolVersion::V2025_03_26 => "2025-03-26",
            ProtocolVersion::V2025_06_18 => "2025-06-18",
            ProtocolVersion::V2025_11_25 => "2025-11-25",
            ProtocolVersion::V2026_07_28 => "2026-07-28",
        }
    }

    /// Which era the revision belongs to.
    pub fn era(self) -> Era {
        match self {
            ProtocolVersion::V2024_11_05
            | ProtocolVersion::V2025_03_26
            | ProtocolVersion::V2025_06_18
            | ProtocolVersion::V2025_11_25 => Era::Legacy,
            ProtocolVersion::V2026_07_28 => Era::Modern,
        }
    }

    /// The newest modern revision in a peer's list that is spoken here.
    pub fn newest_modern_of<S: AsRef<str>>(offered: &[S]) -> Option<ProtocolVersion> {
        newest(offered, Era::Modern)
    }

    /// The newest legacy revision in a peer's list that is spoken here.
    pub fn newest_legacy_of<S: AsRef<str>>(offered: &[S]) -> Option<ProtocolVersion> {
        newest(offered, Era::Legacy)
    }

    /// The revision before this one, within its era.
    pub fn older(self) -> Option<ProtocolVersion> {
        ProtocolVersion::ALL.into_iter().rev().find(|v| *v < self && v.era() == self.era())
    }

    /// True for a text that has the form of a revision later than every one known here.
    pub fn is_later_than_known(text: &str) -> bool {
        let dated = text.len() == 10
            && text.bytes().enumerate().all(|(i, b)| match i {
                4 | 7 => b == b'-',
                _ => b.is_ascii_digit(),
            });
        dated && text > ProtocolVersion::MODERN_NEWEST.as_str()
    }
}

fn newest<S: AsRef<str>>(offered: &[S], era: Era) -> Option<ProtocolVersion> {
    let spoken = offered.iter().filter_map(|v| v.as_ref().parse::<ProtocolVersion>().ok());
    spoken.filter(|v| v.era() == era).max()
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no released revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol version {0:?}")]
pub struct UnknownVersion(pub String);

impl FromStr for ProtocolVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<ProtocolVersion, UnknownVersion> {
        let known = ProtocolVersion::ALL.into_iter().find(|v| v.as_str() == text);
        known.ok_or_else(|| UnknownVersion(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choosing() {
        assert_eq!(
            ProtocolVersion::newest_legacy_of(&["2024-11-05", "2025-06-18", "2026-07-28"]),
            Some(ProtocolVersion::V2025_06_18)
        );
        assert_eq!(ProtocolVersion::newest_modern_of(&["2025-06-18", "2030-01-01"]), None);
        assert_eq!(ProtocolVersion::V2024_11_05.older(), None);
        assert_eq!(ProtocolVersion::V2025_11_25.older(), Some(ProtocolVersion::V2025_06_18));
        assert!(ProtocolVersion::is_later_than_known("2027-01-01"));
        assert!(
            !ProtocolVersion::is_later_than_known("1999-01-01")
                && !ProtocolVersion::is_later_than_known("v9")
        );
    }
}
