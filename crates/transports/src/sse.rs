//! An incremental parser of event streams (WHATWG HTML §9.2): bytes in, events out, no IO.
//!
//! Lines may end in CR, LF or CRLF, and a stream may start with a byte order mark. An event over the limit
//! is reported as soon as it passes the limit; the rest of it is skipped without being kept.

use bytes::{Buf, Bytes, BytesMut};
use std::time::Duration;

/// What the parser found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseItem {
    /// An event with data.
    Event(SseEvent),
    /// An event that passed the limit.
    TooLarge {
        /// The call it was meant to answer, when the part that was read tells.
        id: Option<u64>,
    },
}

/// An event with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its `event` field when that is not `message`; empty otherwise.
    pub name: String,
    /// Its `data` lines, joined by LF.
    pub data: Bytes,
}

/// Parses one event stream.
#[derive(Debug)]
pub struct SseParser {
    event_bytes_max: usize,
    /// Bytes that were fed and not looked at yet.
    input: Bytes,
    /// The start of a line whose end has not come yet.
    line: BytesMut,
    line_state: LineState,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    is_first_line: bool,
    /// The event has passed the limit; its end is awaited.
    is_skipping_event: bool,
    data: BytesMut,
    has_data: bool,
    name: String,
    id: Option<Box<str>>,
    last_event_id: Option<Box<str>>,
    retry: Option<Duration>,
}

/// What becomes of the line being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// Nothing of it has come.
    Empty,
    /// It is kept until its end.
    Kept,
    /// A comment, or a line of a skipped event: only its end matters.
    Skipped,
}

