//! The limit of a message, kept before the WebSocket library reads it: what is over the limit is cut out of the
//! bytes, so that an oversized message fails its own caller and the connection goes on.
//!
//! Frames of a server are walked by their headers (RFC 6455 §5.2). A cut message keeps its start, as much as the limit
//! allows, which tells whose it was. The sizes of headers stay, so that bytes are only moved forward.

use std::collections::VecDeque;

/// Longest header of a frame, in bytes.
const HEADER_BYTES_MAX: usize = 14;

const FIN: u8 = 0x80;
const OPCODE: u8 = 0x0f;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
/// From here on opcodes are of control frames, which are short and may come amid a message.
const CONTROL: u8 = 0x8;
const MASKED: u8 = 0x80;

/// Walks over the bytes of one connection.
pub(super) struct MessageLimit {
    bytes_max: u64,
    state: State,
    /// The start of a header whose rest has not come.
    held: Vec<u8>,
    /// Bytes of the message under way that were let through.
    passed: u64,
    is_cut: bool,
    /// The number of the message under way, and of the one that is handed out next.
    number: u64,
    handed_out: u64,
    /// The numbers of cut messages that have not been handed out.
    cut: VecDeque<u64>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    /// In a frame: so many bytes are left, of which so many are let through.
    Payload {
        left: u64,
        pass: u64,
    },
    /// Not what a server may send: the library will say so.
    Foreign,
}

impl MessageLimit {
    pub(super) fn new(bytes_max: usize) -> MessageLimit {
        MessageLimit {
            bytes_max: bytes_max as u64,
            state: State::Header,
            held: Vec::with_capacity(HEADER_BYTES_MAX),
            passed: 0,
            is_cut: false,
            number: 0,
            handed_out: 0,
            cut: VecDeque::new(),
        }
    }

    /// What has to stand before the next bytes.
    pub(super) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Moves what is let through to the start of `bytes`, which begin with what was held; how many that are.
    pub(super) fn apply(&mut self, bytes: &mut [u8]) -> usize {
        self.held.clear();
        let (mut read, mut kept) = (0, 0);
        while read < bytes.len() {
            match self.state {
                State::Foreign => {
                    bytes.copy_within(read.., kept);
                    return kept + bytes.len() - read;
                }
                State::Payload { left, pass } => {
                    let here = (bytes.len() - read).min(usize::try_from(left).unwrap_or(usize::MAX));
                    let through = here.min(usize::try_from(pass).unwrap_or(usize::MAX));
                    bytes.copy_within(read..read + through, kept);
                    (read, kept) = (read + here, kept + through);
                    let (left, pass) = (left - here as u64, pass - through as u64);
                    self.state = if left == 0 { State::Header } else { State::Payload { left, pass } };
                }
                State::Header => {
                    let Some(length) = header_length(&bytes[read..]) else {
                        self.held.extend_from_slice(&bytes[read..]);
                        return kept;
                    };
                    bytes.copy_within(read..read + length, kept);
                    self.begin(&mut bytes[kept..kept + length]);
                    (read, kept) = (read + length, kept + length);
                }
            }
        }
        kept
    }

    /// Takes note of a frame and writes into its header what is left of it.
    fn begin(&mut self, header: &mut [u8]) {
        if header[1] & MASKED != 0 {
            self.state = State::Foreign;
            return;
        }
        let left = payload_length(header);
        if header[0] & OPCODE >= CONTROL {
            self.state = if left == 0 { State::Header } else { State::Payload { left, pass: left } };
            return;
        }
        let pass = left.min(self.bytes_max - self.passed);
        self.is_cut |= pass < left;
        self.passed += pass;
        let is_last = header[0] & FIN != 0;
        // A cut may fall within a character, which text does not allow. The two mean the same here.
        if header[0] & OPCODE == TEXT && (self.is_cut || !is_last) {
            header[0] = header[0] & !OPCODE | BINARY;
        }
        set_payload_length(header, pass);
        self.state = if left == 0 { State::Header } else { State::Payload { left, pass } };
        if is_last {
            if std::mem::take(&mut self.is_cut) {
                self.cut.push_back(self.number);
            }
            self.number += 1;
            self.passed = 0;
        }
    }

