//! A link: the two halves of an open connection and the part that ends it.

use super::{BoxFuture, CloseReason};
use callboard_protocol::{Era, Frame, Malformed, ProtocolVersion, Reply};
use std::sync::Arc;
use std::task::{Context, Poll};

/// An open connection, as a dialer hands it over.
pub struct Link {
    /// The shared half that calls use.
    pub send: SendHalf,
    /// The half that the IO task owns.
    pub receive: Box<dyn ReceiveHalf>,
    /// Ends the connection and waits until nothing of it is left. Dropped without [`LinkCloser::close`], the
    /// implementation must still end what it started, as fast as it can.
    pub closer: Box<dyn LinkCloser>,
    /// What can be told of the peer.
    pub diagnostics: Arc<dyn Diagnostics>,
}

/// How requests leave.
#[derive(Clone)]
pub enum SendHalf {
    /// Frames leave in order over one pipe, socket or channel; answers come through the receive half.
    Duplex(Arc<dyn DuplexSend>),
    /// Each request is an exchange of its own, whose answer comes back to the caller.
    Exchange(Arc<dyn ExchangeSend>),
}

/// The send half of stdio, in-process, WebSocket and HTTP+SSE links.
pub trait DuplexSend: Send + Sync + 'static {
    /// Takes one frame, without its line end: writes it at once when nobody else is writing and the peer
    /// takes it, else leaves it for the receive half's task to write. Never waits.
    ///
    /// # Errors
    /// When the link has ended, or more waits than may wait. The frame was not sent, not even in part.
    fn send(&self, frame: &[u8]) -> Result<(), CloseReason>;

    /// Tells the link what the handshake agreed on.
    fn negotiated(&self, _negotiated: &Negotiated) {}
}

/// The send half of streamable HTTP.
pub trait ExchangeSend: Send + Sync + 'static {
    /// Sends one request and waits for its reply. Messages other than the reply go to the receive half.
    /// Dropping the future closes the response stream.
    ///
    /// # Errors
    /// Why this one exchange failed; the link lives on.
    fn exchange(&self, exchange: Exchange) -> BoxFuture<'static, Result<Reply, CloseReason>>;

    /// Sends a notification or a reply, for which the server owes nothing but an acknowledgement.
    ///
    /// # Errors
    /// Why it was not acknowledged.
    fn notify(
        &self,
        frame: Vec<u8>,
        headers: Vec<(String, String)>,
    ) -> BoxFuture<'static, Result<(), CloseReason>>;

    /// Tells the link what the handshake agreed on. From now on it sends the version header by itself
    /// and, in the legacy era, opens the standing GET stream.
    fn negotiated(&self, negotiated: &Negotiated);
}

/// One request on its way over an [`ExchangeSend`].
pub struct Exchange {
    /// Our id of the request.
    pub id: u64,
    /// The whole JSON-RPC message.
    pub frame: Vec<u8>,
    /// Headers beside those of every request: `MCP-Protocol-Version` before the handshake is done, `Mcp-*`.
    pub headers: Vec<(String, String)>,
    /// Told of every sign of life of this request: response headers, bytes, events.
    pub activity: Arc<dyn CallActivity>,
    /// A `subscriptions/listen`: its stream stays open, and no timer but the connect's applies.
    pub is_listen: bool,
    /// A request that may make a legacy server ask back on its standing stream, which should be open by then.
    pub may_ask_back: bool,
}

/// Told of the signs of life of requests.
pub trait CallActivity: Send + Sync + 'static {
    /// Something came in for this request.
    fn active(&self, id: u64);
}

/// What a handshake agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// The revision both sides speak.
    pub version: ProtocolVersion,
    /// Its era.
    pub era: Era,
}

/// The half of a link that its IO task owns.
pub trait ReceiveHalf: Send + 'static {
    /// The next thing that came in. Also writes what [`DuplexSend::send`] left to be written: the one task
    /// that polls this drives both directions.
    ///
    /// # Errors
    /// The reason why the link has ended. Nothing follows it.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<InFrame, CloseReason>>;
}

/// What comes in over a link.
#[derive(Debug)]
pub enum InFrame {
    /// A message.
    Frame(Frame),
    /// Text that is no message; ends the call it names.
    Malformed(Malformed),
    /// A message over the limit, reported as soon as the limit was passed; ends the call it names.
    TooLarge {
        /// The call it was meant to answer, when it can be told.
        id: Option<u64>,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A request that was taken by `send` could not be delivered; ends that call alone.
    Failed {
        /// Our id of the request.
        id: u64,
        /// Why.
        reason: CloseReason,
    },
}

/// Ends a link.
pub trait LinkCloser: Send + 'static {
    /// Ends the connection in good manners and waits, within the configured graces, until nothing that was
    /// started for it is left.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// What can be told of a peer beside its messages.
pub trait Diagnostics: Send + Sync + 'static {
    /// The last `bytes_max` bytes of a child's stderr.
    fn stderr_tail(&self, _bytes_max: usize) -> String {
        String::new()
    }

    /// The child's process id.
    fn process_id(&self) -> Option<u32> {
        None
    }
}

/// Diagnostics of a peer of which nothing can be told.
impl Diagnostics for () {}
