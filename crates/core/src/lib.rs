//! The runtime of callboard: actors, the connection state machine, the call path and the catalog.
//!
//! This crate knows nothing about
//! - transports: it opens no socket, file or process and names no protocol below JSON-RPC,
//! - configuration files, credential stores and user interfaces,
//! - wall time: only tokio's clock counts.

pub mod actor;
mod ask;
pub mod call;
pub mod catalog;
mod conn_core;
mod connect;
pub mod dialect;
pub mod environment;
pub mod event;
mod gate;
mod guard;
pub mod handle;
pub mod handler;
mod handshake;
mod health;
mod inbound;
mod io_task;
mod listen;
mod lists;
pub mod machine;
mod pending;
pub mod port;
mod session;
pub mod settings;
pub mod status;
pub mod telemetry;
pub mod timeline;
mod tool_call;
mod view;
