//! wip

pub mod load;
