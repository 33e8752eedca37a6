//! One stream for two halves and a closer, any of which can end it for all.

use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What an in-process server is reached by.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// A stream of any type.
pub(super) type BoxStream = Box<dyn Stream>;

/// A stream that reads as ended and refuses writes once it was closed through any of its clones.
#[derive(Clone)]
pub(super) struct SharedStream(Arc<Mutex<Option<BoxStream>>>);

impl SharedStream {
    pub(super) fn new(stream: BoxStream) -> SharedStream {
        SharedStream(Arc::new(Mutex::new(Some(stream))))
    }

    /// Drops the stream.
    pub(super) fn close(&self) {
        let stream = self.0.lock().take();
        // Outside the lock, since the drop may run code of the host.
        drop(stream);
    }

    fn with<T>(
        &self,
        closed: impl FnOnce() -> io::Result<T>,
        open: impl FnOnce(Pin<&mut BoxStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self.0.lock().as_mut() {
            Some(stream) => open(Pin::new(stream)),
            None => Poll::Ready(closed()),
        }
    }
}

fn broken<T>() -> io::Result<T> {
    Err(io::ErrorKind::BrokenPipe.into())
}

impl AsyncRead for SharedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.with(|| Ok(()), |stream| stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.with(broken, |stream| stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(broken, |stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|| Ok(()), |stream| stream.poll_shutdown(cx))
    }
}
