//! The IO task: one a generation. It reads, lets the link write what is left to be written, looks at
//! deadlines, and on its way out poisons the core.

use crate::conn_core::ConnCore;
use crate::inbound::Inbound;
use crate::pending::Outcome;
use crate::port::{CloseReason, InFrame, LinkCloser, ReceiveHalf};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep_until};

/// Held until nothing of the link is left; the board waits for it.
pub(crate) type AliveToken = Option<tokio::sync::mpsc::Sender<()>>;

/// Frames handled before other tasks of the thread get their turn.
const FRAMES_A_TURN: usize = 128;

/// Runs until the link ends, or until it is told to stop. What it returns is why.
pub(crate) async fn run(
    core: Arc<ConnCore>,
    receive: Box<dyn ReceiveHalf>,
    closer: Box<dyn LinkCloser>,
    inbound: Inbound,
    token: AliveToken,
) -> Arc<CloseReason> {
    let guard = PoisonOnExit(core.clone());
    let timer = Box::pin(sleep_until(Instant::now()));
    let mut task = IoTask { core: core.clone(), receive, inbound, timer };
    let reason = poll_fn(|cx| task.poll(cx)).await;
    let IoTask { receive, .. } = task;
    if core.is_exchange() && !matches!(*reason, CloseReason::Cancelled) {
        finish_exchanges(core, receive, closer, reason.clone(), token);
        std::mem::forget(guard);
        return reason;
    }
    core.poison(&reason);
    drop(guard);
    drop(receive);
    end_link(&core, closer, token);
    reason
}

/// Closes the link beside everything else; the board waits for it when it is closed itself.
fn end_link(core: &ConnCore, closer: Box<dyn LinkCloser>, token: AliveToken) {
    core.env.runtime.spawn(async move {
        closer.close().await;
        drop(token);
    });
}

/// A generation of exchanges has ended for new requests; those under way have answers of their own to come.
fn finish_exchanges(
    core: Arc<ConnCore>,
    receive: Box<dyn ReceiveHalf>,
    closer: Box<dyn LinkCloser>,
    reason: Arc<CloseReason>,
    token: AliveToken,
) {
    core.close_for_new(&reason);
    let runtime = core.env.runtime.clone();
    runtime.spawn(async move {
        let mut timer = Box::pin(sleep_until(Instant::now()));
        poll_fn(|cx| {
            core.io.waker.register(cx.waker());
            sweep(&core, &mut timer, cx);
            match core.pending_len() == 0 || core.io.is_stopped() {
                true => Poll::Ready(()),
                false => {
                    // Nobody wakes us when the last of them ends, so look again now and then.
                    let soon = Instant::now() + std::time::Duration::from_millis(100);
                    if timer.deadline() > soon {
                        timer.as_mut().reset(soon);
                    }
                    let _ = timer.as_mut().poll(cx);
                    Poll::Pending
                }
            }
        })
        .await;
        core.poison(&reason);
        drop(receive);
        closer.close().await;
        drop(token);
    });
}

/// However the task ends, by return, abort or panic: nobody is left waiting.
struct PoisonOnExit(Arc<ConnCore>);

impl Drop for PoisonOnExit {
    fn drop(&mut self) {
        let reason = self.0.closed().unwrap_or_else(|| Arc::new(CloseReason::Cancelled));
        self.0.poison(&reason);
    }
}

struct IoTask {
    core: Arc<ConnCore>,
    receive: Box<dyn ReceiveHalf>,
    inbound: Inbound,
    timer: Pin<Box<Sleep>>,
}

impl IoTask {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arc<CloseReason>> {
        self.core.io.waker.register(cx.waker());
        if self.core.io.is_stopped() {
            return Poll::Ready(Arc::new(CloseReason::Cancelled));
        }
        if let Some(reason) = self.core.io.retired() {
            return Poll::Ready(reason);
        }
        for turn in 0.. {
            match self.receive.poll_receive(cx) {
                Poll::Ready(Ok(frame)) => self.take(frame),
                Poll::Ready(Err(reason)) => return Poll::Ready(Arc::new(reason)),
                Poll::Pending => break,
            }
            if turn == FRAMES_A_TURN {
                cx.waker().wake_by_ref();
                break;
            }
        }
        sweep(&self.core, &mut self.timer, cx);
        Poll::Pending
    }

    fn take(&mut self, frame: InFrame) {
        match frame {
            InFrame::Frame(frame) => self.inbound.take(frame),
            InFrame::Malformed(malformed) => {
                self.core.metrics.malformed();
                tracing::debug!(server = %self.core.server, reason = %malformed.reason, "not a message");
                if let Some(id) = malformed.id {
                    let body = callboard_protocol::ReplyBody::Invalid(malformed.reason);
                    self.core.complete(id, Outcome::Reply(body));
                }
            }
            InFrame::TooLarge { id, limit } => match id {
                Some(id) => self.core.complete(id, Outcome::TooLarge(limit)),
                None => self.core.note_unmatched(),
            },
            InFrame::Failed { id, reason } => self.core.complete(id, Outcome::Lost(Arc::new(reason))),
        }
    }
}

/// Ends what is overdue and sets the timer for the rest.
fn sweep(core: &ConnCore, timer: &mut Pin<Box<Sleep>>, cx: &mut Context<'_>) {
    if !core.io.must_look() && !timer.is_elapsed() {
        return;
    }
    while let Some(next) = core.sweep(Instant::now()) {
        timer.as_mut().reset(next);
        if timer.as_mut().poll(cx).is_pending() {
            return;
        }
    }
    // Nothing is due: a request that comes with a deadline has this task look again.
    timer.as_mut().reset(Instant::now() + FAR);
    let _ = timer.as_mut().poll(cx);
}

/// Far enough never to matter, near enough for the clock to hold.
const FAR: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 60 * 60);
