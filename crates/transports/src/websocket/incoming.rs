//! The connection below the WebSocket: what comes in leaves a mark and is kept within the limit of a message.

use super::limit::MessageLimit;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that remembers whether bytes have come in. Any byte is a sign of life: a pong may have to wait for
/// the end of a large message.
pub(super) struct Incoming<S> {
    stream: S,
    limit: MessageLimit,
    has_read: bool,
}

impl<S> Incoming<S> {
    /// Reads messages of at most so many bytes; longer ones come in cut.
    pub(super) fn new(stream: S, message_bytes_max: usize) -> Incoming<S> {
        Incoming { stream, limit: MessageLimit::new(message_bytes_max), has_read: false }
    }

    /// Have bytes come in since this was asked last?
    pub(super) fn take_read(&mut self) -> bool {
        std::mem::take(&mut self.has_read)
    }

    /// Counts a message that was read: was it cut?
    pub(super) fn hand_out(&mut self) -> bool {
        self.limit.hand_out()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Incoming<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let start = buffer.filled().len();
        loop {
            let held = this.limit.held().len();
            if buffer.remaining() <= held {
                return Poll::Ready(Err(io::Error::other("no room to read a frame")));
            }
            buffer.put_slice(this.limit.held());
            let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
            let is_over = buffer.filled().len() == start + held;
            if is_over || !matches!(read, Poll::Ready(Ok(()))) {
                buffer.set_filled(start);
                return Poll::Ready(ready!(read));
            }
            this.has_read = true;
            let kept = this.limit.apply(&mut buffer.filled_mut()[start..]);
            buffer.set_filled(start + kept);
            if kept > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Incoming<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
