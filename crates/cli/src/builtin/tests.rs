//! The servers as a client sees them, through an in-memory pipe, in both eras.

mod files;
mod lifecycle;
mod memory;
mod peer;
mod time;
