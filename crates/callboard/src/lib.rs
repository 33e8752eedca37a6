//! callboard keeps an agent's connections to MCP servers: it connects them when needed, brings them back when
//! they are lost, offers their tools under safe names and carries calls with deadlines and limits.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use callboard::{Board, CallOptions, ServerSpec};
//!
//! let board = Board::builder().server(ServerSpec::stdio("time", "callboard", ["builtin", "time"])).build().await?;
//! let time = board.server("time").expect("it was just given");
//! let now = time.call_tool("now", r#"{"timezone":"UTC"}"#, CallOptions::default()).await?;
//! println!("{}", now.text());
//! board.close().await;
//! # Ok(()) }
//! ```
//!
//! This crate knows nothing about
//! - terminals and command lines,
//! - the simulated world of tests,
//! - the role of a server.

mod board;
mod builder;
pub mod load;
pub mod reload;

pub use board::{Applied, Board};
pub use builder::{BoardBuilder, BuildError};
pub use callboard_core::call::{CallError, CallOptions, Clock, Progress, ProgressSink, ToolReply};
pub use callboard_core::catalog::{CatalogSnapshot, ItemList, Permission, ServerCatalog, ToolEntry};
pub use callboard_core::event::{BoardEvent, EventKind};
pub use callboard_core::handle::ConnHandle;
pub use callboard_core::handler::{
    ElicitAnswer, ElicitRequest, ElicitWhat, Elicitation, Handlers, Root, Sampling,
};
pub use callboard_core::port::{
    BoxFuture, CloseReason, Delivery, Dialer, EraMemory, EraPin, HttpSpec, IdePlatform, IdeSpec,
    InProcessSpec, RemoteKind, Scope, ServerName, ServerOptions, ServerSpec, Source, StderrLine, StdioSpec,
    TerminalSignal, TransportKinds, TransportSpec, Unreachable,
};
pub use callboard_core::settings::{SettingError, Settings, StartupMode};
pub use callboard_core::status::{CallsView, InfoView, ServerStatus, SourceView, StateView, StatusSnapshot};
pub use callboard_core::telemetry::describe as describe_metrics;
pub use callboard_core::timeline::TimelineEntry;
pub use callboard_policy::{
    Admission, AdmissionRules, Admitted, LeftOut, Shadowed, admit, admit_by, ide_path, masked_args,
};
pub use callboard_protocol as protocol;
pub use callboard_transports::{InProcessServers, Network, Transports};
