//! What a request, a reply or a pause leaves behind to be undone, however it ends.

use super::ConnCore;
use crate::dialect::{Dialect, Withdrawal};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

/// Answers to one server's requests that may be under way at once.
const REPLIES_MAX: usize = 256;

/// One of the answers under way.
pub(super) struct ReplyPlace(Arc<ConnCore>);

impl ReplyPlace {
    pub(super) fn take(core: &Arc<ConnCore>) -> Option<ReplyPlace> {
        let place = ReplyPlace(core.clone());
        (core.replies.fetch_add(1, Ordering::Relaxed) < REPLIES_MAX).then_some(place)
    }
}

impl Drop for ReplyPlace {
    fn drop(&mut self) {
        self.0.replies.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connection's clocks stand still while this lives.
pub(crate) struct PausedClocks(pub(super) Arc<ConnCore>);

impl Drop for PausedClocks {
    fn drop(&mut self) {
        self.0.pending.lock().resume(Instant::now());
        self.0.io.look();
    }
}

/// Takes something that waits for no answer out of the table of those that do.
pub(super) struct Forget<'a> {
    pub core: &'a ConnCore,
    pub id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.core.pending.lock().remove(self.id);
    }
}

/// Calls a request off when its caller goes away, or its time is up.
pub(super) struct Withdraw<'a> {
    pub core: &'a Arc<ConnCore>,
    pub dialect: &'a dyn Dialect,
    pub id: u64,
    pub armed: bool,
}

impl Withdraw<'_> {
    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let timed_out = !self.core.pending.lock().remove(self.id);
        // `initialize` must never be cancelled, and before its end there is nothing else to cancel.
        if self.core.session().is_none() {
            return;
        }
        let reason = if timed_out { "timeout" } else { "cancelled by the client" };
        match self.dialect.withdrawal(self.id, reason, self.core.is_exchange()) {
            Withdrawal::Notify(frame) => self.core.tell(frame),
            Withdrawal::CloseStream => {}
        }
    }
}
