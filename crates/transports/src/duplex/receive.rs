//! The receive half: one poll drives both directions, and finds out why the peer ended.

use super::outbox::{Gather, Outbox, io_reason};
use crate::line::LineDecoder;
use callboard_core::port::{CloseReason, InFrame, ReceiveHalf};
use callboard_protocol::Frame;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a peer that closed or broke its stream may take to end, so that the reason can say how. A program
/// that returns from `main` needs a few milliseconds, one with exit handlers some tens.
const ENDING_TIME: Duration = Duration::from_millis(200);

/// How long the streams of a peer that has ended may stay open: what it wrote is in them already, what
/// comes later is from a descendant that holds them.
const DRAIN_TIME: Duration = Duration::from_millis(50);

/// What tells of a peer beside its stream.
pub(crate) trait PeerWatch: Send + Unpin + 'static {
    /// Ready once the peer has ended, whatever its stream says.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ready once nothing more can be learnt about the end.
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The reason of the end, as far as it is known; `broken` is the failure of the stream, if it failed.
    fn reason(&self, broken: Option<CloseReason>) -> CloseReason;
}

/// A peer of which nothing is known but its stream.
impl PeerWatch for () {
    fn poll_ended(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn poll_settled(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn reason(&self, broken: Option<CloseReason>) -> CloseReason {
        broken.unwrap_or(CloseReason::Ended { exit: None, stderr_tail: String::new() })
    }
}

/// The receive half of a duplex link.
pub(crate) struct DuplexReceive<R, W: AsyncWrite + Unpin + Send + 'static, P> {
    reader: R,
    outbox: Arc<Outbox<W>>,
    decoder: LineDecoder,
    replies_in_read: usize,
    peer: P,
    phase: Phase,
}

/// Open → Ending → Ended, or Open → Ended when we closed the link.
enum Phase {
    /// Both directions work, as far as anyone knows.
    Open,
    /// Something ended; what is still on its way is taken in, and the rest of the story is waited for.
    Ending(Ending),
    /// Over.
    Ended(CloseReason),
}

struct Ending {
    is_read_out: bool,
    broken: Option<CloseReason>,
    is_peer_gone: bool,
    until: Pin<Box<Sleep>>,
}

impl Ending {
    fn within(time: Duration) -> Ending {
        let until = Box::pin(sleep_until(Instant::now() + time));
        Ending { is_read_out: false, broken: None, is_peer_gone: false, until }
    }
}

impl<R, W, P> DuplexReceive<R, W, P>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
    P: PeerWatch,
{
    /// Reads lines of at most `frame_bytes_max` bytes from `reader` and writes what waits in `outbox`.
    pub(crate) fn new(
        reader: R,
        outbox: Arc<Outbox<W>>,
        frame_bytes_max: usize,
        peer: P,
    ) -> DuplexReceive<R, W, P> {
        let decoder = LineDecoder::new(frame_bytes_max);
        DuplexReceive { reader, outbox, decoder, replies_in_read: 0, peer, phase: Phase::Open }
    }

    fn ending(&mut self) -> &mut Ending {
        if let Phase::Open = self.phase {
            self.phase = Phase::Ending(Ending::within(ENDING_TIME));
        }
        match &mut self.phase {
            Phase::Ending(ending) => ending,
            Phase::Open | Phase::Ended(_) => {
                unreachable!("the phase was set above, and an ended link does not read")
            }
        }
    }

    fn end(&mut self, reason: CloseReason) -> CloseReason {
        self.outbox.close(reason.clone());
        self.phase = Phase::Ended(reason.clone());
        reason
    }

    /// Lets callers gather when one read answered several of them; a lone reply lets its caller write at once.
    fn count_reply(&mut self, frame: &InFrame) {
        if let InFrame::Frame(Frame::Reply(_)) = frame {
            self.replies_in_read += 1;
            match self.replies_in_read {
                1 => self.outbox.gather(Gather::Not),
                2 => self.outbox.gather(Gather::ForTheTask),
                _ => {}
            }
        }
    }

    /// Reads once; true when something came in or the stream ended.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if matches!(&self.phase, Phase::Ending(ending) if ending.is_read_out) {
            return Poll::Pending;
        }
        let read = {
            // Dropped while pending, this future has read nothing.
            let mut space = self.decoder.space();
            pin!(self.reader.read_buf(&mut space)).poll(cx)
        };
        match read {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(0)) => self.ending().is_read_out = true,
            Poll::Ready(Ok(_)) => self.replies_in_read = 0,
            Poll::Ready(Err(error)) => {
                let ending = self.ending();
                ending.is_read_out = true;
                ending.broken.get_or_insert(io_reason(&error));
            }
        }
        Poll::Ready(())
    }

    /// Looks whether the peer has ended, and whether the link has.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let is_peer_known_gone = matches!(&self.phase, Phase::Ending(ending) if ending.is_peer_gone);
        if !is_peer_known_gone && self.peer.poll_ended(cx).is_ready() {
            let ending = self.ending();
            ending.is_peer_gone = true;
            ending.until.as_mut().reset(Instant::now() + DRAIN_TIME);
        }
        let Phase::Ending(ending) = &mut self.phase else { return Poll::Pending };
        let is_told = ending.is_read_out && self.peer.poll_settled(cx).is_ready();
        if is_told || ending.until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(self.peer.reason(ending.broken.clone()));
        }
        Poll::Pending
    }
}

impl<R, W, P> ReceiveHalf for DuplexReceive<R, W, P>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
    P: PeerWatch,
{
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<InFrame, CloseReason>> {
        loop {
            if let Phase::Ended(reason) = &self.phase {
                return Poll::Ready(Err(reason.clone()));
            }
            if let Some(frame) = self.decoder.next_frame() {
                self.count_reply(&frame);
                return Poll::Ready(Ok(frame));
            }
            // Each read is preceded by a write, so that neither direction starves the other.
            match self.outbox.drive(cx) {
                None => {}
                Some(CloseReason::Cancelled) => return Poll::Ready(Err(self.end(CloseReason::Cancelled))),
                Some(broken) => drop(self.ending().broken.get_or_insert(broken)),
            }
            // A link that is ending is over at its time, even if a descendant of the peer keeps on writing.
            if let Phase::Ending(_) = self.phase
                && let Poll::Ready(reason) = self.poll_end(cx)
            {
                return Poll::Ready(self.decoder.finish().map_or_else(|| Err(self.end(reason)), Ok));
            }
            if self.poll_read(cx).is_ready() {
                continue;
            }
            if let Phase::Open = self.phase
                && let Poll::Ready(reason) = self.poll_end(cx)
            {
                return Poll::Ready(Err(self.end(reason)));
            }
            return Poll::Pending;
        }
    }
}

impl<R, W: AsyncWrite + Unpin + Send + 'static, P> Drop for DuplexReceive<R, W, P> {
    fn drop(&mut self) {
        // Nobody would write what waits.
        self.outbox.close(CloseReason::Cancelled);
    }
}
