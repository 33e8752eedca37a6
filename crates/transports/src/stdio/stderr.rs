//! What a child writes to stderr: drained from the start, and only the end of it kept.

use callboard_core::port::StderrWriter;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// What one read of stderr brings at most, in bytes; lives on the stack of a poll.
const READ_BYTES: usize = 4 * 1024;

/// The last bytes of a text, at most `bytes_max`.
pub(super) struct StderrTail {
    ring: Mutex<VecDeque<u8>>,
    bytes_max: usize,
}

impl StderrTail {
    pub(super) fn new(bytes_max: usize) -> StderrTail {
        StderrTail { ring: Mutex::default(), bytes_max }
    }

    /// The last `bytes_max` bytes, without a character that was cut, as text.
    pub(super) fn tail(&self, bytes_max: usize) -> String {
        let mut ring = self.ring.lock();
        let start = ring.len().saturating_sub(bytes_max);
        let tail = &ring.make_contiguous()[start..];
        let is_cut = |byte: &u8| start > 0 && (byte & 0b1100_0000) == 0b1000_0000;
        // A character has at most three continuation bytes; more of them are no UTF-8 anyway.
        let skipped = tail.iter().take(3).take_while(|byte| is_cut(byte)).count();
        String::from_utf8_lossy(&tail[skipped..]).into_owned()
    }

    fn push(&self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.bytes_max)..];
        let mut ring = self.ring.lock();
        let excess = (ring.len() + bytes.len()).saturating_sub(self.bytes_max);
        ring.drain(..excess);
        if ring.capacity() - ring.len() < bytes.len() {
            // Doubles, but never beyond the bound.
            let wanted = (2 * ring.len()).clamp(bytes.len() + ring.len(), self.bytes_max);
            let more = wanted - ring.len();
            ring.reserve_exact(more);
        }
        ring.extend(bytes);
    }
}

/// Reads `pipe` to its end.
pub(super) async fn drain(mut pipe: impl AsyncRead + Unpin, tail: Arc<StderrTail>, mut lines: StderrWriter) {
    let mut read = poll_fn(|cx| {
        let mut bytes = [0; READ_BYTES];
        let mut space = ReadBuf::new(&mut bytes);
        let outcome = ready!(Pin::new(&mut pipe).poll_read(cx, &mut space));
        tail.push(space.filled());
        lines.push(space.filled());
        Poll::Ready(outcome.is_ok() && !space.filled().is_empty())
    });
    while (&mut read).await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_dropped() {
        let tail = StderrTail::new(8);
        for (text, expected) in
            [("abc", "abc"), ("defgh", "abcdefgh"), ("ij", "cdefghij"), ("0123456789", "23456789")]
        {
            tail.push(text.as_bytes());
            assert_eq!(tail.tail(100), expected);
        }
        assert_eq!(tail.tail(3), "789");
        assert_eq!(tail.tail(0), "");
    }

    #[test]
    fn a_character_is_not_cut() {
        let tail = StderrTail::new(100);
        tail.push("aé€".as_bytes());
        for (bytes_max, expected) in [(1, ""), (2, ""), (3, "€"), (4, "€"), (5, "é€"), (6, "aé€")] {
            assert_eq!(tail.tail(bytes_max), expected, "{bytes_max}");
        }
    }
}
