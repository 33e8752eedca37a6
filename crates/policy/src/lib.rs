//! Pure decisions about MCP servers: what an entry means, which entry wins a name, and which may exist.
//!
//! This crate knows nothing about
//! - files, environment or the network: texts come in as values,
//! - clocks and random numbers,
//! - actors and connections: an [`Admitted`] is a permission to dial, not a connection.

pub mod admit;
pub mod ide_path;
pub mod redact;
pub mod signature;
pub mod spec;

pub use admit::{Admission, AdmissionRules, Admitted, LeftOut, Shadowed, admit, admit_by};
pub use redact::masked_args;
pub use signature::fingerprint;
pub use spec::{
    EraPin, HttpSpec, IdePlatform, IdeSpec, InProcessSpec, RemoteKind, Scope, ServerName, ServerOptions,
    ServerSpec, Source, StdioSpec, TransportKinds, TransportSpec,
};
