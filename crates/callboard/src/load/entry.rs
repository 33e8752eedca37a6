//! One entry of a file in the common form: what its keys mean (config-formats §4.2, §4.5, §5).

mod fields;
mod keys;

use super::finding::{EntryError, Oddity};
use super::nearest::nearest;
use super::raw::{Raw, RawMap};
use callboard_policy::{
    EraPin, HttpSpec, IdePlatform, IdeSpec, InProcessSpec, RemoteKind, Scope, ServerName, ServerOptions,
    ServerSpec, Source, StdioSpec, TransportSpec,
};
use callboard_protocol::{Era, Secret};
use fields::Fields;
use std::collections::BTreeMap;
use std::path::Path;

/// What an entry is read with.
#[derive(Debug, Clone, Copy)]
pub(super) struct World<'a> {
    /// Variables for references.
    pub(super) env: &'a BTreeMap<String, String>,
    /// What a relative `cwd` is relative to.
    pub(super) folder: &'a Path,
    /// The layer of the file.
    pub(super) scope: Scope,
    /// The file and its dialect.
    pub(super) source: &'a Source,
}

/// The name callboard keeps for itself (behaviour profile 7.6).
const RESERVED_NAME: &str = "callboard";

/// Reads one entry. Oddities come back also when the entry is refused, since they often say why.
pub(super) fn read(name: &str, raw: &Raw, world: World<'_>) -> (Result<ServerSpec, EntryError>, Vec<Oddity>) {
    let Some(map) = raw.as_map() else {
        return (Err(EntryError::NotAnObject { found: raw.type_name() }), Vec::new());
    };
    let mut fields = Fields::new(map, world);
    let spec = spec(name, map, &mut fields);
    let oddities = fields.into_oddities();
    let spec = spec.map(|mut spec| {
        spec.warnings = oddities.iter().map(Oddity::to_string).collect();
        spec
    });
    (spec, oddities)
}

fn spec(name: &str, map: &RawMap, fields: &mut Fields<'_>) -> Result<ServerSpec, EntryError> {
    check_name(name, fields)?;
    let kind = kind(map, fields)?;
    fields.note_unknown(kind);
    let transport = match kind {
        Kind::Stdio => TransportSpec::Stdio(stdio(fields)?),
        Kind::Remote(kind) => TransportSpec::Http(http(fields, kind)?),
        Kind::InProcess => TransportSpec::InProcess(in_process(name, fields)?),
    };
    let world = fields.world();
    Ok(ServerSpec {
        name: ServerName::new(name),
        scope: world.scope,
        source: world.source.clone(),
        transport,
        enabled: enabled(fields)?,
        options: options(fields)?,
        warnings: Vec::new(),
    })
}

fn check_name(name: &str, fields: &mut Fields<'_>) -> Result<(), EntryError> {
    if name == RESERVED_NAME {
        return Err(EntryError::ReservedName);
    }
    if name.trim().is_empty() {
        return Err(EntryError::EmptyName);
    }
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if !is_plain {
        fields.note(Oddity::NameCharset);
    }
    Ok(())
}

/// Which of the three an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Remote(RemoteKind),
    InProcess,
}

/// Decides the transport from what is named and what is there. Both or neither of command and address is an
/// error whatever the type says.
fn kind(map: &RawMap, fields: &mut Fields<'_>) -> Result<Kind, EntryError> {
    let named = fields.plain_text(&keys::TYPE)?;
    let (has_command, has_url) = (fields.has(&keys::COMMAND), fields.has(&keys::URL));
    let named = match named {
        Some(word) => Some((named_kind(&word, fields.world().scope)?, word)),
        None => None,
    };
    match (named, has_command, has_url) {
        (Some((Kind::InProcess, _)), _, _) => Ok(Kind::InProcess),
        (_, true, true) => Err(EntryError::MixedTransports),
        (Some((Kind::Stdio, kind)), false, _) => Err(EntryError::MissingCommand { kind }),
        (Some((Kind::Remote(_), kind)), _, false) => Err(EntryError::MissingUrl { kind }),
        (Some((kind, _)), _, _) => {
            if kind == Kind::Remote(RemoteKind::Sse) {
                fields.note(Oddity::DeprecatedTransport);
            }
            Ok(kind)
        }
        (None, true, false) => Ok(Kind::Stdio),
        (None, false, true) => Ok(Kind::Remote(RemoteKind::Probe)),
        (None, false, false) => {
            fields.note_unknown(Kind::Stdio);
            Err(EntryError::MissingCommandOrUrl { nested: nested_entry(map) })
        }
    }
}

