//! Splits a byte stream into lines, within a limit.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest line that is taken, in bytes; a note, a path or a query is far below it.
pub(super) const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a fresh buffer holds, in bytes: a pipe's atomic write and then some.
const BUFFER_BYTES: usize = 8 * 1024;

/// What comes next on the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its end, never blank.
    Text(Vec<u8>),
    /// A line over [`LINE_BYTES_MAX`] began here; the rest of it is skipped.
    TooLong,
    /// The stream ended or broke.
    End,
}

/// Reads lines. Dropping a pending [`Lines::next`] loses nothing.
pub(super) struct Lines<R> {
    read: R,
    buffer: Vec<u8>,
    /// Bytes of the buffer that hold no line end.
    searched: usize,
    skipping: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(read: R) -> Self {
        Self { read, buffer: Vec::with_capacity(BUFFER_BYTES), searched: 0, skipping: false, ended: false }
    }

    /// The next line that is not blank. A last line without an end counts.
    pub(super) async fn next(&mut self) -> Line {
        loop {
            while let Some(line) = self.take() {
                if let Some(line) = self.accept(line) {
                    return line;
                }
            }
            if self.ended {
                return Line::End;
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                self.buffer.clear();
                self.searched = 0;
                if !std::mem::replace(&mut self.skipping, true) {
                    return Line::TooLong;
                }
            }
            self.buffer.reserve(BUFFER_BYTES);
            self.ended = !matches!(self.read.read_buf(&mut self.buffer).await, Ok(1..));
        }
    }

    /// Takes a whole line, or at the end of the stream what is left, out of the buffer.
    fn take(&mut self) -> Option<Vec<u8>> {
        let end = memchr::memchr(b'\n', &self.buffer[self.searched..]).map(|at| self.searched + at + 1);
        self.searched = self.buffer.len();
        let end = end.or((self.ended && !self.buffer.is_empty()).then_some(self.buffer.len()))?;
        let rest = self.buffer.split_off(end);
        self.searched = 0;
        Some(std::mem::replace(&mut self.buffer, rest))
    }

    fn accept(&mut self, line: Vec<u8>) -> Option<Line> {
        if std::mem::take(&mut self.skipping) || line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        Some(if line.len() > LINE_BYTES_MAX + 1 { Line::TooLong } else { Line::Text(line) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(input: Vec<u8>) -> Vec<Line> {
        let mut lines = Lines::new(std::io::Cursor::new(input));
        let mut found = Vec::new();
        loop {
            match lines.next().await {
                Line::End => return found,
                line => found.push(line),
            }
        }
    }

    #[tokio::test]
    async fn splits_and_skips_blank_lines() {
        let found = lines_of(b"one\n\r\n\ntwo\r\nthree".to_vec()).await;
        let expected = ["one\n", "two\r\n", "three"].map(|text| Line::Text(text.as_bytes().to_vec()));
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn a_long_line_costs_only_itself() {
        let mut input = vec![b'x'; LINE_BYTES_MAX * 3];
        input.extend_from_slice(b"\nnext\n");
        assert_eq!(lines_of(input).await, [Line::TooLong, Line::Text(b"next\n".to_vec())]);
    }
}
