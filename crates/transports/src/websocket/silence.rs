//! Notices a peer that is gone without a word: after silence it is pinged, and given up when nothing follows.

use callboard_core::port::{CloseReason, IoKind};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The clock of one connection. It is not touched by messages, which only leave a mark: a ping goes out after
/// between one and two times `ping_after`.
pub(super) struct Silence {
    ping_after: Duration,
    pong_within: Duration,
    is_pinged: bool,
    timer: Pin<Box<Sleep>>,
}

/// What the clock asks for.
#[derive(Debug)]
pub(super) enum Alarm {
    /// Nothing has come in: a ping is due.
    Ping,
    /// Nothing has followed on a ping: the peer is gone.
    Lost(CloseReason),
}

impl Silence {
    /// A clock that starts now; none when the setting is off.
    pub(super) fn new(ping_after: Duration, pong_within: Duration) -> Option<Silence> {
        let timer = Box::pin(sleep_until(Instant::now() + ping_after));
        (!ping_after.is_zero()).then_some(Silence { ping_after, pong_within, is_pinged: false, timer })
    }

    /// Ready when something is to be done; `has_read` takes the mark of bytes that came in.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, has_read: impl Fn() -> bool) -> Poll<Alarm> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            match (has_read(), self.is_pinged) {
                (true, _) => {
                    self.is_pinged = false;
                    self.wait(self.ping_after);
                }
                (false, false) => {
                    self.is_pinged = true;
                    self.wait(self.pong_within);
                    return Poll::Ready(Alarm::Ping);
                }
                (false, true) => {
                    let message = format!(
                        "no sign of life within {} ms of a ping (websocket.pong_timeout_ms)",
                        self.pong_within.as_millis()
                    );
                    return Poll::Ready(Alarm::Lost(CloseReason::Io { kind: IoKind::TimedOut, message }));
                }
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.timer.as_mut().reset(Instant::now() + time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test(start_paused = true)]
    async fn silence_brings_a_ping_and_then_the_end() {
        let seconds = Duration::from_secs;
        let mut silence = Silence::new(seconds(25), seconds(10)).expect("on");
        let begun = Instant::now();
        // Bytes came before the first look, and none since.
        let marks = std::cell::Cell::new(true);
        let mut next = async || poll_fn(|cx| silence.poll(cx, || marks.take())).await;
        assert!(matches!(next().await, Alarm::Ping));
        assert_eq!(begun.elapsed(), seconds(50));
        marks.set(true);
        assert!(matches!(next().await, Alarm::Ping), "a pong starts all anew");
        assert_eq!(begun.elapsed(), seconds(85));
        assert!(matches!(next().await, Alarm::Lost(CloseReason::Io { kind: IoKind::TimedOut, .. })));
        assert_eq!(begun.elapsed(), seconds(95));
        assert!(Silence::new(Duration::ZERO, seconds(1)).is_none());
    }
}