/// What a word says. Handles to something that runs just now come from the dynamic scope alone.
fn named_kind(word: &str, scope: Scope) -> Result<Kind, EntryError> {
    match word {
        "stdio" | "local" => Ok(Kind::Stdio),
        "http" | "streamable-http" | "streamableHttp" | "streamable_http" => {
            Ok(Kind::Remote(RemoteKind::Streamable))
        }
        "remote" => Ok(Kind::Remote(RemoteKind::Probe)),
        "sse" => Ok(Kind::Remote(RemoteKind::Sse)),
        "ws" | "websocket" => Ok(Kind::Remote(RemoteKind::WebSocket)),
        "sdk" | "sse-ide" | "ws-ide" if scope != Scope::Dynamic => {
            Err(EntryError::TransportNotInDialect { given: word.to_owned(), scope: scope.as_str() })
        }
        "sdk" => Ok(Kind::InProcess),
        "sse-ide" => Ok(Kind::Remote(RemoteKind::SseIde)),
        "ws-ide" => Ok(Kind::Remote(RemoteKind::WebSocketIde)),
        _ => Err(EntryError::UnknownTransport {
            given: word.chars().take(40).collect(),
            nearest: nearest(word, ["stdio", "http", "streamable-http", "sse", "ws", "websocket"]),
        }),
    }
}

/// The member that looks like the entry itself, one level too deep.
fn nested_entry(map: &RawMap) -> Option<String> {
    let is_entry =
        |raw: &Raw| raw.as_map().is_some_and(|m| m.contains_key("command") || m.contains_key("url"));
    map.iter().find(|(_, raw)| is_entry(raw)).map(|(key, _)| key.clone())
}

fn stdio(fields: &mut Fields<'_>) -> Result<StdioSpec, EntryError> {
    let (command, mut args, mut args_secret) = command(fields)?;
    for arg in fields.texts(&keys::ARGS)? {
        if arg.is_secret {
            args_secret.insert(args.len());
        }
        args.push(arg.text);
    }
    let env = fields.secrets(&keys::ENV)?.into_iter().collect();
    let cwd = fields.text(&keys::CWD)?.map(|cwd| {
        let folder = fields.world().folder;
        folder.join(cwd.text).to_string_lossy().into_owned()
    });
    Ok(StdioSpec { command, args, args_secret, env, cwd })
}

/// The program, and the arguments that stand with it when `command` is a list.
fn command(
    fields: &mut Fields<'_>,
) -> Result<(String, Vec<String>, std::collections::BTreeSet<usize>), EntryError> {
    let words = fields.text_or_texts(&keys::COMMAND)?;
    let mut words = words.into_iter();
    let program = words.next().map(|word| word.text).filter(|program| !program.trim().is_empty());
    let program = program.ok_or(EntryError::MissingCommandOrUrl { nested: None })?;
    let rest: Vec<_> = words.collect();
    let secret = rest.iter().enumerate().filter(|(_, word)| word.is_secret).map(|(index, _)| index).collect();
    Ok((program, rest.into_iter().map(|word| word.text).collect(), secret))
}

