//! The connector: dial permits, a pool of them for local and one for remote servers.
//!
//! Ownership: the board owns the connector; it owns the queues of waiting connections. A permit is a value
//! that gives itself back when it is dropped, so that no panic can leak one.
//! Control path: `ConnectionActor --Acquire--> ConnectorActor --Granted--> ConnectionActor`. Data path: none.

use crate::guard::Panicked;
use crate::port::ServerName;
use actix::WeakRecipient;
use actix::prelude::*;
use std::collections::VecDeque;

/// Which pool a server draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Process starts.
    Local,
    /// Network connects.
    Remote,
}

/// Asks for a permit.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Acquire {
    pub server: ServerName,
    pub pool: Pool,
    pub to: Recipient<Granted>,
}

/// Withdraws a request that has not been granted yet.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Withdraw {
    pub server: ServerName,
    pub pool: Pool,
}

/// A permit to dial, granted.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Granted(pub Permit);

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
    waiting: VecDeque<(ServerName, Recipient<Granted>)>,
}

impl ConnectorActor {
    /// A connector with so many permits of each kind; at least one of each.
    pub fn new(local_max: usize, remote_max: usize) -> ConnectorActor {
        let lane = |free: usize| Lane { free: free.max(1), waiting: VecDeque::new() };
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
            let Some((_, to)) = lane.waiting.pop_front() else { return };
            lane.free -= 1;
            let connector = context.address().recipient::<Returned>().downgrade();
            to.do_send(Granted(Permit { pool, connector }));
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
        self.lane(message.pool).waiting.push_back((message.server, message.to));
        self.grant(message.pool, context);
    }
}

impl Handler<Withdraw> for ConnectorActor {
    type Result = ();

    fn handle(&mut self, message: Withdraw, _: &mut Context<Self>) {
        self.lane(message.pool).waiting.retain(|(server, _)| *server != message.server);
    }
}

impl Handler<Returned> for ConnectorActor {
    type Result = ();

    fn handle(&mut self, Returned(pool): Returned, context: &mut Context<Self>) {
        self.lane(pool).free += 1;
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
