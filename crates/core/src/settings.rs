//! Every number, limit and switch of the runtime (behaviour profile §15): key, default, unit, and how a
//! text becomes its value.

use callboard_policy::TransportKinds;
use callboard_protocol::view::ViewLimits;
use std::time::Duration;

/// A setting whose text does not parse, or a key that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// No such key.
    #[error("unknown setting {key}")]
    UnknownKey {
        /// The key as it was given.
        key: String,
    },
    /// The value has the wrong form.
    #[error("{key}: {value:?} is not {expected}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value as it was given.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
}

/// A type that a setting can have.
trait Value: Sized {
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
    /// A value that can be reckoned with.
    fn bounded(self) -> Self {
        self
    }
}

/// Longer than any board lives. Sums of a few such times, and moments that far away, are still times and moments.
const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

impl Value for Duration {
    const EXPECTED: &'static str = "a whole number of milliseconds";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Duration::from_millis)
    }
    fn bounded(self) -> Duration {
        self.min(TIME_MAX)
    }
}

impl Value for usize {
    const EXPECTED: &'static str = "a whole number";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }
}

impl Value for f64 {
    const EXPECTED: &'static str = "a number of at least 0";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)
    }
}

/// Words of a command line, as a JSON array or split at white space.
impl Value for Vec<String> {
    const EXPECTED: &'static str = "a JSON array of texts, or words";
    fn parse(text: &str) -> Option<Self> {
        if text.trim_start().starts_with('[') {
            return serde_json::from_str(text).ok();
        }
        Some(text.split_whitespace().map(str::to_owned).collect())
    }
}

/// Kinds of transport, as a JSON array or split at white space and commas.
impl Value for TransportKinds {
    const EXPECTED: &'static str = "a list of stdio, http, sse, ws, sdk, sse-ide and ws-ide";
    fn parse(text: &str) -> Option<Self> {
        let words = <Vec<String> as Value>::parse(text)?;
        let words = words.iter().flat_map(|words| words.split(',')).map(str::trim);
        TransportKinds::of_words(words.filter(|word| !word.is_empty()))
    }
}

/// How much of our own environment a child inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EnvInherit {
    /// The base set alone.
    #[default]
    Base,
    /// Everything.
    All,
}

impl Value for EnvInherit {
    const EXPECTED: &'static str = "base or all";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "base" => Some(EnvInherit::Base),
            "all" => Some(EnvInherit::All),
            _ => None,
        }
    }
}

/// When servers are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartupMode {
    /// On first use.
    #[default]
    Lazy,
    /// After start, in the background.
    Background,
}

impl Value for StartupMode {
    const EXPECTED: &'static str = "lazy or background";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "lazy" => Some(StartupMode::Lazy),
            "background" => Some(StartupMode::Background),
            _ => None,
        }
    }
}

/// Which answer to a request that carried our session id means that the session has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExpiredRule {
    /// Status 404 or 410, whatever the body.
    #[default]
    Status,
    /// Status 404 with the JSON-RPC error code -32001, which no text defines but some servers send.
    StatusAndCode,
}

impl Value for ExpiredRule {
    const EXPECTED: &'static str = "status or status-and-code";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "status" => Some(ExpiredRule::Status),
            "status-and-code" => Some(ExpiredRule::StatusAndCode),
            _ => None,
        }
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $kind:ty = $default:expr, $key:literal;)*) => {
        /// The settings of a board. Fields are named after their keys; times are [`Duration`]s, zero is off
        /// where off makes sense.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings { $($(#[$doc])* pub $field: $kind,)* }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $($field: $default,)* }
            }
        }

        impl Settings {
            /// Every key, in the order of the behaviour profile.
            pub const KEYS: &'static [&'static str] = &[$($key,)*];

            /// The same with times of ten years at most: `Duration::MAX` would overflow every clock.
            pub(crate) fn bounded(self) -> Settings {
                Settings { $($field: Value::bounded(self.$field),)* }
            }

            /// Sets one key from its text.
            ///
            /// # Errors
            /// When there is no such key, or the text is not of its type; nothing is changed then.
            pub fn set(&mut self, key: &str, text: &str) -> Result<(), SettingError> {
                match key {
                    $($key => {
                        let value = <$kind as Value>::parse(text.trim()).ok_or_else(|| SettingError::BadValue {
                            key: $key,
                            value: text.chars().take(80).collect(),
                            expected: <$kind as Value>::EXPECTED,
                        })?;
                        self.$field = value;
                        Ok(())
                    })*
                    _ => Err(SettingError::UnknownKey { key: key.to_owned() }),
                }
            }
        }
    };
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