/// Longest event id that is remembered, in bytes: it must fit in a request header.
const ID_BYTES_MAX: usize = 4 * 1024;
/// Longest event name that is told apart, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// What a `data: ` line has beside its payload, in bytes.
const DATA_PREFIX_BYTES: usize = 6;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl SseParser {
    /// A parser for a new stream that refuses events of more than `event_bytes_max` bytes of data.
    pub fn new(event_bytes_max: usize) -> SseParser {
        SseParser {
            event_bytes_max,
            input: Bytes::new(),
            line: BytesMut::new(),
            line_state: LineState::Empty,
            after_cr: false,
            is_first_line: true,
            is_skipping_event: false,
            data: BytesMut::new(),
            has_data: false,
            name: String::new(),
            id: None,
            last_event_id: None,
            retry: None,
        }
    }

    /// Gives the parser the next bytes of the stream; take all items with [`SseParser::next_item`] before
    /// feeding more.
    pub fn feed(&mut self, chunk: Bytes) {
        if self.input.is_empty() {
            self.input = chunk;
        } else {
            let mut joined = BytesMut::with_capacity(self.input.len() + chunk.len());
            joined.extend_from_slice(&self.input);
            joined.extend_from_slice(&chunk);
            self.input = joined.freeze();
        }
    }

    /// The next item that the bytes so far hold.
    pub fn next_item(&mut self) -> Option<SseItem> {
        loop {
            if std::mem::take(&mut self.after_cr) {
                match self.input.first() {
                    None => self.after_cr = true,
                    Some(b'\n') => self.input.advance(1),
                    Some(_) => {}
                }
            }
            if self.input.is_empty() {
                return None;
            }
            let item = match memchr::memchr2(b'\r', b'\n', &self.input) {
                Some(end) => {
                    let part = self.input.split_to(end);
                    self.after_cr = self.input.first() == Some(&b'\r');
                    self.input.advance(1);
                    let over_limit = self.take_part(&part);
                    let ended = self.end_line();
                    over_limit.or(ended)
                }
                None => {
                    let part = std::mem::take(&mut self.input);
                    self.take_part(&part)
                }
            };
            if item.is_some() {
                return item;
            }
        }
    }

    /// The event that a stream left without its closing blank line, if it has data. Only for a stream that
    /// ended cleanly: what a broken one left may be cut.
    pub fn finish(&mut self) -> Option<SseItem> {
        match self.next_item().or_else(|| self.end_line()) {
            Some(item) => Some(item),
            None => self.end_event(),
        }
    }

    /// Are there bytes that were fed and not looked at?
    pub(crate) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// The id to resume after: that of the last event that came whole, with or without data.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// The reconnection time that the stream asked for last.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes bytes of the current line, up to what the limit allows.
    fn take_part(&mut self, part: &Bytes) -> Option<SseItem> {
        if self.line_state == LineState::Empty
            && let Some(first) = part.first()
        {
            let is_skipped = self.is_skipping_event || *first == b':';
            self.line_state = if is_skipped { LineState::Skipped } else { LineState::Kept };
        }
        if self.line_state != LineState::Kept {
            return None;
        }
        let room = (self.event_bytes_max + DATA_PREFIX_BYTES)
            .saturating_sub(self.data.len())
            .saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() <= room {
            return None;
        }
        self.line_state = LineState::Skipped;
        if self.data.is_empty() {
            self.data = std::mem::take(&mut self.line);
            strip_data_prefix(&mut self.data, self.is_first_line);
        }
        Some(self.too_large())
    }

    /// Reports the event as too large and forgets what was kept of it.
    fn too_large(&mut self) -> SseItem {
        let id = callboard_protocol::recover_id(&self.data);
        self.is_skipping_event = true;
        self.data = BytesMut::new();
        self.line = BytesMut::new();
        SseItem::TooLarge { id }
    }

    /// Acts on the line that has just ended.
    fn end_line(&mut self) -> Option<SseItem> {
        let state = std::mem::replace(&mut self.line_state, LineState::Empty);
        let is_first = std::mem::replace(&mut self.is_first_line, false);
        match state {
            LineState::Empty => self.end_event(),
            LineState::Skipped => None,
            LineState::Kept => {
                let mut line = std::mem::take(&mut self.line);
                if is_first && line.starts_with(BYTE_ORDER_MARK) {
                    line.advance(BYTE_ORDER_MARK.len());
                }
                // A lone byte order mark is an empty line, and nothing can have been gathered before it.
                if line.is_empty() { None } else { self.take_field(line) }
            }
        }
    }

    fn take_field(&mut self, mut line: BytesMut) -> Option<SseItem> {
        let (name_end, value_start) = match memchr::memchr(b':', &line) {
            Some(colon) => (colon, colon + 1 + usize::from(line.get(colon + 1) == Some(&b' '))),
            None => (line.len(), line.len()),
        };
        match &line[..name_end] {
            b"data" => {
                line.advance(value_start);
                return self.take_data(line);
            }
            b"event" => {
                let name = String::from_utf8_lossy(&line[value_start..]);
                self.name = name.chars().take(NAME_BYTES_MAX).collect();
            }
            b"id" => self.take_id(&line[value_start..]),
            b"retry" => self.take_retry(&line[value_start..]),
            _ => {}
        }
        None
    }

    fn take_data(&mut self, value: BytesMut) -> Option<SseItem> {
        if self.has_data {
            self.data.extend_from_slice(b"\n");
            self.data.extend_from_slice(&value);
        } else {
            self.data = value;
            self.has_data = true;
        }
        (self.data.len() > self.event_bytes_max).then(|| self.too_large())
    }

    /// An id with NUL is ignored, as are those that no request header could carry.
    fn take_id(&mut self, value: &[u8]) {
        let is_fit = value.len() <= ID_BYTES_MAX && value.iter().all(|b| *b >= b' ' && *b != 0x7f);
        if is_fit && let Ok(id) = std::str::from_utf8(value) {
            self.id = Some(id.into());
        }
    }

    fn take_retry(&mut self, value: &[u8]) {
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        if is_number && let Ok(text) = std::str::from_utf8(value) {
            self.retry = Some(Duration::from_millis(text.parse::<u32>().unwrap_or(u32::MAX).into()));
        }
    }

    /// Acts on the blank line that ends an event.
    fn end_event(&mut self) -> Option<SseItem> {
        if let Some(id) = self.id.take() {
            self.last_event_id = Some(id).filter(|id| !id.is_empty());
        }
        let is_skipped = std::mem::take(&mut self.is_skipping_event);
        let has_data = std::mem::take(&mut self.has_data);
        let mut name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if is_skipped || !has_data || data.is_empty() {
            return None;
        }
        if name == "message" {
            name = String::new();
        }
        Some(SseItem::Event(SseEvent { name, data: data.freeze() }))
    }
}

