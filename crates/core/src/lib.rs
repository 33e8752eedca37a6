//! The runtime of callboard: actors, the connection state machine, the call path and the catalog.
//!
//! This crate knows nothing about
//! - transports: it opens no socket, file or process and names no protocol below JSON-RPC,
//! - configuration files, credential stores and user interfaces,
//! - wall time: only tokio's clock counts.

pub mod handler;
pub mod port;
pub mod settings;
