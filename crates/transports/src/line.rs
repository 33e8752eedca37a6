//! Takes newline-delimited JSON-RPC apart, incrementally and within a bound.

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use callboard_core::port::InFrame;
use callboard_protocol::{Decoded, Frame, Malformed, decode, decode_copied, recover_id};

/// What one read may bring at most, in bytes: four times what a pipe holds, so that the bound of a line is
/// passed by little before it is noticed.
const READ_BYTES_MAX: usize = 256 * 1024;

/// The read buffer of an idle link, in bytes: what a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// The least room for a read, in bytes; with less, a longer line would come in crumbs.
const READ_BYTES_MIN: usize = 4 * 1024;

/// How much of what a long line has so far is made room for: with what is there, four times as much.
const GROWTH: usize = 3;

/// From this length on, in bytes, a line is cheaper to share with the read buffer than to copy (measured in
/// the bench sketches).
const SHARED_BYTES_MIN: usize = 16 * 1024;

/// Splits bytes into lines and lines into frames. Never waits, never reads.
///
/// Lines end with LF; a CR before it, empty lines and a byte order mark are tolerated. A line over the limit
/// is reported as soon as the limit is passed and discarded up to its end; text that is no message is reported
/// and skipped. Neither ends the stream.
pub(crate) struct LineDecoder {
    buffer: BytesMut,
    /// The start of `buffer` that is known to hold no LF, in bytes.
    scanned: usize,
    limit: usize,
    is_discarding: bool,
    batch: std::vec::IntoIter<Result<Frame, Malformed>>,
}

impl LineDecoder {
    /// A decoder of lines of at most `frame_bytes_max` bytes, line ends not counted.
    pub(crate) fn new(frame_bytes_max: usize) -> LineDecoder {
        LineDecoder {
            buffer: BytesMut::new(),
            scanned: 0,
            limit: frame_bytes_max,
            is_discarding: false,
            batch: Vec::new().into_iter(),
        }
    }

    /// Room for the next read.
    pub(crate) fn space(&mut self) -> Limit<&mut BytesMut> {
        let length = self.buffer.len();
        if length == 0 {
            self.buffer.reserve(READ_BYTES);
        } else if self.buffer.capacity() - length < READ_BYTES_MIN {
            // Growing in large steps keeps the copying of a long line low, and room that is not used costs only
            // addresses. No more than the rest of the longest line is asked for.
            let rest = self.limit.saturating_sub(length);
            self.buffer.reserve((GROWTH * length).min(rest).max(READ_BYTES));
        }
        (&mut self.buffer).limit(READ_BYTES_MAX)
    }

