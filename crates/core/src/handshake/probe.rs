//! `server/discover`, and what its answer says of the server.

use super::{ask, reason_of};
use crate::call::CallError;
use crate::conn_core::ConnCore;
use crate::dialect::{ModernDialect, capabilities};
use crate::port::{CloseReason, Negotiated, SendHalf};
use crate::session::Session;
use callboard_protocol::message::DiscoverResult;
use callboard_protocol::{Era, ProtocolVersion, RemoteError, code};
use std::sync::Arc;
use tokio::time::Instant;

/// What a probe found out.
pub(crate) enum Verdict {
    /// A modern server, and the session with it.
    Modern(Session),
    /// A legacy server: send `initialize`.
    Legacy,
    /// Nothing: an error that says nothing of the era, or a modern server that cannot be spoken to.
    Nothing(Arc<CloseReason>),
}

/// Asks a server who it is, in the modern way. One corrected retry, never more.
pub(crate) async fn probe(core: &Arc<ConnCore>, deadline: Instant, began: Instant) -> Verdict {
    let mut version = ProtocolVersion::MODERN_NEWEST;
    let mut retried = false;
    loop {
        let capabilities = capabilities(&core.env.handlers, Era::Modern);
        let dialect = Arc::new(ModernDialect::new(version, &core.env.identity, &capabilities));
        let error = match ask(core, &*dialect, "server/discover", "{}".into(), deadline).await {
            Ok(raw) => return discovered(core, dialect, &raw),
            Err(error) => error,
        };
        match judge(&error) {
            Judgement::Retry(again) if !retried => {
                version = again.unwrap_or(version);
                retried = true;
            }
            Judgement::Retry(Some(version)) => {
                let message = format!("the server refuses protocol version {version} although it offers it");
                return Verdict::Nothing(Arc::new(CloseReason::Protocol(message)));
            }
            Judgement::Retry(None) | Judgement::Legacy => return Verdict::Legacy,
            Judgement::Disjoint(theirs) => {
                let message = format!(
                    "no common protocol version: the server offers {}, the client speaks {}",
                    theirs.join(", "),
                    ProtocolVersion::ALL.map(ProtocolVersion::as_str).join(", ")
                );
                return Verdict::Nothing(Arc::new(CloseReason::Protocol(message)));
            }
            Judgement::Nothing => return Verdict::Nothing(reason_of(error, core, began)),
        }
    }
}

fn discovered(core: &Arc<ConnCore>, dialect: Arc<ModernDialect>, raw: &bytes::Bytes) -> Verdict {
    let Some(found) = DiscoverResult::read(raw) else { return Verdict::Legacy };
    let Some(version) = ProtocolVersion::newest_modern_of(&found.supported_versions) else {
        return Verdict::Legacy;
    };
    let negotiated = Negotiated { version, era: Era::Modern };
    match &core.send {
        SendHalf::Duplex(link) => link.negotiated(&negotiated),
        SendHalf::Exchange(link) => link.negotiated(&negotiated),
    }
    Verdict::Modern(Session::modern(found.peer, dialect))
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    /// Modern: once more, in this version if one is named.
    Retry(Option<ProtocolVersion>),
    Legacy,
    /// Modern, but of revisions that are not spoken here.
    Disjoint(Vec<String>),
    /// No verdict.
    Nothing,
}

fn judge(error: &CallError) -> Judgement {
    match error {
        CallError::Remote(error) => judge_rpc(error),
        CallError::Lost { reason, .. } => match &**reason {
            CloseReason::Status { status, rpc, .. } => match (status, rpc) {
                (400..=499, Some(rpc)) => judge_rpc(rpc),
                // 408 and 429 say "later"; every other 4xx without a modern body is an answer of an older server.
                (408 | 429, None) => Judgement::Nothing,
                (400..=499, None) => Judgement::Legacy,
                _ => Judgement::Nothing,
            },
            // A 2xx without a reply is how some older servers take what they do not know.
            CloseReason::NoReply => Judgement::Legacy,
            _ => Judgement::Nothing,
        },
        CallError::Invalid(_) => Judgement::Legacy,
        _ => Judgement::Nothing,
    }
}

fn judge_rpc(error: &RemoteError) -> Judgement {
    match error.code {
        code::UNSUPPORTED_VERSION => match error.supported_versions() {
            None => Judgement::Legacy,
            Some(theirs) => match ProtocolVersion::newest_modern_of(&theirs) {
                Some(version) => Judgement::Retry(Some(version)),
                None if theirs.iter().any(|v| ProtocolVersion::is_later_than_known(v)) => {
                    Judgement::Disjoint(theirs)
                }
                None if ProtocolVersion::newest_legacy_of(&theirs).is_some() => Judgement::Legacy,
                None => Judgement::Disjoint(theirs),
            },
        },
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY => Judgement::Retry(None),
        _ => Judgement::Legacy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Delivery;
    use bytes::Bytes;

    fn rpc(code: i64, supported: &[&str]) -> RemoteError {
        let data = serde_json::json!({ "supported": supported, "requested": "2026-07-28" }).to_string();
        RemoteError { code, message: "m".into(), data: Some(Bytes::from(data)) }
    }

    fn status(status: u16, rpc: Option<RemoteError>) -> CallError {
        let reason = CloseReason::Status { status, body: String::new(), rpc, retry_after: None };
        CallError::Lost { reason: Arc::new(reason), delivery: Delivery::Refused }
    }

    #[test]
    fn what_answers_to_a_probe_mean() {
        let modern = ProtocolVersion::V2026_07_28;
        for code in [-32601, -32602, -32600, -32000, -32001, -32004, 7, 0] {
            assert_eq!(judge(&CallError::Remote(rpc(code, &[]))), Judgement::Legacy, "{code}");
            assert_eq!(judge(&status(400, Some(rpc(code, &[])))), Judgement::Legacy, "{code} in a 400");
            assert_eq!(judge(&status(404, Some(rpc(code, &[])))), Judgement::Legacy, "{code} in a 404");
        }
        for (supported, want) in [
            (&["2026-07-28"][..], Judgement::Retry(Some(modern))),
            (&["2025-11-25", "2026-07-28"], Judgement::Retry(Some(modern))),
            (&["2025-11-25"], Judgement::Legacy),
            (&[], Judgement::Legacy),
            (&["2027-01-01"], Judgement::Disjoint(vec!["2027-01-01".into()])),
        ] {
            assert_eq!(judge(&CallError::Remote(rpc(-32022, supported))), want, "{supported:?}");
        }
        assert_eq!(judge(&status(400, Some(rpc(-32020, &[])))), Judgement::Retry(None));
        for (http, want) in [
            (400, Judgement::Legacy),
            (404, Judgement::Legacy),
            (405, Judgement::Legacy),
            (429, Judgement::Nothing),
            (500, Judgement::Nothing),
            (503, Judgement::Nothing),
        ] {
            assert_eq!(judge(&status(http, None)), want, "{http}");
        }
        let lost = |reason| CallError::Lost { reason: Arc::new(reason), delivery: Delivery::Unknown };
        let auth = CloseReason::AuthRequired { status: 401, challenge: String::new() };
        assert_eq!(judge(&lost(auth)), Judgement::Nothing);
        let html = CloseReason::NotRpc { content_type: "text/html".into(), excerpt: String::new() };
        assert_eq!(judge(&lost(html)), Judgement::Nothing);
    }
}
