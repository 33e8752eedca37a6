//! What becomes of a connection when the configuration changes under it.

use super::{ConnectionActor, rules};
use crate::event::EventKind;
use crate::machine::{DisabledBy, Event, State};
use crate::port::{Admitted, Generation, ServerSpec};
use actix::prelude::*;
use tokio::sync::mpsc;

/// The server's entry is this one now.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Replace(pub Admitted);

/// The server's entry switches it off.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct EntryDisabled;

/// The server is taken out of the board. The sender is dropped once nothing that was started for it is left.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Remove(pub mpsc::Sender<()>);

/// What is under way on a replaced generation has had its time.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DrainOverdue(pub Generation);

/// Both entries lead to the same connection; they may come from different files.
pub(crate) fn leads_to_the_same(one: &ServerSpec, other: &ServerSpec) -> bool {
    one.transport == other.transport && one.options == other.options
}

impl Handler<Replace> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Replace(server): Replace, context: &mut Context<Self>) {
        let is_same = leads_to_the_same(self.server.spec(), server.spec());
        self.server = server;
        self.shared.resize_gate(&self.server);
        let is_off = matches!(self.machine.state, State::Disabled { by: DisabledBy::Entry, .. });
        if !is_same || is_off {
            // The permit's pool is that of its own request, so it finds its way back whatever the new entry says.
            self.rules = rules(&self.env, &self.server);
            self.tell(self.machine.generation, EventKind::ServerReplaced);
            self.step(Event::Replaced, context);
        }
        self.publish();
    }
}

impl Handler<EntryDisabled> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, _: EntryDisabled, context: &mut Context<Self>) {
        self.tell(self.machine.generation, EventKind::ServerReplaced);
        self.step(Event::EntryDisabled, context);
    }
}

impl Handler<Remove> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Remove(done): Remove, context: &mut Context<Self>) {
        self.step(Event::Removed, context);
        self.closing = true;
        self.end_all();
        self.tell(self.machine.generation, EventKind::ServerRemoved);
        let leaving = std::mem::take(&mut self.leaving).into_iter();
        let all = leaving.chain(std::mem::take(&mut self.replaced));
        self.env.runtime.spawn(async move {
            for gone in all {
                gone.wait().await;
            }
            drop(done);
        });
        context.stop();
    }
}

impl Handler<DrainOverdue> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, DrainOverdue(generation): DrainOverdue, _: &mut Context<Self>) {
        if let Some(core) = self.ended(generation) {
            core.io.stop();
        }
    }
}