    /// Counts a message that the library hands out: was it cut?
    pub(super) fn hand_out(&mut self) -> bool {
        let is_cut = self.cut.front() == Some(&self.handed_out);
        if is_cut {
            self.cut.pop_front();
        }
        self.handed_out += 1;
        is_cut
    }
}

/// The length of the header at the start; none while it is not whole.
fn header_length(bytes: &[u8]) -> Option<usize> {
    let second = *bytes.get(1)?;
    let extended = match second & !MASKED {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let length = 2 + extended + if second & MASKED != 0 { 4 } else { 0 };
    (bytes.len() >= length).then_some(length)
}

fn payload_length(header: &[u8]) -> u64 {
    match header[1] & !MASKED {
        short @ 0..=125 => u64::from(short),
        _ => header[2..].iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
    }
}

/// Writes a length that is no longer than the old one, in the same space.
fn set_payload_length(header: &mut [u8], length: u64) {
    let bytes = length.to_be_bytes();
    match header[1] & !MASKED {
        0..=125 => header[1] = bytes[7],
        _ => {
            let width = header.len() - 2;
            header[2..].copy_from_slice(&bytes[8 - width..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
    use tokio_tungstenite::tungstenite::{Message, WebSocket};

    const LIMIT: usize = 200;

    fn frame(bytes: &mut Vec<u8>, opcode: OpCode, is_last: bool, payload: &[u8]) {
        let frame = Frame::message(payload.to_vec(), opcode, is_last);
        frame.format(bytes).expect("writes");
    }

    /// What the library reads of these bytes, cut into pieces: length and whether it was cut.
    fn read(mut bytes: &[u8], pieces: &[usize]) -> Vec<(usize, bool)> {
        let mut limit = MessageLimit::new(LIMIT);
        let mut through = Vec::new();
        for piece in pieces.iter().copied().chain(std::iter::once(usize::MAX)) {
            let (now, later) = bytes.split_at(piece.min(bytes.len()));
            bytes = later;
            let mut chunk = [limit.held(), now].concat();
            let kept = limit.apply(&mut chunk);
            through.extend_from_slice(&chunk[..kept]);
        }
        let config = WebSocketConfig::default().max_message_size(Some(LIMIT)).max_frame_size(Some(LIMIT));
        let stream = std::io::Cursor::new(through);
        let mut socket = WebSocket::from_raw_socket(stream, Role::Client, Some(config));
        let mut found = Vec::new();
        while let Ok(message) = socket.read() {
            match message {
                Message::Text(_) | Message::Binary(_) => found.push((message.len(), limit.hand_out())),
                Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
        found
    }

    proptest! {
        #[test]
        fn whatever_is_over_the_limit_is_cut_and_nothing_else(
            messages in proptest::collection::vec(proptest::collection::vec(0usize..400, 1..4), 0..6),
            pieces in proptest::collection::vec(1usize..300, 0..20),
        ) {
            let mut bytes = Vec::new();
            for parts in &messages {
                for (index, length) in parts.iter().enumerate() {
                    let opcode = if index == 0 { Data::Text } else { Data::Continue };
                    // Characters of two bytes, so that cuts fall within them.
                    let payload = "ä".repeat(length / 2);
                    frame(&mut bytes, OpCode::Data(opcode), index + 1 == parts.len(), payload.as_bytes());
                    if index + 1 < parts.len() {
                        bytes.extend_from_slice(&[FIN | 0x9, 1, b'p']);
                    }
                }
            }
            let want: Vec<(usize, bool)> = messages
                .iter()
                .map(|parts| parts.iter().map(|length| length / 2 * 2).sum())
                .map(|length: usize| (length.min(LIMIT), length > LIMIT))
                .collect();
            prop_assert_eq!(read(&bytes, &pieces), want);
        }
    }
}