fn strip_data_prefix(line: &mut BytesMut, is_first: bool) {
    if is_first && line.starts_with(BYTE_ORDER_MARK) {
        line.advance(BYTE_ORDER_MARK.len());
    }
    if line.starts_with(b"data:") {
        line.advance(b"data:".len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 64;

    fn event(name: &str, data: &str) -> SseItem {
        SseItem::Event(SseEvent { name: name.into(), data: Bytes::copy_from_slice(data.as_bytes()) })
    }

    /// Items, last event id and retry of a stream that comes in these parts.
    fn parse(parts: &[&[u8]]) -> (Vec<SseItem>, Option<String>, Option<Duration>) {
        let mut parser = SseParser::new(LIMIT);
        let mut items = Vec::new();
        for part in parts {
            parser.feed(Bytes::copy_from_slice(part));
            while let Some(item) = parser.next_item() {
                items.push(item);
            }
            let kept = parser.line.len() + parser.data.len() + parser.input.len();
            assert!(kept <= 2 * LIMIT + DATA_PREFIX_BYTES, "{kept} bytes are kept");
        }
        (items, parser.last_event_id().map(str::to_owned), parser.retry())
    }

    fn items(text: &str) -> Vec<SseItem> {
        parse(&[text.as_bytes()]).0
    }

    #[test]
    fn every_line_end_ends_a_line() {
        for eol in ["\n", "\r", "\r\n"] {
            let text = format!("event: x{eol}data: a{eol}data:b{eol}{eol}data: c{eol}{eol}");
            assert_eq!(items(&text), [event("x", "a\nb"), event("", "c")], "{eol:?}");
        }
    }

    #[test]
    fn an_event_ended_by_cr_is_not_held_back() {
        assert_eq!(items("data: a\r\r"), [event("", "a")]);
    }

    #[test]
    fn comments_unknown_fields_and_odd_lines_are_ignored() {
        assert_eq!(items(": hi\n\nfoo: bar\nbaz\n\ndata\n\ndata:\n\nevent: x\n\n"), []);
        assert_eq!(items(":data: a\ndata: b\n\n"), [event("", "b")]);
        assert_eq!(items("data:  a\ndata:\ndata: \n\n"), [event("", " a\n\n")]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once() {
        assert_eq!(items("\u{feff}data: a\n\n"), [event("", "a")]);
        assert_eq!(items("\u{feff}\ndata: a\n\n"), [event("", "a")]);
        assert_eq!(items("data: a\n\n\u{feff}data: b\n\n"), [event("", "a")]);
    }

    #[test]
    fn ids_and_retry_are_remembered_without_data() {
        let (found, id, retry) = parse(&[b"id: e1\nretry: 200\ndata:\n\n"]);
        assert_eq!((found, id.as_deref(), retry), (vec![], Some("e1"), Some(Duration::from_millis(200))));
        assert_eq!(parse(&[b"id: e1\n\nid: a\0b\n\nretry: 1x\n\nid: cut"]).1.as_deref(), Some("e1"));
        assert_eq!(parse(&[b"id: e1\n\nid\n\n"]).1, None);
        let huge = parse(&[b"retry: 99999999999999999999\n\n"]).2;
        assert_eq!(huge, Some(Duration::from_millis(u32::MAX.into())));
    }

    #[test]
    fn an_event_over_the_limit_is_reported_at_once_and_its_neighbour_lives() {
        let head = r#"data: {"id":7,"result":{"a":""#;
        let long = "x".repeat(LIMIT);
        let (found, ..) = parse(&[head.as_bytes(), long.as_bytes()]);
        assert_eq!(found, [SseItem::TooLarge { id: Some(7) }]);
        let text = format!("{head}{long}{long}\ndata: more\nid: 5\n\ndata: next\n\n");
        assert_eq!(items(&text), [SseItem::TooLarge { id: Some(7) }, event("", "next")]);
        let text = format!("{head}{long}\n\ndata: next\n\n");
        assert_eq!(items(&text), [SseItem::TooLarge { id: Some(7) }, event("", "next")]);
    }

    #[test]
    fn the_limit_counts_all_lines_of_an_event() {
        let line = format!("data: {}\n", "y".repeat(30));
        assert_eq!(items(&format!("{line}{line}\n")).len(), 1);
        assert_eq!(items(&format!("{line}{line}{line}\n")), [SseItem::TooLarge { id: None }]);
        assert_eq!(items(&format!("data:{}\n\n", "z".repeat(LIMIT))).len(), 1);
        let over = items(&format!("data:{}\n\n", "z".repeat(LIMIT + 1)));
        assert_eq!(over, [SseItem::TooLarge { id: None }]);
    }

    #[test]
    fn a_comment_of_any_length_costs_nothing() {
        let (found, ..) = parse(&[b":", &[b'x'; LIMIT], &[b'y'; LIMIT], b"\ndata: a\n\n"]);
        assert_eq!(found, [event("", "a")]);
    }

    #[test]
    fn a_last_event_without_its_blank_line_can_be_asked_for() {
        for text in ["data: a\n", "data: a", "data: a\r"] {
            let mut parser = SseParser::new(LIMIT);
            parser.feed(Bytes::from_static(text.as_bytes()));
            assert_eq!(parser.next_item(), None);
            assert_eq!(parser.finish(), Some(event("", "a")), "{text:?}");
            assert_eq!(parser.finish(), None);
        }
    }

    fn split<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            text in "(\u{feff})?((data|event|id|retry|x)?:? ?[a-z0-9\"{}:]{0,40}(\r|\n|\r\n){1,2}){0,12}",
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            prop_assert_eq!(parse(&split(text.as_bytes(), &cuts)).0, fed_at_once(text.as_bytes()));
        }

        #[test]
        fn events_are_those_of_the_text(
            text in "(\u{feff})?((data|event|id|x)?:? ?(message|[a-z:]{0,6})(\r|\n|\r\n){1,2}){0,8}(data: cut)?",
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            prop_assert_eq!(parse(&split(text.as_bytes(), &cuts)).0, by_the_letter(&text));
        }

        #[test]
        fn any_split_of_any_bytes_gives_the_same_events(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b':'), any::<u8>()], 0..300),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            prop_assert_eq!(parse(&split(&bytes, &cuts)).0, fed_at_once(&bytes));
        }
    }

    /// The rules of the text, for a whole stream whose events are all within the limit.
    fn by_the_letter(text: &str) -> Vec<SseItem> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
        let mut found = Vec::new();
        let (mut name, mut data) = (String::new(), Vec::new());
        let whole_lines = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole_lines.split('\n').filter(|_| text.contains('\n')) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" if line.is_empty() => {
                    let joined = std::mem::take(&mut data).join("\n");
                    let name = std::mem::take(&mut name);
                    if !joined.is_empty() {
                        found.push(event(if name == "message" { "" } else { &name }, &joined));
                    }
                }
                "event" => name = value.to_owned(),
                "data" => data.push(value.to_owned()),
                _ => {}
            }
        }
        found
    }

    fn fed_at_once(bytes: &[u8]) -> Vec<SseItem> {
        let mut parser = SseParser::new(LIMIT);
        parser.feed(Bytes::copy_from_slice(bytes));
        std::iter::from_fn(|| parser.next_item()).collect()
    }
}
