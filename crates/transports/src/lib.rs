//! The transports of callboard: each turns an admitted entry into a [`callboard_core::port::Link`].
//!
//! This crate knows nothing about
//! - policy, configuration files and scopes: it dials what it is given,
//! - the meaning of messages: it reads envelopes, and of methods only `initialize`, which mints a session,
//! - retries of calls, reconnects and clocks of calls: these are the core's.

mod client;
pub mod dialer;
pub mod http;
pub mod sse;
