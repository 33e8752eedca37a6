//! Metrics as Prometheus reads them: an own small recorder, and an address where its text can be fetched. Taken
//! instead of a library since that brings a score of crates for sketches and atomics that nobody here needs.

mod listen;
mod recorder;
mod text;

pub(crate) use listen::{address, serve};
pub(crate) use recorder::Registry;