settings! {
    /// Kinds of transport that may be dialed.
    transport_allow: TransportKinds = TransportKinds::default(), "transport.allow";
    /// To the first byte of an answer to a POST; 0 is off. A GET stream has this time too, and never more than 30 s.
    http_first_byte_timeout: Duration = ms(60_000), "http.first_byte_timeout_ms";
    /// Of a whole POST; 0 is off.
    http_post_total_timeout: Duration = ms(0), "http.post_total_timeout_ms";
    /// A GET stream without a byte for so long is opened anew; 0 is off.
    http_get_idle_timeout: Duration = ms(900_000), "http.get_idle_timeout_ms";
    /// Silence on a WebSocket after which our side sends a ping, twice this at most; 0 is off. Proxies and
    /// address translation commonly forget a connection that was quiet for 60 s.
    websocket_ping: Duration = ms(25_000), "websocket.ping_ms";
    /// From that ping to any sign of life, after which the connection counts as lost.
    websocket_pong_timeout: Duration = ms(10_000), "websocket.pong_timeout_ms";
    /// TCP and TLS set-up.
    http_dial_timeout: Duration = ms(10_000), "http.dial_timeout_ms";
    /// One line, SSE event or body, in bytes.
    wire_frame_bytes_max: usize = 16 * MIB, "wire.frame_bytes_max";
    /// The part of an error body that is read, in bytes.
    wire_error_body_bytes_max: usize = 64 * KIB, "wire.error_body_bytes_max";
    /// What is kept of a child's stderr, in bytes.
    stderr_ring_bytes: usize = 256 * KIB, "stderr.ring_bytes";
    /// What of it goes into errors, in bytes.
    stderr_tail_bytes: usize = 4 * KIB, "stderr.tail_bytes";
    /// Words put before every command.
    stdio_prefix: Vec<String> = Vec::new(), "stdio.prefix";
    /// How much of our environment a child inherits.
    stdio_env_inherit: EnvInherit = EnvInherit::Base, "stdio.env_inherit";
    /// From the end of its stdin to SIGTERM.
    stdio_close_grace: Duration = ms(2_000), "stdio.close_grace_ms";
    /// From SIGTERM to SIGKILL.
    stdio_term_grace: Duration = ms(2_000), "stdio.term_grace_ms";
    /// Sets `PYTHONUNBUFFERED=1` unless present.
    stdio_unbuffered_hint: bool = true, "stdio.unbuffered_hint";
    /// From spawn or dial to a finished handshake.
    connect_timeout: Duration = ms(30_000), "connect.timeout_ms";
    /// Retries of a first connect to a remote server.
    connect_retries_max: usize = 3, "connect.retries_max";
    /// Retries of a first start of a child.
    connect_retries_stdio_max: usize = 1, "connect.retries_stdio_max";
    /// When servers are connected.
    startup_mode: StartupMode = StartupMode::Lazy, "startup.mode";
    /// Process starts at once.
    connect_local_max: usize = 3, "connect.local_max";
    /// Remote connects at once.
    connect_remote_max: usize = 20, "connect.remote_max";
    /// Silence after a probe before `initialize` follows on the same child.
    probe_timeout: Duration = ms(3_000), "probe.timeout_ms";
    /// Attempts to get a lost connection back.
    reconnect_attempts_max: usize = 5, "reconnect.attempts_max";
    /// First gap.
    reconnect_backoff_initial: Duration = ms(1_000), "reconnect.backoff_ms_initial";
    /// Largest gap.
    reconnect_backoff_max: Duration = ms(30_000), "reconnect.backoff_ms_max";
    /// Each gap is the last one times this.
    reconnect_backoff_factor: f64 = 2.0, "reconnect.backoff_factor";
    /// The part of a gap, 0 to 1, that chance may add to it.
    reconnect_jitter: f64 = 0.0, "reconnect.jitter";
    /// Dead children are restarted.
    reconnect_stdio: bool = true, "reconnect.stdio";
    /// A connection of this age that answered something starts the count anew.
    reconnect_reset_after: Duration = ms(30_000), "reconnect.reset_after_ms";
    /// Gap of the slow retry of a failed remote server; 0 is off.
    reconnect_slow_retry: Duration = ms(300_000), "reconnect.slow_retry_ms";
    /// What is under way on a connection whose entry has changed may take so long; 0 ends it at once.
    reconnect_drain: Duration = ms(30_000), "reconnect.drain_ms";
    /// Terminal failures in a row that end a connection; 0 is off.
    health_strikes_max: usize = 3, "health.strikes_max";
    /// Outcomes of requests that are looked at together; 0 is off.
    health_window_size: usize = 10, "health.window_size";
    /// Terminal failures among them that end a connection; 0 is off.
    health_window_terminal_max: usize = 5, "health.window_terminal_max";
    /// Time without an answer, with at least two terminal failures, that ends a connection; 0 is off.
    health_silence: Duration = ms(60_000), "health.silence_ms";
    /// Which answer means that our session has expired.
    session_expired_rule: ExpiredRule = ExpiredRule::Status, "session.expired_rule";
    /// A listen stream shorter than this is short.
    listen_short: Duration = ms(10_000), "listen.short_ms";
    /// Reopenings of short listen streams.
    listen_short_reopens_max: usize = 3, "listen.short_reopens_max";
    /// Reopenings of listen streams in an hour.
    listen_reopens_per_hour_max: usize = 5, "listen.reopens_per_hour_max";
    /// Pause after too many of them.
    listen_pause: Duration = ms(21_600_000), "listen.pause_ms";
    /// Silence of a remote tool call; progress resets it; 0 is off.
    call_idle_timeout_remote: Duration = ms(300_000), "call.idle_timeout_remote_ms";
    /// Silence of a local tool call; progress resets it; 0 is off.
    call_idle_timeout_local: Duration = ms(1_800_000), "call.idle_timeout_local_ms";
    /// A tool call that takes longer is told of by an event; 0 is off.
    call_slow_after: Duration = ms(120_000), "call.slow_after_ms";
    /// A whole tool call.
    call_absolute_timeout: Duration = ms(14_400_000), "call.absolute_timeout_ms";
    /// Any other request.
    request_timeout: Duration = ms(60_000), "request.timeout_ms";
    /// Short retries of a list.
    catalog_list_retries_max: usize = 3, "catalog.list_retries_max";
    /// Tokens of a result that a model is shown without a warning.
    result_tokens_warn: usize = 10_000, "result.tokens_warn";
    /// Tokens of a result that a model is shown.
    result_tokens_max: usize = 25_000, "result.tokens_max";
    /// Bytes of one media block that a model is shown.
    result_blob_bytes_max: usize = 5 * MIB, "result.blob_bytes_max";
    /// Calls of tools, resources and prompts in flight to one server.
    call_in_flight_max: usize = 64, "call.in_flight_max";
    /// Calls that wait for a place, served in turn by caller.
    call_queue_max: usize = 256, "call.queue_max";
    /// POSTs in flight to one server.
    http_posts_max: usize = 64, "http.posts_max";
    /// Characters of a tool description that a model is shown.
    catalog_description_chars_max: usize = 2_048, "catalog.description_chars_max";
    /// Characters of a server's instructions that a model is shown.
    catalog_instructions_chars_max: usize = 2_048, "catalog.instructions_chars_max";
    /// `list_changed` within this time is one change.
    catalog_refresh_debounce: Duration = ms(200), "catalog.refresh_debounce_ms";
    /// Pages of one list.
    catalog_pages_max: usize = 64, "catalog.pages_max";
    /// Characters of a qualified name.
    names_chars_max: usize = 64, "names.chars_max";
}

