//! The keys of an entry in the common form, with the spellings of the field.

/// One meaning and its spellings, the first of which counts when several are there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) spellings: &'static [&'static str],
    pub(super) applies: Applies,
}

/// Which entries a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applies {
    Always,
    Stdio,
    Remote,
    Ide,
}

const fn key(spellings: &'static [&'static str], applies: Applies) -> Key {
    Key { spellings, applies }
}

pub(super) const TYPE: Key = key(&["type", "transport"], Applies::Always);
pub(super) const COMMAND: Key = key(&["command", "cmd"], Applies::Always);
pub(super) const URL: Key = key(&["url", "serverUrl", "httpUrl", "uri", "baseUrl"], Applies::Always);
pub(super) const ARGS: Key = key(&["args"], Applies::Stdio);
pub(super) const ENV: Key = key(&["env", "envs", "environment"], Applies::Stdio);
pub(super) const CWD: Key = key(&["cwd"], Applies::Stdio);
pub(super) const HEADERS: Key = key(&["headers"], Applies::Remote);
pub(super) const ENABLED: Key = key(&["enabled"], Applies::Always);
pub(super) const DISABLED: Key = key(&["disabled"], Applies::Always);
pub(super) const TIMEOUT: Key = key(&["timeout"], Applies::Always);
pub(super) const CONNECT_TIMEOUT_MS: Key = key(&["connect_timeout_ms"], Applies::Always);
pub(super) const CALL_TIMEOUT_MS: Key = key(&["call_timeout_ms"], Applies::Always);
pub(super) const IN_FLIGHT_MAX: Key = key(&["in_flight_max"], Applies::Always);
pub(super) const REQUIRED: Key = key(&["required"], Applies::Always);
pub(super) const TRUSTED: Key = key(&["trusted"], Applies::Always);
pub(super) const ALWAYS_LOAD: Key = key(&["always_load"], Applies::Always);
pub(super) const PROTOCOL_ERA: Key = key(&["protocol_era"], Applies::Always);

pub(super) const IDE_NAME: Key = key(&["ideName"], Applies::Ide);
pub(super) const IDE_WINDOWS: Key = key(&["ideRunningInWindows"], Applies::Ide);
pub(super) const IDE_TOKEN: Key = key(&["authToken"], Applies::Ide);

/// The key of a server of the host, whose entry has its name in it; beside other kinds it is text for people.
pub(super) const KEY: Key = key(&["name"], Applies::Always);

/// Every key that is read.
pub(super) const ALL: [&Key; 20] = [
    &TYPE,
    &COMMAND,
    &URL,
    &ARGS,
    &ENV,
    &CWD,
    &HEADERS,
    &ENABLED,
    &DISABLED,
    &TIMEOUT,
    &CONNECT_TIMEOUT_MS,
    &CALL_TIMEOUT_MS,
    &IN_FLIGHT_MAX,
    &REQUIRED,
    &TRUSTED,
    &ALWAYS_LOAD,
    &PROTOCOL_ERA,
    &IDE_NAME,
    &IDE_WINDOWS,
    &IDE_TOKEN,
];

/// Texts for people, kept and not interpreted.
pub(super) const KEPT: [&str; 4] = ["name", "description", "title", "icon"];

/// Keys of other clients that would change what happens, so that passing over them needs a word
/// (config-formats §2).
pub(super) const NOT_APPLIED: [&str; 29] = [
    "alwaysAllow",
    "alwaysLoad",
    "auth",
    "authProviderType",
    "autoApprove",
    "available_tools",
    "bearer_token_env_var",
    "default_tools_approval_mode",
    "disabledTools",
    "disabled_tools",
    "enabled_tools",
    "envFile",
    "env_http_headers",
    "env_keys",
    "env_vars",
    "excludeTools",
    "headersHelper",
    "http_headers",
    "includeTools",
    "oauth",
    "requestOptions",
    "sandbox",
    "sandboxEnabled",
    "scopes",
    "sharing",
    "startup_timeout_sec",
    "tool_timeout_sec",
    "tools",
    "trust",
];
