//! The signals between callers, the actor and the IO task of a connection.

use crate::port::CloseReason;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How callers and the actor reach the IO task.
#[derive(Default)]
pub(crate) struct IoSignals {
    pub waker: AtomicWaker,
    /// Deadlines have to be looked at although no timer ran out.
    look: AtomicBool,
    stop: AtomicBool,
    drain: AtomicBool,
    retired: Mutex<Option<Arc<CloseReason>>>,
    answered: AtomicBool,
}

impl IoSignals {
    /// Tells the IO task to end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Has the generation end as soon as nothing is under way on it.
    pub(super) fn drain(&self) {
        self.drain.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// The generation ends as soon as nothing is under way on it.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.load(Ordering::Acquire)
    }

    /// Why the generation must end although its link has not.
    pub(crate) fn retired(&self) -> Option<Arc<CloseReason>> {
        self.retired.lock().clone()
    }

    /// The server has answered something in this generation.
    pub(crate) fn answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Deadlines have to be looked at although no timer ran out; asked once.
    pub(crate) fn must_look(&self) -> bool {
        self.look.load(Ordering::Acquire) && self.look.swap(false, Ordering::AcqRel)
    }

    /// Has the IO task look at deadlines now.
    pub(super) fn look(&self) {
        self.look.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// The server has answered something.
    pub(super) fn has_answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Ends the generation although its link has not ended; the first reason counts.
    pub(super) fn retire(&self, reason: Arc<CloseReason>) {
        self.retired.lock().get_or_insert(reason);
        self.waker.wake();
    }
}
