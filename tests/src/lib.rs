//! Integration tests of callboard, and programs that outside harnesses drive it with: `case-driver`,
//! `conformance-client` and `bench-driver`; and `chaos`, which lets servers fail for as long as it is told to.
//! All of them go through the public facade.
//!
//! This crate knows nothing about
//! - the inside of the runtime: what the facade does not show cannot be tested here,
//! - what a harness expects: its programs are given jobs and tell what happened.

pub mod ledger;
pub mod own;
pub mod random;
pub mod relay;