fn http(fields: &mut Fields<'_>, kind: RemoteKind) -> Result<HttpSpec, EntryError> {
    let at = fields.used(&keys::URL).to_owned();
    let url = fields.text(&keys::URL)?.map(|url| url.text).unwrap_or_default();
    let is_whole = |url: &url::Url| url.has_host() != (url.scheme() == "unix") && url.path() != "";
    let scheme = url::Url::parse(url.trim()).ok().filter(is_whole).map(|url| url.scheme().to_owned());
    let kind = match (kind, scheme.as_deref()) {
        (kind, Some("ws" | "wss")) if kind.is_websocket() => kind,
        (kind, _) if kind.is_websocket() => {
            return Err(EntryError::BadUrl { at, schemes: "ws:// or wss://" });
        }
        // Without a type the address itself says so.
        (RemoteKind::Probe, Some("ws" | "wss")) => RemoteKind::WebSocket,
        (_, Some("http" | "https" | "unix")) => kind,
        _ => return Err(EntryError::BadUrl { at, schemes: "http://, https:// or unix:///" }),
    };
    let ide = if kind.is_ide() { Some(ide(fields)?) } else { None };
    Ok(HttpSpec { url, headers: fields.secrets(&keys::HEADERS)?, kind, ide })
}

/// The editor behind an entry. Which distribution we are in is known where the references come from.
fn ide(fields: &mut Fields<'_>) -> Result<IdeSpec, EntryError> {
    let distro = || fields.world().env.get("WSL_DISTRO_NAME").filter(|name| !name.is_empty()).cloned();
    let platform = match fields.truth(&keys::IDE_WINDOWS)? {
        Some(true) => IdePlatform::Windows { distro: distro() },
        Some(false) | None => IdePlatform::Here,
    };
    Ok(IdeSpec {
        name: fields.plain_text(&keys::IDE_NAME)?.unwrap_or_default(),
        platform,
        auth_token: fields.text(&keys::IDE_TOKEN)?.map(|token| Secret::new(token.text)),
    })
}

/// A server that the host registered under the entry's `name`, or else under the name of the entry.
fn in_process(name: &str, fields: &Fields<'_>) -> Result<InProcessSpec, EntryError> {
    let key = fields.plain_text(&keys::KEY)?.unwrap_or_else(|| name.to_owned());
    Ok(InProcessSpec { key })
}

fn enabled(fields: &mut Fields<'_>) -> Result<bool, EntryError> {
    let (enabled, disabled) = (fields.truth(&keys::ENABLED)?, fields.truth(&keys::DISABLED)?);
    if enabled.is_some() && disabled.is_some() {
        fields.note(Oddity::EnabledAndDisabled);
    }
    Ok(enabled.unwrap_or(true) && !disabled.unwrap_or(false))
}

fn options(fields: &mut Fields<'_>) -> Result<ServerOptions, EntryError> {
    if fields.has(&keys::TIMEOUT) {
        fields.note(Oddity::TimeoutUnit);
    }
    let in_flight_max = fields.count(&keys::IN_FLIGHT_MAX)?.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    Ok(ServerOptions {
        connect_timeout_ms: fields.count(&keys::CONNECT_TIMEOUT_MS)?,
        call_timeout_ms: fields.count(&keys::CALL_TIMEOUT_MS)?,
        in_flight_max,
        required: fields.truth(&keys::REQUIRED)?.unwrap_or(false),
        trusted: fields.truth(&keys::TRUSTED)?.unwrap_or(false),
        always_load: fields.truth(&keys::ALWAYS_LOAD)?.unwrap_or(false),
        protocol_era: protocol_era(fields)?,
    })
}

fn protocol_era(fields: &mut Fields<'_>) -> Result<EraPin, EntryError> {
    match fields.plain_text(&keys::PROTOCOL_ERA)?.as_deref() {
        None | Some("auto") => Ok(EraPin::Auto),
        Some("legacy") => Ok(EraPin::Pinned(Era::Legacy)),
        Some("modern") => Ok(EraPin::Pinned(Era::Modern)),
        Some(_) => Err(EntryError::WrongType {
            at: "protocol_era".into(),
            expected: "auto, legacy or modern",
            found: "another word",
        }),
    }
}
