//! The revisions of the protocol, and which of them a request is made in.

use serde_json::Value;

use super::message::{Fault, Object};

/// `_meta` key of a modern request: the revision it is made in.
pub(super) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key of a modern request: what the client can do, for this request.
pub(super) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// `_meta` key of a modern request: the least severe log message wanted on it.
pub(super) const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// `_meta` key of a modern result: who answers.
pub(super) const META_SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// `_meta` key of everything that belongs to a `subscriptions/listen`: the id of that request.
pub(super) const META_SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A released revision of the protocol, in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    /// All of them, newest first.
    const ALL: [Self; 5] =
        [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// The names of all, newest first: the modern one per request, the others by `initialize`.
    pub(super) fn supported() -> [&'static str; 5] {
        Self::ALL.map(Self::name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The answer to an `initialize` that asks for that revision: itself where it is a legacy one that is
    /// spoken here, else the newest legacy one.
    pub(super) fn negotiated(asked: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|revision| revision.name() == asked && !revision.is_modern())
            .unwrap_or(Self::V2025_11_25)
    }

    /// Whether requests carry their own metadata and there is no session.
    pub(super) fn is_modern(self) -> bool {
        self >= Self::V2026_07_28
    }
}

/// How severe a log message is (RFC 5424).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    pub(super) fn of(value: &Value) -> Result<Self, Fault> {
        let name = value.as_str();
        Self::ALL
            .into_iter()
            .find(|level| Some(level.name()) == name)
            .ok_or_else(|| Fault::invalid_params("no such log level"))
    }
}

/// What a request says about itself.
#[derive(Clone, Debug)]
pub(super) struct RequestMeta {
    pub(super) revision: Revision,
    pub(super) progress_token: Option<Value>,
    /// The level that a modern request asks for; legacy sessions have one level for all.
    pub(super) log_level: Option<LogLevel>,
}

impl RequestMeta {
    /// Decides the era of a request. One with modern metadata is modern whatever the session is, and so is
    /// `server/discover`; the others belong to the session that `initialize` opened, at `session`.
    pub(super) fn of(method: &str, params: &Object, session: Option<Revision>) -> Result<Self, Fault> {
        let meta = params.get("_meta").and_then(Value::as_object);
        let get = |key: &str| meta.and_then(|meta| meta.get(key));
        let progress_token = get("progressToken").filter(|token| token.is_string() || token.is_i64());
        let progress_token = progress_token.cloned();
        let is_modern =
            get(META_VERSION).is_some() || get(META_CAPABILITIES).is_some() || method == "server/discover";
        if is_modern {
            Self::check_modern(get(META_VERSION), get(META_CAPABILITIES))?;
            let log_level = get(META_LOG_LEVEL).map(LogLevel::of).transpose()?;
            return Ok(Self { revision: Revision::V2026_07_28, progress_token, log_level });
        }
        let revision = match method {
            "initialize" | "ping" => session.unwrap_or(Revision::V2025_11_25),
            _ => session.ok_or_else(|| {
                Fault::invalid_params(format!(
                    "initialize first, or send _meta with {META_VERSION} and {META_CAPABILITIES}"
                ))
            })?,
        };
        Ok(Self { revision, progress_token, log_level: None })
    }

    fn check_modern(version: Option<&Value>, capabilities: Option<&Value>) -> Result<(), Fault> {
        let Some(version) = version.and_then(Value::as_str) else {
            return Err(Fault::invalid_params(format!("_meta lacks {META_VERSION}, a string")));
        };
        if version != Revision::V2026_07_28.name() {
            return Err(Fault::unsupported_version(&Revision::supported(), version));
        }
        match capabilities {
            Some(Value::Object(_)) => Ok(()),
            Some(_) | None => {
                Err(Fault::invalid_params(format!("_meta lacks {META_CAPABILITIES}, an object")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(method: &str, meta: Value, session: Option<Revision>, expected: Result<Revision, i32>) {
        let params = json!({ "_meta": meta });
        let params = params.as_object().cloned().unwrap_or_default();
        let found = RequestMeta::of(method, &params, session);
        assert_eq!(found.map(|meta| meta.revision).map_err(|fault| fault.code), expected, "{method} {meta}");
    }

    #[test]
    fn the_metadata_decides_the_era() {
        let open = Some(Revision::V2025_03_26);
        let modern = json!({META_VERSION: "2026-07-28", META_CAPABILITIES: {}});
        check("tools/list", modern.clone(), None, Ok(Revision::V2026_07_28));
        check("tools/list", modern, open, Ok(Revision::V2026_07_28));
        check("tools/list", json!({}), open, Ok(Revision::V2025_03_26));
        check("tools/list", json!({}), None, Err(-32602));
        check("server/discover", json!({}), open, Err(-32602));
        check("ping", json!({}), None, Ok(Revision::V2025_11_25));
        check("tools/list", json!({META_VERSION: "2026-07-28"}), open, Err(-32602));
        check("tools/list", json!({META_CAPABILITIES: {}}), open, Err(-32602));
        check("tools/list", json!({META_VERSION: 7, META_CAPABILITIES: {}}), open, Err(-32602));
        check("tools/list", json!({META_VERSION: "2026-07-28", META_CAPABILITIES: []}), open, Err(-32602));
        check("tools/list", json!({META_VERSION: "2025-11-25", META_CAPABILITIES: {}}), open, Err(-32022));
        check("tools/list", json!({META_VERSION: "2099-01-01"}), None, Err(-32022));
    }

    #[test]
    fn negotiates_legacy_revisions_only() {
        for (asked, expected) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-06-18", "2025-06-18"),
            ("2026-07-28", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
        ] {
            assert_eq!(Revision::negotiated(asked).name(), expected, "{asked}");
        }
    }
}