    /// The next frame that is there as a whole.
    pub(crate) fn next_frame(&mut self) -> Option<InFrame> {
        loop {
            if let Some(item) = self.batch.next() {
                return Some(in_frame(item));
            }
            let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                return self.unfinished();
            };
            let length = self.scanned + at;
            self.scanned = 0;
            if let Some(frame) = self.line(length) {
                return Some(frame);
            }
        }
    }

    /// At the end of the stream: a last line that is whole but for its line end. What was cut is dropped, since
    /// the reason of the end tells its caller more than bad JSON would.
    pub(crate) fn finish(&mut self) -> Option<InFrame> {
        if let Some(item) = self.batch.next() {
            return Some(in_frame(item));
        }
        if std::mem::take(&mut self.is_discarding) {
            self.buffer.clear();
        }
        self.scanned = 0;
        match decode(&std::mem::take(&mut self.buffer).freeze()) {
            Decoded::One(frame) => Some(InFrame::Frame(frame)),
            Decoded::Batch(items) => {
                self.batch = items.into_iter();
                self.batch.next().map(in_frame)
            }
            Decoded::Malformed(_) => None,
        }
    }

    /// Consumes the line of `length` bytes at the start of the buffer.
    fn line(&mut self, length: usize) -> Option<InFrame> {
        let content = without_cr(&self.buffer[..length]).len();
        if std::mem::take(&mut self.is_discarding) {
            self.buffer.advance(length + 1);
            return None;
        }
        if content > self.limit {
            let report = self.too_large();
            self.buffer.advance(length + 1);
            return Some(report);
        }
        if self.buffer[..content].trim_ascii_start().is_empty() {
            self.buffer.advance(length + 1);
            return None;
        }
        let decoded = match length < SHARED_BYTES_MIN {
            true => {
                let decoded = decode_copied(&self.buffer[..content]);
                self.buffer.advance(length + 1);
                decoded
            }
            false => decode(&self.take(length, content)),
        };
        match decoded {
            Decoded::One(frame) => Some(InFrame::Frame(frame)),
            Decoded::Malformed(malformed) => Some(InFrame::Malformed(malformed)),
            Decoded::Batch(items) => {
                self.batch = items.into_iter();
                None
            }
        }
    }

    /// Takes a long line out of the buffer, memory and all.
    fn take(&mut self, length: usize, content: usize) -> Bytes {
        let mut line = self.buffer.split_to(length + 1);
        line.truncate(content);
        self.part_from_shared();
        line.freeze()
    }

    /// Moves a short rest to memory of its own, so that the block of a long line is freed with that line.
    fn part_from_shared(&mut self) {
        if self.buffer.len() <= READ_BYTES {
            let rest = std::mem::take(&mut self.buffer);
            if !rest.is_empty() {
                self.buffer.reserve(READ_BYTES + rest.len());
                self.buffer.extend_from_slice(&rest);
            }
        }
    }

    /// Called when no LF is in the buffer.
    fn unfinished(&mut self) -> Option<InFrame> {
        self.scanned = self.buffer.len();
        if self.is_discarding {
            self.buffer.clear();
            self.scanned = 0;
            return None;
        }
        // A CR just over the limit may yet turn out to be part of the line end.
        let is_over = match self.buffer.len().checked_sub(self.limit) {
            None | Some(0) => false,
            Some(1) => !self.buffer.ends_with(b"\r"),
            Some(_) => true,
        };
        if !is_over {
            return None;
        }
        let report = self.too_large();
        self.buffer = BytesMut::new();
        self.scanned = 0;
        self.is_discarding = true;
        Some(report)
    }

    /// Only what lies within the limit is looked at, so that the report does not depend on how the bytes came.
    fn too_large(&self) -> InFrame {
        InFrame::TooLarge { id: recover_id(&self.buffer[..self.limit]), limit: self.limit }
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn in_frame(item: Result<Frame, Malformed>) -> InFrame {
    match item {
        Ok(frame) => InFrame::Frame(frame),
        Err(malformed) => InFrame::Malformed(malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds `pieces` one after the other and shows what came out.
    fn decoded<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut decoder = LineDecoder::new(limit);
        let mut frames = Vec::new();
        for mut piece in pieces {
            while !piece.is_empty() {
                let mut space = decoder.space();
                let length = piece.len().min(space.remaining_mut());
                space.put_slice(&piece[..length]);
                piece = &piece[length..];
                while let Some(frame) = decoder.next_frame() {
                    frames.push(format!("{frame:?}"));
                }
                assert!(
                    decoder.buffer.len() <= limit + READ_BYTES_MAX,
                    "{} bytes kept",
                    decoder.buffer.len()
                );
            }
        }
        while let Some(frame) = decoder.finish() {
            frames.push(format!("{frame:?}"));
        }
        frames
    }

    fn kinds(limit: usize, text: &str) -> String {
        let short = |frame: String| match frame.split('(').next() {
            Some("Frame") if frame.contains("Reply") => "R",
            Some("Frame") => "N",
            Some("Malformed") => "M",
            _ if frame.starts_with("TooLarge") => "T",
            _ => "?",
        };
        decoded(limit, [text.as_bytes()]).into_iter().map(short).collect()
    }

    #[test]
    fn lines_become_frames() {
        for (text, expected) in [
            ("{\"id\":1,\"result\":{}}\n", "R"),
            ("{\"id\":1,\"result\":{}}\r\n\r\n\n  \n{\"method\":\"n\"}\n", "RN"),
            ("\u{feff}{\"method\":\"n\"}\n", "N"),
            ("hello\n{\"method\":\"n\"}\n", "MN"),
            ("[{\"method\":\"n\"},7,{\"id\":1,\"result\":1}]\n{\"method\":\"n\"}\n", "NMRN"),
            ("[]\n{\"method\":\"n\"}\n", "N"),
            ("{\"id\":1,\"result\":{}}", "R"),
            ("{\"id\":1,\"result\":{", ""),
            ("", ""),
        ] {
            assert_eq!(kinds(100, text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_not_longer() {
        let line = "{\"id\":1,\"result\":2}";
        for (end, expected) in [("\n", "R"), ("\r\n", "R"), ("", "R")] {
            assert_eq!(kinds(line.len(), &format!("{line}{end}")), expected, "{end:?}");
        }
        for end in ["\n", "\r\n", "", "\r"] {
            assert_eq!(kinds(line.len() - 1, &format!("{line}{end}")), "T", "{end:?}");
        }
    }

    #[test]
    fn an_oversized_line_is_reported_before_its_end_and_the_next_one_lives() {
        let mut decoder = LineDecoder::new(32);
        decoder.space().put_slice(b"{\"id\":12,\"result\":\"aaaaaaaaaaaaaaaa");
        assert!(matches!(decoder.next_frame(), Some(InFrame::TooLarge { id: Some(12), limit: 32 })));
        for _ in 0..1000 {
            decoder.space().put_slice(&[b'a'; 4096]);
            assert!(decoder.next_frame().is_none());
            assert!(decoder.buffer.capacity() <= 2 * READ_BYTES, "{}", decoder.buffer.capacity());
        }
        decoder.space().put_slice(b"\"}\n{\"method\":\"n\"}\n");
        assert!(matches!(decoder.next_frame(), Some(InFrame::Frame(Frame::Notification(_)))));
        assert!(decoder.next_frame().is_none());
    }

    #[test]
    fn a_long_line_is_freed_with_its_frame() {
        let mut decoder = LineDecoder::new(1 << 20);
        let long = format!("{{\"id\":1,\"result\":\"{}\"}}\n{{\"me", "a".repeat(300_000));
        let mut rest = long.as_bytes();
        while !rest.is_empty() {
            let length = rest.len().min(READ_BYTES);
            decoder.space().put_slice(&rest[..length]);
            rest = &rest[length..];
            if let Some(frame) = decoder.next_frame() {
                assert!(matches!(frame, InFrame::Frame(Frame::Reply(_))));
            }
        }
        assert_eq!(&decoder.buffer[..], b"{\"me");
        assert!(decoder.buffer.capacity() < 2 * READ_BYTES, "{}", decoder.buffer.capacity());
    }

    fn pieces(text: &[u8], cuts: Vec<prop::sample::Index>) -> Vec<&[u8]> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(
            lines in prop::collection::vec(
                prop_oneof![
                    Just("{\"id\":1,\"result\":{}}".to_owned()),
                    Just("[{\"method\":\"n\"},7]".to_owned()),
                    "[ -~\\r]{0,60}",
                    (1usize..40_000).prop_map(|n| format!("{{\"id\":7,\"result\":\"{}\"}}", "x".repeat(n))),
                ],
                0..8,
            ),
            end in prop_oneof![Just("\n"), Just("\r\n")],
            limit in prop_oneof![0usize..64, Just(20_000usize), Just(1usize << 20)],
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let text = lines.join(end).into_bytes();
            prop_assert_eq!(decoded(limit, [&text[..]]), decoded(limit, pieces(&text, cuts)));
        }

        #[test]
        fn no_input_panics_or_piles_up(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            limit in 0usize..100,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let lines = bytes.split(|byte| *byte == b'\n').count();
            let frames = decoded(limit, pieces(&bytes, cuts));
            // An array of numbers is the shortest way to many frames: two bytes each.
            prop_assert!(frames.len() <= lines + bytes.len() / 2, "{} frames", frames.len());
        }
    }
}
