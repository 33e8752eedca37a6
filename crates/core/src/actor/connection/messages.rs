//! What is told to a connection's actor, and how each message becomes an event.

use super::ConnectionActor;
use crate::actor::connector::Granted;
use crate::connect::Established;
use crate::event::EventKind;
use crate::guard::Panicked;
use crate::handle;
use crate::machine::{Event, TimerToken};
use crate::port::{CloseReason, Generation};
use actix::prelude::*;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A command of a handle.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Command(pub handle::Command);

/// The link is open; the handshake begins.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Dialed(pub Generation);

/// An attempt to connect has ended.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ConnectDone {
    pub generation: Generation,
    pub result: Result<Established, Arc<CloseReason>>,
}

/// The IO task of a generation has ended.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct IoDown {
    pub generation: Generation,
    pub reason: Arc<CloseReason>,
    pub answered: bool,
}

/// An attempt has had its permit for as long as a start may keep others waiting.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PermitOverdue(pub Generation);

/// A timer ran out.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TimerDone(pub TimerToken);

/// The board is closing: end everything. The sender is dropped once that is under way.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Close(pub mpsc::Sender<()>);

impl Handler<Command> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Command(command): Command, context: &mut Context<Self>) {
        match command {
            _ if self.closing => {}
            handle::Command::Demand => self.step(Event::Demand, context),
            handle::Command::Reconnect => self.obey(Event::Reconnect, context),
            handle::Command::Enable => self.obey(Event::Enable, context),
            handle::Command::Disable => {
                self.obey(Event::Disable, context);
                self.end_all();
            }
            handle::Command::ToolsFetched(fetched) => self.tools_fetched(fetched),
        }
    }
}

impl ConnectionActor {
    /// Carries out what a person asked for. Published even if nothing changes: somebody may wait for it.
    fn obey(&mut self, event: Event, context: &mut Context<Self>) {
        self.step(event, context);
        self.shared.note_carried_out();
        self.publish();
    }
}

impl Handler<Granted> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Granted { ticket, permit }: Granted, context: &mut Context<Self>) {
        if self.ticket != Some(ticket) {
            // Of a request that was withdrawn; dropping the permit gives it back.
            return;
        }
        self.permit = Some(permit);
        self.step(Event::PermitGranted, context);
    }
}

impl Handler<Dialed> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Dialed(generation): Dialed, context: &mut Context<Self>) {
        if self.machine.live() != Some(generation) {
            return self.drop_stale(generation, "an opened link");
        }
        self.step(Event::Dialed(generation), context);
    }
}

impl Handler<ConnectDone> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, done: ConnectDone, context: &mut Context<Self>) {
        if self.closing {
            return;
        }
        if self.machine.live() != Some(done.generation) {
            // Of an attempt that was given up: dropping it ends its link.
            return self.drop_stale(done.generation, "the end of an attempt");
        }
        self.dial = None;
        match done.result {
            Ok(established) => self.established(established, context),
            Err(reason) => self.step(Event::ConnectFailed(done.generation, reason), context),
        }
    }
}

impl Handler<IoDown> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, down: IoDown, context: &mut Context<Self>) {
        let IoDown { generation, reason, answered } = down;
        if generation < self.machine.generation {
            return self.drop_stale(generation, "the end of a link");
        }
        self.step(Event::Down { generation, reason, answered }, context);
    }
}

impl Handler<PermitOverdue> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, PermitOverdue(generation): PermitOverdue, _: &mut Context<Self>) {
        self.overdue = None;
        if self.machine.generation == generation {
            (self.permit, self.ticket) = (None, None);
        } else {
            self.drop_stale(generation, "an overdue permit");
        }
    }
}

impl Handler<TimerDone> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, TimerDone(token): TimerDone, context: &mut Context<Self>) {
        if !self.closing {
            self.step(Event::Timer(token), context);
        }
    }
}

impl Handler<Panicked> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Panicked { restarted }: Panicked, context: &mut Context<Self>) {
        self.env.emit(self.server.name(), self.machine.generation, EventKind::ActorPanicked { restarted });
        self.step(Event::Panicked { restarted }, context);
        // What a lost message would have published wakes those who waited for it.
        self.shared.forget_commands();
        self.publish();
    }
}

impl Handler<Close> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, Close(done): Close, context: &mut Context<Self>) {
        self.closing = true;
        self.step(Event::Disable, context);
        self.end_all();
        context.stop();
        drop(done);
    }
}
