//! Everything that happens, as lines of text folded into one digest.

use std::fmt::{Arguments, Write};

/// FNV-1a with 128 bits (draft-eastlake-fnv): enough to tell runs apart, and quick.
const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// Takes the lines of a trace as they come.
pub type LineSink = Box<dyn FnMut(&str) + Send>;

/// The digest of what has happened so far.
pub(crate) struct Trace {
    digest: u128,
    lines: u64,
    line: String,
    sink: Option<LineSink>,
}

impl Trace {
    pub(crate) fn new(sink: Option<LineSink>) -> Trace {
        Trace { digest: OFFSET, lines: 0, line: String::with_capacity(128), sink }
    }

    /// Takes one line in, with the moment it happened at.
    pub(crate) fn note(&mut self, at_ms: u64, what: Arguments<'_>) {
        self.line.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.line, "{at_ms} {what}");
        for byte in self.line.bytes().chain([b'\n']) {
            self.digest = (self.digest ^ u128::from(byte)).wrapping_mul(PRIME);
        }
        self.lines += 1;
        if let Some(sink) = &mut self.sink {
            sink(&self.line);
        }
    }

    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    pub(crate) fn hash(&self) -> String {
        format!("{:032x}", self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_tells_lines_and_their_order_apart() {
        let hash = |lines: &[&str]| {
            let mut trace = Trace::new(None);
            for line in lines {
                trace.note(1, format_args!("{line}"));
            }
            trace.hash()
        };
        assert_eq!(hash(&["a", "b"]), hash(&["a", "b"]));
        assert_ne!(hash(&["a", "b"]), hash(&["b", "a"]));
        assert_ne!(hash(&["ab"]), hash(&["a", "b"]));
    }
}
