//! The simulated world: the production actors over simulated servers, links, users and time, repeatable from a seed.
//!
//! This crate knows nothing about
//! - real transports, files, processes and sockets: whoever runs a world reads and writes its files,
//! - wall time: a world lives on tokio's paused clock.

mod callers;
mod ending;
mod ledger;
mod looks;
mod model;
mod recording;
pub mod report;
mod rng;
mod run;
mod scenario;
mod script;
mod shrink;
mod stage;
mod trace;
mod world;

pub use recording::{Band, Broken, CallRecord, GaugePoint, Recording, ServerTrack, Totals};
pub use run::{Instruments, SimError, play, run, run_with};
pub use scenario::{
    CallerPlan, Fault, HangPhase, Scenario, ScenarioError, ServerPlan, SimEra, Transport, Untruth,
    UserAction, UserWish,
};
pub use shrink::shrink;
pub use stage::Stage;
pub use trace::LineSink;
pub use world::Detail;
