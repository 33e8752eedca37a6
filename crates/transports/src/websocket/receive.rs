//! The receive half: one poll drives both directions and finds out why the socket ended.

use super::silence::{Alarm, Silence};
use super::{Open, Shared};
use crate::http::stream::messages;
use bytes::Bytes;
use callboard_core::port::{CloseReason, InFrame, IoKind, ReceiveHalf};
use callboard_protocol::recover_id;
use futures_util::Stream;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

/// From this length on, in bytes, a payload shares the memory that it came in.
const SHARED_BYTES_MIN: usize = 16 * 1024;

/// The receive half of a link.
pub(super) struct WebSocketReceive {
    shared: Arc<Shared>,
    frame_bytes_max: usize,
    /// The rest of a batch.
    ready: VecDeque<InFrame>,
    ended: Option<CloseReason>,
    silence: Option<Silence>,
}

/// What was read.
enum Read {
    Whole(Message),
    /// The start of a message over the limit.
    Cut(Bytes),
}

impl WebSocketReceive {
    /// Reads messages of at most `frame_bytes_max` bytes.
    pub(super) fn new(
        shared: Arc<Shared>,
        frame_bytes_max: usize,
        silence: Option<Silence>,
    ) -> WebSocketReceive {
        WebSocketReceive { shared, frame_bytes_max, ready: VecDeque::new(), ended: None, silence }
    }

    fn end(&mut self, reason: CloseReason) -> CloseReason {
        self.shared.outbox.close(reason.clone());
        self.ended = Some(reason.clone());
        reason
    }

    /// Writes, then reads one message; an error is the end.
    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<Result<Read, CloseReason>> {
        let mut open = self.shared.open.lock();
        let Open { socket: Some(socket), code } = &mut *open else {
            return Poll::Ready(Err(CloseReason::Cancelled));
        };
        // A peer that closed may have said why: what failed to be written is told after what can be read.
        let written = self.shared.outbox.drive(socket, cx);
        let read = Pin::new(&mut *socket).poll_next(cx);
        let error = match (read, written) {
            (Poll::Ready(Some(Ok(message))), _) => {
                let is_data = message.is_text() || message.is_binary();
                let is_cut = is_data && socket.get_mut().hand_out();
                return Poll::Ready(Ok(if is_cut {
                    Read::Cut(message.into_data())
                } else {
                    Read::Whole(message)
                }));
            }
            (Poll::Ready(Some(Err(error))), _) => error,
            (Poll::Ready(None), _) => Error::ConnectionClosed,
            (Poll::Pending, Poll::Ready(Err(error))) => error,
            (Poll::Pending, Poll::Ready(Ok(())) | Poll::Pending) => return Poll::Pending,
        };
        let (answer, reason) = explain(error, self.frame_bytes_max);
        *code = answer;
        Poll::Ready(Err(reason))
    }

    /// Nothing can be read: is the peer still there? Ready when a ping is to be written.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        let Some(silence) = &mut self.silence else { return Poll::Pending };
        let shared = &self.shared;
        let has_read =
            || shared.open.lock().socket.as_mut().is_some_and(|socket| socket.get_mut().take_read());
        Poll::Ready(match ready!(silence.poll(cx, has_read)) {
            Alarm::Ping => {
                shared.outbox.ping();
                Ok(())
            }
            Alarm::Lost(reason) => Err(reason),
        })
    }

    fn take(&mut self, payload: Bytes) {
        // Short payloads are copied: what is kept of them must not keep a whole read buffer alive.
        let payload = match payload.len() < SHARED_BYTES_MIN {
            true => Bytes::copy_from_slice(&payload),
            false => payload,
        };
        self.ready.extend(messages(&payload));
    }
}

impl ReceiveHalf for WebSocketReceive {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<InFrame, CloseReason>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Poll::Ready(Ok(frame));
            }
            if let Some(reason) = &self.ended {
                return Poll::Ready(Err(reason.clone()));
            }
            match self.poll_socket(cx) {
                Poll::Pending => match ready!(self.poll_silence(cx)) {
                    Ok(()) => {}
                    Err(reason) => drop(self.end(reason)),
                },
                Poll::Ready(Ok(Read::Cut(start))) => {
                    let limit = self.frame_bytes_max;
                    self.ready.push_back(InFrame::TooLarge { id: recover_id(&start), limit });
                }
                Poll::Ready(Ok(Read::Whole(Message::Text(text)))) => self.take(text.into()),
                Poll::Ready(Ok(Read::Whole(Message::Binary(payload)))) => self.take(payload),
                // The library answers pings by itself, and hands out no raw frames.
                Poll::Ready(Ok(Read::Whole(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => {}
                Poll::Ready(Ok(Read::Whole(Message::Close(frame)))) => drop(self.end(closed(frame))),
                Poll::Ready(Err(reason)) => drop(self.end(reason)),
            }
        }
    }
}

impl Drop for WebSocketReceive {
    fn drop(&mut self) {
        // Nobody would write what waits.
        self.shared.outbox.close(CloseReason::Cancelled);
    }
}

/// The peer's goodbye as a reason.
fn closed(frame: Option<CloseFrame>) -> CloseReason {
    let message = match frame {
        None => "WebSocket close without a code".to_owned(),
        Some(CloseFrame { code, reason }) => {
            let said = crate::http::status::clean_text(reason.as_bytes());
            let said = if said.is_empty() { said } else { format!(": {said}") };
            format!("WebSocket close code {}{said}", u16::from(code))
        }
    };
    CloseReason::Io { kind: IoKind::Closed, message }
}

/// What an error of the library means, and the code to close with.
fn explain(error: Error, frame_bytes_max: usize) -> (CloseCode, CloseReason) {
    let lost = |kind, message: String| (CloseCode::Normal, CloseReason::Io { kind, message });
    match error {
        Error::Capacity(_) => (CloseCode::Size, CloseReason::TooLarge { limit: frame_bytes_max }),
        Error::Utf8(message) => (CloseCode::Invalid, CloseReason::Protocol(message)),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            lost(IoKind::Reset, "the WebSocket was cut without a close frame".into())
        }
        Error::Protocol(error) => (CloseCode::Protocol, CloseReason::Protocol(format!("WebSocket: {error}"))),
        Error::Io(error) => (CloseCode::Normal, io_reason(&error)),
        Error::ConnectionClosed | Error::AlreadyClosed => {
            lost(IoKind::Closed, "the WebSocket has been closed".into())
        }
        other => lost(IoKind::Other, other.to_string()),
    }
}

fn io_reason(error: &io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            CloseReason::Io { kind: IoKind::Reset, message: "the WebSocket was cut in a frame".into() }
        }
        _ => crate::duplex::io_reason(error),
    }
}
