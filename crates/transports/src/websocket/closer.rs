//! The end of a WebSocket link: the closing handshake, bounded.

use super::{Shared, Socket};
use callboard_core::port::{BoxFuture, CloseReason, LinkCloser};
use futures_util::{SinkExt, StreamExt};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// How long the whole farewell may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How much of what a peer still sends is read in one go, in bytes.
const DRAIN_BYTES: usize = 16 * 1024;

/// Ends a link: at once when dropped, with a close frame when closed.
pub(super) struct WebSocketCloser(pub(super) Arc<Shared>);

impl LinkCloser for WebSocketCloser {
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let (socket, code) = {
                let mut open = self.0.open.lock();
                (open.socket.take(), open.code)
            };
            self.0.outbox.close(CloseReason::Cancelled);
            if let Some(socket) = socket {
                // Whatever is not done by then is cut off with the socket.
                let _ = timeout(CLOSE_TIMEOUT, farewell(&self.0, socket, code)).await;
            }
        })
    }
}

impl Drop for WebSocketCloser {
    fn drop(&mut self) {
        drop(self.0.open.lock().socket.take());
        self.0.outbox.close(CloseReason::Cancelled);
    }
}

/// Sends what waits and a close frame, and waits for the peer's.
async fn farewell(shared: &Shared, mut socket: Socket, code: CloseCode) {
    let sent = poll_fn(|cx| shared.outbox.drive(&mut socket, cx)).await;
    if sent.is_ok() {
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static("") };
        let _ = socket.send(Message::Close(Some(frame))).await;
    }
    while let Some(Ok(message)) = socket.next().await {
        if message.is_close() {
            break;
        }
    }
    if code != CloseCode::Normal {
        // Unread bytes at the close would reset the connection, and the code would be lost with it.
        let mut rest = vec![0; DRAIN_BYTES];
        while socket.get_mut().read(&mut rest).await.is_ok_and(|read| read > 0) {}
    }
}
