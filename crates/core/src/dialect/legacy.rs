//! 2024-11-05 to 2025-11-25: a handshake, a session, plain requests.

use super::{Dialect, Outline, Withdrawal, notification, write};
use callboard_protocol::ProtocolVersion;

/// The dialect of the revisions with a handshake.
#[derive(Debug, Clone, Copy)]
pub struct LegacyDialect {
    version: ProtocolVersion,
}

impl LegacyDialect {
    /// Speaks this revision.
    pub fn new(version: ProtocolVersion) -> LegacyDialect {
        LegacyDialect { version }
    }
}

impl Dialect for LegacyDialect {
    fn version(&self) -> ProtocolVersion {
        self.version
    }

    fn write_request(&self, out: &mut Vec<u8>, id: u64, outline: &Outline<'_>) {
        write(out, id, outline.method, &outline.params, &[&outline.meta], outline.wants_progress);
    }

    fn headers(&self, _outline: &Outline<'_>) -> Vec<(String, String)> {
        Vec::new()
    }

    fn withdrawal(&self, id: u64, reason: &str, _over_http: bool) -> Withdrawal {
        let reason = serde_json::Value::from(reason);
        Withdrawal::Notify(notification(
            "notifications/cancelled",
            &format!(r#"{{"requestId":{id},"reason":{reason}}}"#),
        ))
    }
}
