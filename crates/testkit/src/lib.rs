//! The simulated world: the production actors over simulated servers, links, users and time, repeatable from a seed.
//!
//! This crate knows nothing about
//! - real transports, files, processes and sockets: whoever runs a world reads and writes its files,
//! - wall time: a world lives on tokio's paused clock.

mod recording;

pub use recording::{Band, Broken, CallRecord, GaugePoint, Recording, ServerTrack, Totals};
