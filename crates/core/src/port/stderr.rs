//! What children write to stderr, handed on line by line to whoever follows it. Nobody who writes ever waits for
//! one who reads.

use super::Generation;
use std::sync::{Arc, OnceLock};
use tokio::sync::broadcast;

/// Lines that a slow follower may lag behind; older ones are lost to it, and it is told how many.
const LINES_MAX: usize = 1_024;
/// Longest line, in bytes; what is longer comes in pieces.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// A line that a child wrote to stderr. Text of a server is data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StderrLine {
    /// Which connection's child wrote it.
    pub generation: Generation,
    /// The line, without its end; at most 8 KiB of what was written.
    pub text: Arc<str>,
}

/// Where the children of one server, one after another, leave their lines. Costs nothing unless somebody follows.
#[derive(Debug, Clone, Default)]
pub struct StderrFeed(Arc<OnceLock<broadcast::Sender<StderrLine>>>);

impl StderrFeed {
    /// Every line from now on, of the child at hand and of those that come after it.
    pub fn follow(&self) -> broadcast::Receiver<StderrLine> {
        self.0.get_or_init(|| broadcast::channel(LINES_MAX).0).subscribe()
    }

    /// What cuts the text of one child into lines for this feed.
    pub fn writer(&self, generation: Generation) -> StderrWriter {
        StderrWriter { feed: self.clone(), generation, begun: Vec::new() }
    }
}

/// Cuts the text of one child into lines, and hands on the last one when it is dropped.
#[derive(Debug)]
pub struct StderrWriter {
    feed: StderrFeed,
    generation: Generation,
    begun: Vec<u8>,
}

impl StderrWriter {
    /// Takes the next piece of text. A carriage return ends a line too, since progress is drawn with it; empty
    /// lines are left out.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if self.feed.0.get().is_none_or(|sender| sender.receiver_count() == 0) {
            // A line of which the beginning was not followed is not told in half.
            return self.begun.clear();
        }
        while !bytes.is_empty() {
            let room = LINE_BYTES_MAX - self.begun.len();
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let taken = end.unwrap_or(bytes.len()).min(room);
            self.begun.extend_from_slice(&bytes[..taken]);
            let is_at_end = end == Some(taken);
            if is_at_end || taken == room {
                self.hand_on();
            }
            bytes = &bytes[taken + usize::from(is_at_end)..];
        }
    }

    fn hand_on(&mut self) {
        if let Some(sender) = self.feed.0.get().filter(|_| !self.begun.is_empty()) {
            let text = String::from_utf8_lossy(&self.begun).into();
            // Nobody may follow any more, which is fine.
            let _ = sender.send(StderrLine { generation: self.generation, text });
        }
        self.begun.clear();
    }
}

impl Drop for StderrWriter {
    fn drop(&mut self) {
        self.hand_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(pieces: &[&str]) -> Vec<String> {
        let feed = StderrFeed::default();
        let mut lines = feed.follow();
        let mut writer = feed.writer(Generation(1));
        pieces.iter().for_each(|piece| writer.push(piece.as_bytes()));
        drop(writer);
        std::iter::from_fn(|| lines.try_recv().ok()).map(|line| line.text.to_string()).collect()
    }

    #[test]
    fn lines_are_put_together_and_the_last_one_needs_no_end() {
        for (pieces, expected) in [
            (vec!["one\ntw", "o\n", "three"], vec!["one", "two", "three"]),
            (vec!["a\r\nb\r", "\nc\n\n"], vec!["a", "b", "c"]),
            (vec![" 1 %\r 2 %\r"], vec![" 1 %", " 2 %"]),
            (vec!["", "\n"], vec![]),
        ] {
            assert_eq!(followed(&pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_line_without_end_comes_in_pieces() {
        let lines = followed(&["x".repeat(2 * LINE_BYTES_MAX).as_str(), "yz\n"]);
        let lengths: Vec<usize> = lines.iter().map(String::len).collect();
        assert_eq!(lengths, [LINE_BYTES_MAX, LINE_BYTES_MAX, 2]);
    }

    #[test]
    fn a_slow_follower_is_told_what_it_lost() {
        let feed = StderrFeed::default();
        let mut lines = feed.follow();
        let mut writer = feed.writer(Generation(1));
        for _ in 0..LINES_MAX + 7 {
            writer.push(b"x\n");
        }
        assert!(matches!(lines.try_recv(), Err(broadcast::error::TryRecvError::Lagged(7))));
    }

    #[test]
    fn nothing_is_kept_while_nobody_follows() {
        let feed = StderrFeed::default();
        let mut writer = feed.writer(Generation(1));
        writer.push(b"half a");
        assert!(feed.0.get().is_none() && writer.begun.is_empty());
        let mut lines = feed.follow();
        writer.push(b"whole\n");
        assert_eq!(&*lines.try_recv().expect("a line").text, "whole");
    }
}
