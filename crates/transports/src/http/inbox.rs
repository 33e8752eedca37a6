//! The way from all streams of a link to its receive half: bounded in messages and bytes, and without any
//! memory of its own while nothing waits (an idle connection is most of what a board has).

use bytes::Bytes;
use callboard_core::port::{CloseReason, InFrame, ReceiveHalf};
use callboard_protocol::{Frame, ReplyBody};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// Messages that may wait for the receive half. A stream that brings more is not read until there is room.
const FRAMES_MAX: usize = 256;

/// What came in and was not received yet.
pub(crate) struct Inbox {
    state: Mutex<State>,
    room: Notify,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    frames: VecDeque<(InFrame, usize)>,
    bytes: usize,
    ended: Option<CloseReason>,
    receiver: Option<Waker>,
}

impl Inbox {
    /// An inbox for messages of up to `bytes_max` bytes together; one larger message fits when it is alone.
    pub(crate) fn new(bytes_max: usize) -> Arc<Inbox> {
        Arc::new(Inbox { state: Mutex::default(), room: Notify::new(), bytes_max })
    }

    /// Hands a message over and waits for room. After the end of the link messages are dropped.
    pub(crate) async fn push(&self, frame: InFrame) {
        let Some(mut frame) = self.try_push(frame) else { return };
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            match self.try_push(frame) {
                None => return,
                Some(refused) => frame = refused,
            }
            room.await;
        }
    }

    /// Hands a message over when there is room, else gives it back.
    pub(crate) fn try_push(&self, frame: InFrame) -> Option<InFrame> {
        let bytes = weight(&frame);
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return None;
        }
        let has_room = state.frames.is_empty()
            || (state.frames.len() < FRAMES_MAX && state.bytes + bytes <= self.bytes_max);
        if !has_room {
            return Some(frame);
        }
        state.bytes += bytes;
        state.frames.push_back((frame, bytes));
        let receiver = state.receiver.take();
        drop(state);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        None
    }

    /// Ends the receive half once it has taken what waits; the first reason counts.
    pub(crate) fn end(&self, reason: CloseReason) {
        let mut state = self.state.lock();
        state.ended.get_or_insert(reason);
        let receiver = state.receiver.take();
        drop(state);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        self.room.notify_waiters();
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Result<InFrame, CloseReason>> {
        let mut state = self.state.lock();
        if let Some((frame, bytes)) = state.frames.pop_front() {
            state.bytes -= bytes;
            if state.frames.is_empty() {
                state.frames = VecDeque::new();
            }
            drop(state);
            self.room.notify_waiters();
            return Poll::Ready(Ok(frame));
        }
        if let Some(reason) = &state.ended {
            return Poll::Ready(Err(reason.clone()));
        }
        state.receiver = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// The receive half of a link: the reading end of its inbox.
pub(crate) struct InboxReader(pub(crate) Arc<Inbox>);

impl ReceiveHalf for InboxReader {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<InFrame, CloseReason>> {
        self.0.poll_next(cx)
    }
}

impl Drop for InboxReader {
    fn drop(&mut self) {
        self.0.end(CloseReason::Cancelled);
    }
}

/// The bytes that a waiting message keeps in memory, about.
fn weight(frame: &InFrame) -> usize {
    let of = |raw: &Option<Bytes>| raw.as_ref().map_or(0, Bytes::len);
    match frame {
        InFrame::Frame(Frame::Reply(reply)) => match &reply.body {
            ReplyBody::Result(raw) | ReplyBody::Error(raw) => raw.len(),
            ReplyBody::Invalid(reason) => reason.len(),
        },
        InFrame::Frame(Frame::Request(request)) => request.id.len() + of(&request.params),
        InFrame::Frame(Frame::Notification(notification)) => of(&notification.params),
        InFrame::Malformed(malformed) => malformed.reason.len(),
        InFrame::TooLarge { .. } | InFrame::Failed { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use callboard_protocol::Notification;
    use futures_util::FutureExt;

    fn note(bytes: usize) -> InFrame {
        let params = Some(Bytes::from(vec![b'x'; bytes]));
        InFrame::Frame(Frame::Notification(Notification { method: "n".into(), params }))
    }

    async fn receive(inbox: &Inbox) -> Result<InFrame, CloseReason> {
        std::future::poll_fn(|cx| inbox.poll_next(cx)).await
    }

    #[tokio::test]
    async fn a_full_inbox_makes_its_streams_wait() {
        let inbox = Inbox::new(10);
        assert!(inbox.push(note(20)).now_or_never().is_some(), "one of any size fits alone");
        let mut waiting = Box::pin(inbox.push(note(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(receive(&inbox).await.is_ok());
        waiting.await;
        assert!(receive(&inbox).await.is_ok());
    }

    #[tokio::test]
    async fn the_end_comes_after_what_waits_and_frees_those_who_wait() {
        let inbox = Inbox::new(1);
        inbox.push(note(1)).await;
        let mut waiting = Box::pin(inbox.push(note(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        inbox.end(CloseReason::SessionExpired { status: 404 });
        inbox.end(CloseReason::Cancelled);
        waiting.await;
        assert!(receive(&inbox).await.is_ok());
        assert!(matches!(receive(&inbox).await, Err(CloseReason::SessionExpired { status: 404 })));
    }
}
