//! Finding a server's era and agreeing on a revision (protocol.md §1.2).
//!
//! Nothing is keyed to one error code; 401, 403, 5xx, timeouts and network errors are never a verdict.

mod legacy;
mod probe;

pub(crate) use legacy::initialize;
pub(crate) use probe::{Verdict, probe};

use crate::call::CallError;
use crate::conn_core::{ConnCore, Outgoing};
use crate::dialect::{Dialect, Outline};
use crate::pending::Clocks;
use crate::port::CloseReason;
use bytes::Bytes;
use callboard_protocol::ProtocolVersion;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::time::Instant;

/// Sends a request of the handshake, whose clock is the connect's own.
async fn ask(
    core: &Arc<ConnCore>,
    dialect: &dyn Dialect,
    method: &str,
    params: String,
    deadline: Instant,
) -> Result<Bytes, CallError> {
    let early_headers = match dialect.version() {
        // The version header came with 2025-06-18, and never goes with `initialize`.
        ProtocolVersion::V2026_07_28 => vec![version_header(dialect.version())],
        ProtocolVersion::V2024_11_05
        | ProtocolVersion::V2025_03_26
        | ProtocolVersion::V2025_06_18
        | ProtocolVersion::V2025_11_25 => Vec::new(),
    };
    let outgoing = Outgoing {
        outline: Outline { method, params: Cow::Owned(params), ..Outline::default() },
        clocks: Clocks { absolute: Some(deadline), ..Clocks::default() },
        progress: None,
        is_listen: false,
        started: Instant::now(),
        early_headers,
    };
    core.request(dialect, outgoing).await
}

fn version_header(version: ProtocolVersion) -> (String, String) {
    ("MCP-Protocol-Version".into(), version.as_str().into())
}

/// Why a handshake failed, as the reason of the whole connect.
pub(crate) fn reason_of(error: CallError, core: &ConnCore, began: Instant) -> Arc<CloseReason> {
    match error {
        CallError::Lost { reason, .. } => reason,
        CallError::TimedOut { .. } => timed_out(core, began),
        CallError::Remote(error) => {
            Arc::new(CloseReason::Protocol(format!("the server refused the handshake: {error}")))
        }
        other => Arc::new(CloseReason::Protocol(other.to_string())),
    }
}

/// The connect's own limit has passed.
pub(crate) fn timed_out(core: &ConnCore, began: Instant) -> Arc<CloseReason> {
    let stderr_tail = core.diagnostics.stderr_tail(core.env.settings.stderr_tail_bytes);
    Arc::new(CloseReason::ConnectTimedOut { after: began.elapsed(), stderr_tail })
}
