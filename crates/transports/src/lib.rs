//! The transports: what opens a [`Link`](callboard_core::port::Link) to a server and carries its frames, over
//! the pipes of a child process, over HTTP, or over a stream inside this process.
//!
//! This crate knows nothing about
//! - what frames mean: handshakes, eras, calls and their deadlines are the core's,
//! - reconnecting, states and policy: a link opens once, ends once and says why,
//! - configuration files and credentials: it is given specs, settings and ready-made headers.

mod duplex;
mod in_process;
mod line;
mod process;
mod stdio;

pub use in_process::{InProcessServers, dial_in_process};
pub use stdio::dial_stdio;
