//! Reading the answer to a POST: finds the reply to its request and sends every other message on its way.

use super::body;
use super::link::HttpLink;
use super::resume::resume;
use super::stream::{EventStream, Media, Sorted, media_of, media_text};
use bytes::Bytes;
use callboard_core::port::{CallActivity, CloseReason, InFrame};
use callboard_protocol::{Decoded, Frame, Id, Malformed, Reply, ReplyBody, decode};
use futures_util::FutureExt;
use reqwest::{Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;

use crate::sse::SseItem;

/// One request that waits for its reply.
pub(crate) struct Asker<'a> {
    pub(crate) link: &'a Arc<HttpLink>,
    /// Our id of the request.
    pub(crate) id: u64,
    pub(crate) activity: &'a dyn CallActivity,
    /// A stream that breaks may be resumed: the legacy era alone.
    pub(crate) may_resume: bool,
}

/// What the streams of one request have brought so far, its reply apart.
#[derive(Default)]
pub(crate) struct Seen {
    /// Where to resume.
    pub(crate) last_event_id: Option<String>,
    /// When to resume.
    pub(crate) retry: Option<Duration>,
    /// Messages that came.
    pub(crate) messages: usize,
    /// The start of an event that was no message.
    odd: Option<String>,
    /// An event over the limit came that may have been the reply.
    has_lost_event: bool,
}

/// How a stream of a request ended.
pub(crate) enum StreamEnd {
    /// With the reply.
    Reply(Reply),
    /// With something that ends the request.
    Fatal(CloseReason),
    /// Without the reply, for this reason if it cannot be resumed.
    Open(CloseReason),
}

/// What one text held.
enum Taken {
    Reply(Reply),
    /// Messages for the receive half.
    Others,
    /// No message.
    Odd,
}

