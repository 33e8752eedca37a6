//! `initialize` and `notifications/initialized`.

use super::{ask, version_header};
use crate::call::CallError;
use crate::conn_core::ConnCore;
use crate::dialect::{LegacyDialect, capabilities, notification};
use crate::port::{CloseReason, Delivery, Negotiated, SendHalf};
use crate::session::Session;
use callboard_protocol::message::InitializeResult;
use callboard_protocol::{Era, ProtocolVersion, RemoteError, code};
use std::sync::Arc;
use tokio::time::Instant;

/// Does the legacy handshake.
///
/// # Errors
/// The failure of `initialize`, or a revision in its answer that is not spoken here.
pub(crate) async fn initialize(core: &Arc<ConnCore>, deadline: Instant) -> Result<Session, CallError> {
    let offered = ProtocolVersion::LEGACY_NEWEST;
    let raw = match initialize_with(core, offered, deadline).await {
        Err(error) => match version_to_retry(&error, offered) {
            Some(version) => initialize_with(core, version, deadline).await?,
            None => return Err(error),
        },
        Ok(raw) => raw,
    };
    let result = InitializeResult::read(&raw).map_err(CallError::Invalid)?;
    let version = result.protocol_version.parse::<ProtocolVersion>().ok().filter(|v| v.era() == Era::Legacy);
    let Some(version) = version else {
        let (theirs, ours) = (&result.protocol_version, offered);
        let message = format!("the server speaks protocol version {theirs:?}, the client {ours} and older");
        let reason = Arc::new(CloseReason::Protocol(message));
        return Err(CallError::Lost { reason, delivery: Delivery::Refused });
    };
    let headers = match version >= ProtocolVersion::V2025_06_18 {
        true => vec![version_header(version)],
        false => Vec::new(),
    };
    let initialized = notification("notifications/initialized", "");
    let told = tokio::time::timeout_at(deadline, core.tell_and_wait(initialized, headers)).await;
    if let Ok(Err(reason)) = told
        && reason.http_status().is_none()
    {
        return Err(CallError::Lost { delivery: reason.delivery(), reason: Arc::new(reason) });
    }
    let negotiated = Negotiated { version, era: Era::Legacy };
    match &core.send {
        SendHalf::Duplex(link) => link.negotiated(&negotiated),
        SendHalf::Exchange(link) => link.negotiated(&negotiated),
    }
    Ok(Session::legacy(result.peer, Arc::new(LegacyDialect::new(version))))
}

async fn initialize_with(
    core: &Arc<ConnCore>,
    version: ProtocolVersion,
    deadline: Instant,
) -> Result<bytes::Bytes, CallError> {
    let info = serde_json::to_string(&core.env.identity.info).unwrap_or_else(|_| "{}".into());
    let capabilities = capabilities(&core.env.handlers, Era::Legacy);
    let params =
        format!(r#"{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{info}}}"#);
    ask(core, &LegacyDialect::new(version), "initialize", params, deadline).await
}

/// A server that refuses the newest revision instead of answering with its own: the newest legacy revision
/// that its refusal names, else the next older one. Tried once.
fn version_to_retry(error: &CallError, offered: ProtocolVersion) -> Option<ProtocolVersion> {
    // A modern server says with this code that it wants the modern way, unless it names a legacy revision.
    let is_modern = |rpc: &RemoteError| rpc.code == code::UNSUPPORTED_VERSION;
    let (text, may_guess) = match error {
        CallError::Remote(error) => {
            let data = error.data.as_ref().map_or("", |data| callboard_protocol::json::text(data));
            (format!("{} {data}", error.message), !is_modern(error))
        }
        CallError::Lost { reason, .. } => match &**reason {
            CloseReason::Status { status: 400, body, rpc, .. } => match rpc {
                Some(rpc) => (format!("{} {body}", rpc.message), !is_modern(rpc)),
                None => (body.clone(), true),
            },
            _ => return None,
        },
        _ => return None,
    };
    if !text.to_ascii_lowercase().contains("version") {
        return None;
    }
    let named = ProtocolVersion::ALL
        .into_iter()
        .rev()
        .filter(|v| v.era() == Era::Legacy && text.contains(v.as_str()));
    let named = named.into_iter().find(|v| *v != offered);
    named.or_else(|| offered.older().filter(|_| may_guess))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_version_to_try() {
        let refuse = |message: &str| {
            let error = CallError::Remote(RemoteError { code: -32000, message: message.into(), data: None });
            version_to_retry(&error, ProtocolVersion::V2025_11_25)
        };
        assert_eq!(
            refuse("Unsupported protocol version (supported: 2024-11-05, 2025-03-26)"),
            Some(ProtocolVersion::V2025_03_26)
        );
        assert_eq!(refuse("unsupported version"), Some(ProtocolVersion::V2025_06_18));
        assert_eq!(refuse("go away"), None);
    }
}
