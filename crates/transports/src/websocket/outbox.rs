//! The send half: frames wait, bounded, for the task that polls the receive half.

use super::{Shared, Socket};
use bytes::Bytes;
use callboard_core::port::{CloseReason, DuplexSend, IoKind};
use futures_util::Sink;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

/// How many frames of the largest size may wait for a peer that does not read.
const WAITING_FRAMES_MAX: usize = 4;

/// Frames that wait for their way out.
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    bytes_max: usize,
}

#[derive(Default)]
struct Queue {
    is_ping_due: bool,
    waiting: VecDeque<Bytes>,
    bytes: usize,
    task: Option<Waker>,
    closed: Option<CloseReason>,
}

impl Outbox {
    /// An outbox for frames of at most `frame_bytes_max` bytes, of which four may wait.
    pub(super) fn new(frame_bytes_max: usize) -> Outbox {
        let bytes_max = frame_bytes_max.saturating_mul(WAITING_FRAMES_MAX);
        Outbox { queue: Mutex::default(), bytes_max }
    }

    fn push(&self, frame: &[u8]) -> Result<(), CloseReason> {
        let mut queue = self.queue.lock();
        if let Some(reason) = &queue.closed {
            return Err(reason.clone());
        }
        if queue.bytes + frame.len() > self.bytes_max {
            let message = format!(
                "the server does not read: more than {} bytes would wait ({WAITING_FRAMES_MAX} times wire.frame_bytes_max)",
                self.bytes_max
            );
            return Err(CloseReason::Io { kind: IoKind::Other, message });
        }
        queue.bytes += frame.len();
        queue.waiting.push_back(Bytes::copy_from_slice(frame));
        let task = queue.task.take();
        drop(queue);
        if let Some(task) = task {
            task.wake();
        }
        Ok(())
    }

    /// Has a ping sent, before all that waits.
    pub(super) fn ping(&self) {
        self.queue.lock().is_ping_due = true;
    }

    /// The frame that is next, if one waits; else `cx` is woken when one comes.
    fn next(&self, cx: &mut Context<'_>) -> Option<Message> {
        let mut queue = self.queue.lock();
        if std::mem::take(&mut queue.is_ping_due) {
            return Some(Message::Ping(Bytes::new()));
        }
        let Some(frame) = queue.waiting.pop_front() else {
            queue.task = Some(cx.waker().clone());
            return None;
        };
        queue.bytes -= frame.len();
        Some(match Utf8Bytes::try_from(frame.clone()) {
            Ok(text) => Message::Text(text),
            Err(_) => Message::Binary(frame),
        })
    }

    /// Writes what waits, as far as the socket takes it.
    pub(super) fn drive(
        &self,
        socket: &mut Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), tungstenite::Error>> {
        let mut socket = Pin::new(socket);
        while socket.as_mut().poll_ready(cx)?.is_ready() {
            match self.next(cx) {
                Some(message) => socket.as_mut().start_send(message)?,
                None => return socket.poll_flush(cx),
            }
        }
        Poll::Pending
    }

    /// Takes nothing more, for this reason; the first one counts. Wakes the task that polls the receive half.
    pub(super) fn close(&self, reason: CloseReason) {
        let mut queue = self.queue.lock();
        queue.closed.get_or_insert(reason);
        let task = queue.task.take();
        drop(queue);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The send half of a link.
pub(super) struct WebSocketSend(pub(super) Arc<Shared>);

impl DuplexSend for WebSocketSend {
    fn send(&self, frame: &[u8]) -> Result<(), CloseReason> {
        self.0.outbox.push(frame)
    }
}
