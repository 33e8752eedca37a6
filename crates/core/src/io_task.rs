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
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep_until};

/// Held by everything that an attempt to connect has started, until nothing of it is left. The board waits for
/// it, and so does whoever has its [`Gone`].
#[derive(Clone, Default)]
pub(crate) struct AliveToken {
    _held: Option<Arc<Held>>,
}

struct Held {
    _gone: watch::Sender<()>,
    _of_board: Option<mpsc::Sender<()>>,
    _of_attempt: AliveToken,
}

impl AliveToken {
    /// A token of its own, and the way to learn that its last holder has let go of it.
    pub(crate) fn new(of_board: Option<mpsc::Sender<()>>) -> (AliveToken, Gone) {
        AliveToken::with(of_board, AliveToken::default())
    }

    /// A token of a part, which keeps this one alive.
    pub(crate) fn of_part(&self) -> (AliveToken, Gone) {
        AliveToken::with(None, self.clone())
    }

    fn with(of_board: Option<mpsc::Sender<()>>, of_attempt: AliveToken) -> (AliveToken, Gone) {
        let (held, gone) = watch::channel(());
        let held = Held { _gone: held, _of_board: of_board, _of_attempt: of_attempt };
        (AliveToken { _held: Some(Arc::new(held)) }, Gone(gone))
    }
}

/// Tells that nothing is left of what an [`AliveToken`] was handed to.
#[derive(Clone)]
pub(crate) struct Gone(watch::Receiver<()>);

impl Gone {
    /// Waits until nothing is left.
    pub(crate) async fn wait(mut self) {
        while self.0.changed().await.is_ok() {}
    }

    /// Nothing is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.has_changed().is_err()
    }
}

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
    if core.is_exchange() && !matches!(*reason, CloseReason::Cancelled) {
        core.close_for_new(&reason);
        core.env.runtime.spawn(finish_exchanges(task, guard, closer, reason.clone(), token));
        return reason;
    }
    core.poison(&reason);
    drop(guard);
    drop(task);
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

/// How often a generation that takes nothing new looks whether its last exchange has ended.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// A generation of exchanges has ended for new requests; those under way have answers of their own to come, and
/// messages before them, which must not be left to fill their inbox.
async fn finish_exchanges(
    mut task: IoTask,
    guard: PoisonOnExit,
    closer: Box<dyn LinkCloser>,
    reason: Arc<CloseReason>,
    token: AliveToken,
) {
    let core = task.core.clone();
    let mut receives = true;
    poll_fn(|cx| {
        core.io.waker.register(cx.waker());
        if core.pending_len() == 0 || core.io.is_stopped() {
            return Poll::Ready(());
        }
        receives = receives && task.receive(cx).is_none();
        sweep(&core, &mut task.timer, cx);
        look_soon(&mut task.timer, cx);
        Poll::Pending
    })
    .await;
    core.poison(&reason);
    drop(guard);
    drop(task);
    closer.close().await;
    drop(token);
}

/// Nobody wakes the task when the last request ends, so it looks again now and then.
fn look_soon(timer: &mut Pin<Box<Sleep>>, cx: &mut Context<'_>) {
    let soon = Instant::now() + LAST_LOOK;
    if timer.deadline() > soon {
        timer.as_mut().reset(soon);
    }
    let _ = timer.as_mut().poll(cx);
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
        if let Some(reason) = self.receive(cx) {
            return Poll::Ready(Arc::new(reason));
        }
        sweep(&self.core, &mut self.timer, cx);
        if self.core.io.is_draining() {
            if self.core.pending_len() == 0 {
                return Poll::Ready(Arc::new(CloseReason::Cancelled));
            }
            look_soon(&mut self.timer, cx);
        }
        Poll::Pending
    }

    /// Takes in what has come; the reason when the link has ended.
    fn receive(&mut self, cx: &mut Context<'_>) -> Option<CloseReason> {
        for _ in 0..FRAMES_A_TURN {
            match self.receive.poll_receive(cx) {
                Poll::Ready(Ok(frame)) => self.take(frame),
                Poll::Ready(Err(reason)) => return Some(reason),
                Poll::Pending => return None,
            }
        }
        cx.waker().wake_by_ref();
        None
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
const FAR: Duration = Duration::from_secs(7 * 24 * 60 * 60);
