//! 2026-07-28: each request says by itself who asks and in which revision.

use super::{ClientIdentity, Dialect, Outline, Withdrawal, notification, write};
use callboard_protocol::header_plan::header_value;
use callboard_protocol::{ProtocolVersion, meta};
use parking_lot::RwLock;

/// The dialect of the revisions without a handshake.
#[derive(Debug)]
pub struct ModernDialect {
    version: ProtocolVersion,
    /// The members of `_meta` that every request has, made once.
    meta: String,
    /// The level of log messages asked for, as a member of `_meta`; empty for none.
    log_level: RwLock<String>,
}

impl ModernDialect {
    /// Speaks this revision as this client, with these raw capabilities.
    pub fn new(version: ProtocolVersion, identity: &ClientIdentity, capabilities: &str) -> ModernDialect {
        let info = serde_json::to_string(&identity.info).unwrap_or_else(|_| "{}".into());
        let meta = format!(
            r#""{}":"{version}","{}":{info},"{}":{capabilities}"#,
            meta::PROTOCOL_VERSION,
            meta::CLIENT_INFO,
            meta::CLIENT_CAPABILITIES,
        );
        ModernDialect { version, meta, log_level: RwLock::default() }
    }

    /// Asks for log messages of this level with every later request.
    pub fn set_log_level(&self, level: &str) {
        *self.log_level.write() = format!(r#""{}":{}"#, meta::LOG_LEVEL, serde_json::Value::from(level));
    }
}

impl Dialect for ModernDialect {
    fn version(&self) -> ProtocolVersion {
        self.version
    }

    fn write_request(&self, out: &mut Vec<u8>, id: u64, outline: &Outline<'_>) {
        let level = self.log_level.read();
        let meta = [&self.meta, &*level, &*outline.meta];
        write(out, id, outline.method, &outline.params, &meta, outline.wants_progress);
    }

    fn headers(&self, outline: &Outline<'_>) -> Vec<(String, String)> {
        let mut headers = outline.param_headers.clone();
        headers.push(("Mcp-Method".into(), outline.method.into()));
        if let Some(name) = outline.name {
            headers.push(("Mcp-Name".into(), header_value(name)));
        }
        headers
    }

    fn withdrawal(&self, id: u64, _reason: &str, over_http: bool) -> Withdrawal {
        match over_http {
            true => Withdrawal::CloseStream,
            false => Withdrawal::Notify(notification(
                "notifications/cancelled",
                &format!(r#"{{"requestId":{id}}}"#),
            )),
        }
    }
}
