//! The panic guard: keeps an actor's address and its queued messages through a panic of a handler.
//!
//! actix drops an actor whose handler panics, and its own `Supervisor` does not survive a panic at all
//! (lessons.md §2.2). This guard wraps the context's future, catches the unwind, waits, tells the actor, and
//! goes on with the same address and queue: three times a minute, then the actor is told that it must give up.

use actix::WeakAddr;
use actix::prelude::*;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Panics that an actor survives within [`WINDOW`].
pub(crate) const PANICS_MAX: usize = 3;
/// The time in which they count.
const WINDOW: Duration = Duration::from_secs(60);
/// Pause after the first panic, doubled with each further one.
const PAUSE: Duration = Duration::from_millis(100);

/// Told to a guarded actor after a panic of one of its handlers.
#[derive(Message, Debug, Clone, Copy)]
#[rtype(result = "()")]
pub(crate) struct Panicked {
    /// Its budget allows it to go on.
    pub restarted: bool,
}

/// Starts an actor under guard, on the current arbiter.
pub(crate) fn start<A>(make: impl FnOnce(&mut Context<A>) -> A) -> Addr<A>
where
    A: Actor<Context = Context<A>> + Handler<Panicked>,
{
    let mut context = Context::new();
    let address = context.address();
    let actor = make(&mut context);
    let guarded = Guarded {
        inner: Box::pin(context.into_future(actor)),
        actor: address.downgrade(),
        panics: VecDeque::new(),
        pause: None,
    };
    actix_rt::spawn(guarded);
    address
}

struct Guarded<A: Actor<Context = Context<A>> + Handler<Panicked>> {
    inner: Pin<Box<dyn Future<Output = ()>>>,
    actor: WeakAddr<A>,
    panics: VecDeque<Instant>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<A: Actor<Context = Context<A>> + Handler<Panicked>> Guarded<A> {
    fn note_panic(&mut self) {
        let now = Instant::now();
        while self.panics.front().is_some_and(|at| now - *at > WINDOW) {
            self.panics.pop_front();
        }
        self.panics.push_back(now);
        let restarted = self.panics.len() <= PANICS_MAX;
        tracing::error!(count = self.panics.len(), restarted, "an actor panicked");
        let factor = 1 << (self.panics.len() - 1).min(6);
        self.pause = Some(Box::pin(sleep(PAUSE * factor)));
        if let Some(actor) = self.actor.upgrade() {
            actor.do_send(Panicked { restarted });
        }
    }
}

impl<A: Actor<Context = Context<A>> + Handler<Panicked>> Future for Guarded<A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
            }
            #[cfg(test)]
            let _turn = turns::Turn::begin(std::any::type_name::<A>());
            // The actor's own state is put right by its `Panicked` handler; the context keeps nothing half done,
            // since handlers here are synchronous and own no futures of the context.
            match catch_unwind(AssertUnwindSafe(|| self.inner.as_mut().poll(cx))) {
                Ok(done) => return done,
                Err(_) => self.note_panic(),
            }
        }
    }
}

/// How long actors keep their thread, in real time. For tests alone.
#[cfg(test)]
pub(crate) mod turns {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    thread_local! {
        static LONGEST: RefCell<BTreeMap<&'static str, Duration>> = const { RefCell::new(BTreeMap::new()) };
    }

    pub(crate) struct Turn(&'static str, Instant);

    impl Turn {
        pub(crate) fn begin(actor: &'static str) -> Turn {
            Turn(actor, Instant::now())
        }
    }

    impl Drop for Turn {
        fn drop(&mut self) {
            LONGEST.with_borrow_mut(|longest| {
                let longest = longest.entry(self.0).or_default();
                *longest = self.1.elapsed().max(*longest);
            });
        }
    }

    /// The longest turn of each kind of actor since this was last asked, with all messages that it handled.
    pub(crate) fn take_longest() -> BTreeMap<&'static str, Duration> {
        LONGEST.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fragile {
        told: Vec<bool>,
    }

    impl Actor for Fragile {
        type Context = Context<Self>;
    }

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Break;

    #[derive(Message)]
    #[rtype(result = "Vec<bool>")]
    struct Ask;

    impl Handler<Break> for Fragile {
        type Result = ();
        fn handle(&mut self, _: Break, _: &mut Context<Self>) {
            panic!("as asked");
        }
    }

    impl Handler<Panicked> for Fragile {
        type Result = ();
        fn handle(&mut self, panicked: Panicked, _: &mut Context<Self>) {
            self.told.push(panicked.restarted);
        }
    }

    impl Handler<Ask> for Fragile {
        type Result = Vec<bool>;
        fn handle(&mut self, _: Ask, _: &mut Context<Self>) -> Vec<bool> {
            self.told.clone()
        }
    }

    #[actix::test]
    async fn an_actor_keeps_its_address_and_queue_until_its_budget_is_used_up() {
        tokio::time::pause();
        let actor = start(|_| Fragile { told: Vec::new() });
        for panics in 1..=PANICS_MAX + 1 {
            actor.do_send(Break);
            let told = actor.send(Ask).await.expect("still there");
            assert!(told.len() == panics || told.len() + 1 == panics, "{told:?} after {panics}");
        }
        let told = actor.send(Ask).await.expect("still there");
        assert_eq!(told, [true, true, true, false]);
    }
}