/// Characters that one token stands for when nobody counts better (behaviour profile §5.8).
const CHARS_PER_TOKEN: usize = 4;

impl Settings {
    /// How much of one result a model is shown.
    pub fn view_limits(&self) -> ViewLimits {
        ViewLimits {
            text_chars_max: self.result_tokens_max.saturating_mul(CHARS_PER_TOKEN),
            media_bytes_max: self.result_blob_bytes_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_takes_its_text_or_says_what_is_wrong() {
        let mut settings = Settings::default();
        settings.set("connect.timeout_ms", "1500").expect("sets");
        settings.set("stdio.prefix", r#"["docker", "exec x"]"#).expect("sets");
        assert_eq!(settings.connect_timeout, Duration::from_millis(1_500));
        assert_eq!(settings.stdio_prefix, ["docker", "exec x"]);
        let error = settings.set("connect.local_max", "three").expect_err("refused");
        assert_eq!(error.to_string(), r#"connect.local_max: "three" is not a whole number"#);
        assert_eq!(settings.set("x.y", "1"), Err(SettingError::UnknownKey { key: "x.y".into() }));
        assert_eq!(settings.connect_local_max, 3);
        for text in ["stdio, ws-ide", "stdio ws-ide", r#"["stdio", "ws-ide"]"#] {
            settings.set("transport.allow", text).expect("sets");
            assert_eq!(settings.transport_allow.to_string(), "stdio, ws-ide");
        }
        settings.set("transport.allow", "stdio, pigeon").expect_err("refused");
    }
}
