//! The transports: what opens a [`Link`](callboard_core::port::Link) to a server and carries its frames, over
//! the pipes of a child process, over streamable HTTP or its older form HTTP+SSE, over WebSocket, or over a stream inside this
//! process.
//!
//! This crate knows nothing about
//! - what frames mean: of methods it reads only `initialize`, which mints an HTTP session,
//! - reconnecting, states, clocks of calls and policy: a link opens once, ends once and says why,
//! - configuration files and credentials: it is given specs, settings and ready-made headers.

mod address;
mod client;
mod dialer;
mod duplex;
pub mod http;
mod in_process;
mod legacy_sse;
mod line;
mod network;
mod process;
pub mod sse;
mod stdio;
mod websocket;

pub use dialer::Transports;
pub use in_process::{InProcessServers, dial_in_process};
pub use legacy_sse::dial_sse;
pub use network::Network;
pub use stdio::dial_stdio;
pub use websocket::dial_websocket;