impl Asker<'_> {
    /// Reads a successful answer.
    pub(crate) async fn read(&self, response: Response) -> Result<Reply, CloseReason> {
        let status = response.status();
        match media_of(response.headers()) {
            Media::EventStream => self.read_streams(response).await,
            // An acknowledgement is no answer to a request, whatever text it carries.
            Media::Other | Media::Absent
                if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) =>
            {
                Err(CloseReason::NoReply)
            }
            Media::Json | Media::Absent => self.read_json(response).await,
            Media::Other => {
                let content_type = media_text(response.headers());
                let limit = self.link.settings.wire_error_body_bytes_max;
                let start = body::read_start(response, limit).await;
                Err(not_rpc(content_type, &start))
            }
        }
    }

    async fn read_json(&self, mut response: Response) -> Result<Reply, CloseReason> {
        let limit = self.link.settings.wire_frame_bytes_max;
        let text = body::read_whole(&mut response, limit, || self.activity.active(self.id)).await?;
        match self.take(&text).await {
            Taken::Reply(reply) => Ok(reply),
            Taken::Others => Err(CloseReason::NoReply),
            Taken::Odd => Err(not_rpc(media_text(response.headers()), &text)),
        }
    }

    async fn read_streams(&self, response: Response) -> Result<Reply, CloseReason> {
        let mut seen = Seen::default();
        let stream = EventStream::new(response, self.link.settings.wire_frame_bytes_max);
        match self.read_stream(stream, &mut seen).await {
            StreamEnd::Reply(reply) => Ok(reply),
            StreamEnd::Fatal(reason) => Err(reason),
            StreamEnd::Open(reason) => {
                if self.may_resume && seen.last_event_id.is_some() && !seen.has_lost_event {
                    return Box::pin(resume(self, seen)).await;
                }
                Err(reason)
            }
        }
    }

    /// Reads one stream up to the reply or its end. Returns at the reply's event: the server may keep the
    /// stream open for as long as it likes.
    pub(crate) async fn read_stream(&self, mut stream: EventStream, seen: &mut Seen) -> StreamEnd {
        loop {
            let item = stream.next(|| self.activity.active(self.id)).await;
            if let Some(id) = stream.parser.last_event_id() {
                seen.last_event_id = Some(id.to_owned());
            }
            seen.retry = stream.parser.retry().or(seen.retry);
            match item {
                Ok(Some(SseItem::Event(event))) if event.name.is_empty() => {
                    match self.take(&event.data).await {
                        Taken::Reply(reply) => {
                            self.let_go(stream);
                            return StreamEnd::Reply(reply);
                        }
                        Taken::Others => seen.messages += 1,
                        Taken::Odd => {
                            seen.odd.get_or_insert_with(|| super::status::clean_text(&event.data));
                        }
                    }
                }
                Ok(Some(SseItem::Event(_))) => {}
                Ok(Some(SseItem::TooLarge { id })) => {
                    let limit = self.link.settings.wire_frame_bytes_max;
                    match id {
                        Some(id) if id == self.id => {
                            return StreamEnd::Fatal(CloseReason::TooLarge { limit });
                        }
                        Some(_) => self.link.inbox.push(InFrame::TooLarge { id, limit }).await,
                        None => seen.has_lost_event = true,
                    }
                }
                Ok(None) => return StreamEnd::Open(self.end_without_reply(seen)),
                Err(reason) => return StreamEnd::Open(reason),
            }
        }
    }

    fn end_without_reply(&self, seen: &Seen) -> CloseReason {
        if seen.has_lost_event {
            return CloseReason::TooLarge { limit: self.link.settings.wire_frame_bytes_max };
        }
        match &seen.odd {
            Some(excerpt) => {
                CloseReason::NotRpc { content_type: "text/event-stream".into(), excerpt: excerpt.clone() }
            }
            None => CloseReason::NoReply,
        }
    }

    /// Reads what follows the reply for a moment, so that the connection is free for the next request.
    fn let_go(&self, mut stream: EventStream) {
        if stream.is_at_end() {
            return;
        }
        let inbox = self.link.inbox.clone();
        let mut tail = Box::pin(async move { stream.drain(&inbox).await });
        if tail.as_mut().now_or_never().is_none() {
            self.link.spawn(tail);
        }
    }

    /// Decodes one body or event, keeps the reply and sends the rest to the receive half.
    async fn take(&self, text: &Bytes) -> Taken {
        match decode(text) {
            Decoded::One(frame) => match self.sort(frame) {
                Sorted::Reply(reply) => Taken::Reply(reply),
                Sorted::Other(other) => {
                    self.link.inbox.push(other).await;
                    Taken::Others
                }
            },
            Decoded::Malformed(malformed) => match self.sort_malformed(malformed) {
                Some(Sorted::Reply(reply)) => Taken::Reply(reply),
                Some(Sorted::Other(other)) => {
                    self.link.inbox.push(other).await;
                    Taken::Odd
                }
                None => Taken::Odd,
            },
            Decoded::Batch(items) => {
                let mut ours = None;
                for item in items {
                    let sorted = match item {
                        Ok(frame) => Some(self.sort(frame)),
                        Err(malformed) => self.sort_malformed(malformed),
                    };
                    match sorted {
                        Some(Sorted::Reply(reply)) => ours = ours.or(Some(reply)),
                        Some(Sorted::Other(other)) => self.link.inbox.push(other).await,
                        None => {}
                    }
                }
                ours.map_or(Taken::Others, Taken::Reply)
            }
        }
    }

    /// Ours is the reply with our id, and an error without an id: a server that could not read the request
    /// far enough answers like this.
    fn sort(&self, frame: Frame) -> Sorted {
        match frame {
            Frame::Reply(reply) if reply.id.own() == Some(self.id) => Sorted::Reply(reply),
            Frame::Reply(Reply { id: Id::Null, body: body @ ReplyBody::Error(_) }) => {
                Sorted::Reply(Reply { id: Id::Number(self.id), body })
            }
            other => Sorted::Other(InFrame::Frame(other)),
        }
    }

    fn sort_malformed(&self, malformed: Malformed) -> Option<Sorted> {
        let id = malformed.id?;
        Some(match id == self.id {
            true => Sorted::Reply(Reply { id: Id::Number(id), body: ReplyBody::Invalid(malformed.reason) }),
            false => Sorted::Other(InFrame::Malformed(malformed)),
        })
    }
}

/// The error for a text that is no message; an empty one is no answer at all.
fn not_rpc(content_type: String, text: &Bytes) -> CloseReason {
    match super::status::clean_text(text) {
        excerpt if excerpt.is_empty() => CloseReason::NoReply,
        excerpt => CloseReason::NotRpc { content_type, excerpt },
    }
}
