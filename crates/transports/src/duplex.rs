//! Two directions of newline-delimited frames over one peer: what stdio and in-process links share.

mod outbox;
mod receive;

pub(crate) use outbox::{Outbox, io_reason};
pub(crate) use receive::{DuplexReceive, PeerWatch};
