//! The connector: dial permits, a pool of them for local and one for remote servers.
//!
//! Ownership: the board owns the connector; it owns the queues of waiting connections. A permit is a value
//! that gives itself back when it is dropped, so that no panic can leak one.
//! Control path: `ConnectionActor --Acquire--> ConnectorActor --Granted--> ConnectionActor`. Data path: none.

use crate::guard::Panicked;
use crate::telemetry;
use actix::WeakRecipient;
use actix::prelude::*;
use std::collections::BTreeMap;

/// Which pool a server draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    /// Process starts.
    Local,
    /// Network connects.
    Remote,
}

impl Pool {
    /// The word for it in metrics.
    fn as_str(self) -> &'static str {
        match self {
            Pool::Local => "local",
            Pool::Remote => "remote",
        }
    }
}

/// A request for a permit, counted in the order of asking over all servers of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub pool: Pool,
    pub number: u64,
}

/// Asks for a permit.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Acquire {
    pub ticket: Ticket,
    pub to: Recipient<Granted>,
}

/// Withdraws a request that has not been granted yet.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Withdraw(pub Ticket);

/// A permit to dial, granted.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Granted {
    /// The request that it answers.
    pub ticket: Ticket,
    pub permit: Permit,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Returned(Pool);

/// Permission to dial now. Gives itself back when dropped.
pub(crate) struct Permit {
    pool: Pool,
    connector: WeakRecipient<Returned>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Bounded although `do_send` ignores the mailbox's limit: there are never more than there are permits.
        if let Some(connector) = self.connector.upgrade() {
            connector.do_send(Returned(self.pool));
        }
    }
}

/// Hands out dial permits in the order of asking.
pub struct ConnectorActor {
    local: Lane,
    remote: Lane,
}

struct Lane {
    free: usize,
    in_use: usize,
    /// By number: the first to ask is the first to be served, and any of them can be withdrawn without a search.
    waiting: BTreeMap<u64, Recipient<Granted>>,
}

impl ConnectorActor {
    /// A connector with so many permits of each kind; at least one of each.
    pub fn new(local_max: usize, remote_max: usize) -> ConnectorActor {
        let lane = |free: usize| Lane { free: free.max(1), in_use: 0, waiting: BTreeMap::new() };
        ConnectorActor { local: lane(local_max), remote: lane(remote_max) }
    }

    fn lane(&mut self, pool: Pool) -> &mut Lane {
        match pool {
            Pool::Local => &mut self.local,
            Pool::Remote => &mut self.remote,
        }
    }

    fn grant(&mut self, pool: Pool, context: &mut Context<Self>) {
        let lane = self.lane(pool);
        while lane.free > 0 {
            let Some((number, to)) = lane.waiting.pop_first() else { return };
            lane.free -= 1;
            lane.in_use += 1;
            telemetry::dial_permits_in_use(pool.as_str(), lane.in_use);
            let connector = context.address().recipient::<Returned>().downgrade();
            to.do_send(Granted { ticket: Ticket { pool, number }, permit: Permit { pool, connector } });
        }
    }
}

impl Actor for ConnectorActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(4_096);
    }
}

impl Handler<Acquire> for ConnectorActor {
    type Result = ();

    fn handle(&mut self, message: Acquire, context: &mut Context<Self>) {
        let Ticket { pool, number } = message.ticket;
        self.lane(pool).waiting.insert(number, message.to);
        self.grant(pool, context);
    }
}

impl Handler<Withdraw> for ConnectorActor {
    type Result = ();

    fn handle(&mut self, Withdraw(ticket): Withdraw, _: &mut Context<Self>) {
        self.lane(ticket.pool).waiting.remove(&ticket.number);
    }
}

impl Handler<Returned> for ConnectorActor {
    type Result = ();

    fn handle(&mut self, Returned(pool): Returned, context: &mut Context<Self>) {
        let lane = self.lane(pool);
        lane.free += 1;
        lane.in_use = lane.in_use.saturating_sub(1);
        telemetry::dial_permits_in_use(pool.as_str(), lane.in_use);
        self.grant(pool, context);
    }
}

impl Handler<Panicked> for ConnectorActor {
    type Result = ();

    fn handle(&mut self, _: Panicked, context: &mut Context<Self>) {
        self.grant(Pool::Local, context);
        self.grant(Pool::Remote, context);
    }
}
