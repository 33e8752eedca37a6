//! The send half: frames leave from the caller when the way is free, else from the receive half's task.

use bytes::{Buf, BufMut, BytesMut};
use callboard_core::port::{CloseReason, DuplexSend, IoKind};
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::AsyncWrite;

/// How many frames of the largest size may wait for a peer that does not read.
const WAITING_FRAMES_MAX: usize = 4;

/// What the buffer of an idle link keeps at most, in bytes: what a pipe takes at once.
const IDLE_BYTES_MAX: usize = 64 * 1024;

/// What waits to be written, and the way out.
///
/// Whoever finds nothing waiting writes at once, under the lock. Otherwise the task that polls the receive
/// half is called once, and writes in one go all that has gathered when it runs.
pub(crate) struct Outbox<W> {
    state: Mutex<State<W>>,
    /// Several calls were answered in one read, so several callers are about to send: they gather.
    is_gathering: AtomicBool,
    bytes_max: usize,
}

struct State<W> {
    /// None after the end.
    out: Option<W>,
    /// While this is not empty, the receive half's task has been called or has yet to poll for the first time.
    waiting: BytesMut,
    is_unflushed: bool,
    task: Option<Waker>,
    /// Set by a write that failed, and by the end.
    closed: Option<CloseReason>,
}

impl<W: AsyncWrite + Unpin + Send + 'static> Outbox<W> {
    /// An outbox for frames of at most `frame_bytes_max` bytes, of which four may wait.
    pub(crate) fn new(out: W, frame_bytes_max: usize) -> Outbox<W> {
        let state =
            State { out: Some(out), waiting: BytesMut::new(), is_unflushed: false, task: None, closed: None };
        Outbox {
            state: Mutex::new(state),
            is_gathering: AtomicBool::new(false),
            bytes_max: frame_bytes_max.saturating_mul(WAITING_FRAMES_MAX),
        }
    }

    /// Writes what waits and has `cx` woken when more can be written or comes to wait. Tells why nothing can be
    /// sent any more, if that is so.
    pub(crate) fn drive(&self, cx: &mut Context<'_>) -> Option<CloseReason> {
        let mut state = self.state.lock();
        match &mut state.task {
            Some(task) => task.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        if state.closed.is_none()
            && let Poll::Ready(Err(error)) = state.write(cx)
        {
            state.break_off(&error);
        }
        state.closed.clone()
    }

    /// Lets frames gather for the receive half's task, or leave from their callers again.
    pub(crate) fn gather(&self, gather: Gather) {
        self.is_gathering.store(gather == Gather::ForTheTask, Ordering::Relaxed);
    }

    /// Ends the way out: drops it and all that waits, and calls the receive half's task. The first reason
    /// of an orderly end stays; that of a failed write gives way to it.
    pub(crate) fn close(&self, reason: CloseReason) {
        let task = {
            let mut state = self.state.lock();
            if state.out.take().is_some() {
                state.waiting = BytesMut::new();
                state.closed = Some(reason);
            }
            state.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }

    fn full(&self) -> CloseReason {
        CloseReason::Io {
            kind: IoKind::Other,
            message: format!(
                "the server does not read: more than {} bytes would wait ({WAITING_FRAMES_MAX} times wire.frame_bytes_max)",
                self.bytes_max
            ),
        }
    }
}

/// Who writes the frames that are sent from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gather {
    /// Each caller its own.
    Not,
    /// The receive half's task, all that have gathered when it runs.
    ForTheTask,
}

impl<W: AsyncWrite + Unpin + Send + 'static> DuplexSend for Outbox<W> {
    fn send(&self, frame: &[u8]) -> Result<(), CloseReason> {
        let mut state = self.state.lock();
        if let Some(reason) = &state.closed {
            return Err(reason.clone());
        }
        let length = frame.len() + 1;
        if state.waiting.len() + length > self.bytes_max {
            return Err(self.full());
        }
        let is_first = state.waiting.is_empty();
        state.waiting.reserve(length);
        state.waiting.extend_from_slice(frame);
        state.waiting.put_u8(b'\n');
        if !is_first {
            return Ok(());
        }
        let mut outcome = Ok(());
        if !self.is_gathering.load(Ordering::Relaxed) {
            // Nobody has an interest in this pipe now; when it blocks, the task registers its own.
            match state.write(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(())) => return Ok(()),
                Poll::Pending => {}
                Poll::Ready(Err(error)) => {
                    let is_untouched = state.waiting.len() == length;
                    let reason = state.break_off(&error);
                    if is_untouched {
                        outcome = Err(reason);
                    }
                }
            }
        }
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        outcome
    }
}

impl<W: AsyncWrite + Unpin> State<W> {
    /// Writes and flushes what waits, as far as it goes.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(out) = &mut self.out else { return Poll::Ready(Ok(())) };
        while !self.waiting.is_empty() {
            match ready!(Pin::new(&mut *out).poll_write(cx, &self.waiting))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.waiting.advance(written),
            }
            self.is_unflushed = true;
        }
        if self.is_unflushed {
            if self.waiting.capacity() > IDLE_BYTES_MAX {
                self.waiting = BytesMut::new();
            }
            ready!(Pin::new(out).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// After a failed write: nothing more leaves, but the way stays open until the end is known.
    fn break_off(&mut self, error: &io::Error) -> CloseReason {
        let reason = io_reason(error);
        self.waiting = BytesMut::new();
        self.closed = Some(reason.clone());
        reason
    }
}

/// A failed read or write as a reason.
pub(crate) fn io_reason(error: &io::Error) -> CloseReason {
    let kind = match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::WriteZero => IoKind::BrokenPipe,
        io::ErrorKind::ConnectionReset => IoKind::Reset,
        io::ErrorKind::TimedOut => IoKind::TimedOut,
        _ => IoKind::Other,
    };
    CloseReason::Io { kind, message: error.to_string() }
}
