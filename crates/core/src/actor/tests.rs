//! The actors in a small world: what configuration, people and servers do to a connection at each moment of its
//! life.

mod apply;
mod by_hand;
mod catalog;
mod metrics;
mod scale;
mod stale;
mod world;
