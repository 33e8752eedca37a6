//! The wire vocabulary of the Model Context Protocol: frames, ids, messages of every revision, tool
//! names, header plans and the values that must not be printed.
//!
//! This crate knows nothing about
//! - connections, sockets, processes or files: it turns bytes into values and back,
//! - clocks, timers or random numbers: equal input gives equal output,
//! - policy, configuration or user interfaces.
//!
//! A frame is decoded once into an envelope; `params` and `result` stay the raw JSON text that came in
//! ([`bytes::Bytes`] slices of the line) and are read as types only by whoever needs them.

pub mod content;
pub mod error;
pub mod frame;
pub mod header_plan;
pub mod id;
pub mod json;
pub mod list;
pub mod message;
pub mod meta;
pub mod names;
pub mod secret;
pub mod text;
pub mod version;
pub mod view;

pub use content::{Content, ToolResult};
pub use error::{RemoteError, code};
pub use frame::{
    Decoded, Frame, Malformed, Notification, Reply, ReplyBody, Request, decode, decode_copied, recover_id,
};
pub use header_plan::{HeaderPlan, HeaderPlanError};
pub use id::Id;
pub use names::{NameTable, QualifiedName};
pub use secret::{Secret, masked_url};
pub use version::{Era, ProtocolVersion};
