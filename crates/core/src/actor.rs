//! The control plane. Handlers look something up, move it, send, and return.

pub mod connection;
pub mod connector;
pub mod registry;
#[cfg(test)]
mod tests;
