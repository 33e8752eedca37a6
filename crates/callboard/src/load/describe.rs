//! Entries and findings as JSON for people and scripts, with every secret masked (config-formats §5.2).

use super::{Place, Problem, Warning};
use callboard_policy::{
    EraPin, IdePlatform, RemoteKind, ServerOptions, ServerSpec, Source, TransportSpec, masked_args,
};
use callboard_protocol::masked_url;
use serde_json::{Map, Value, json};

/// An entry in its normalised form: `name`, `scope`, `transport`, `timeouts_ms`, `enabled`, `required` and the other
/// per-server options. Values of `env` and `headers` are `***`, the address and the arguments are masked where
/// they carry or look like secrets.
pub fn spec_json(spec: &ServerSpec) -> Value {
    let mut entry = Map::new();
    entry.insert("name".into(), json!(spec.name.as_str()));
    entry.insert("scope".into(), json!(spec.scope.as_str()));
    entry.insert("transport".into(), transport_json(&spec.transport));
    entry.insert("timeouts_ms".into(), timeouts_json(&spec.options));
    entry.insert("enabled".into(), json!(spec.enabled));
    entry.insert("required".into(), json!(spec.options.required));
    entry.insert("trusted".into(), json!(spec.options.trusted));
    entry.insert("always_load".into(), json!(spec.options.always_load));
    entry.insert("protocol_era".into(), json!(era_word(spec.options.protocol_era)));
    if let Some(calls) = spec.options.in_flight_max {
        entry.insert("in_flight_max".into(), json!(calls));
    }
    if !spec.warnings.is_empty() {
        entry.insert("warnings".into(), json!(spec.warnings));
    }
    Value::Object(entry)
}

fn transport_json(transport: &TransportSpec) -> Value {
    match transport {
        TransportSpec::Stdio(stdio) => {
            let env: Map<String, Value> =
                stdio.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            let mut shown = json!({
                "type": "stdio", "command": stdio.command, "args": masked_args(stdio), "env": env,
            });
            if let Some(cwd) = &stdio.cwd {
                shown["cwd"] = json!(cwd);
            }
            shown
        }
        TransportSpec::Http(http) => {
            let headers: Map<String, Value> =
                http.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            let mut shown =
                json!({"type": remote_word(http.kind), "url": masked_url(&http.url), "headers": headers});
            if let Some(ide) = &http.ide {
                shown["ideName"] = json!(ide.name);
                shown["ideRunningInWindows"] = json!(matches!(ide.platform, IdePlatform::Windows { .. }));
                if let Some(token) = &ide.auth_token {
                    shown["authToken"] = json!(token);
                }
            }
            shown
        }
        TransportSpec::InProcess(server) => json!({"type": "sdk", "key": server.key}),
    }
}

/// The word of config-formats §5.2, where a transport that was not named is `auto`.
fn remote_word(kind: RemoteKind) -> &'static str {
    match kind {
        RemoteKind::Probe => "auto",
        RemoteKind::Streamable
        | RemoteKind::Sse
        | RemoteKind::WebSocket
        | RemoteKind::SseIde
        | RemoteKind::WebSocketIde => kind.as_str(),
    }
}

fn timeouts_json(options: &ServerOptions) -> Value {
    let named = [("connect", options.connect_timeout_ms), ("tool", options.call_timeout_ms)];
    let set = named.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), json!(limit?))));
    Value::Object(set.collect())
}

fn era_word(era: EraPin) -> &'static str {
    match era {
        EraPin::Auto => "auto",
        EraPin::Pinned(era) => era.as_str(),
    }
}

/// Where an entry is from: `{"file", "dialect", "plugin"}`.
pub fn source_json(source: &Source) -> Value {
    json!({"file": source.file, "dialect": source.dialect, "plugin": source.plugin})
}

/// A problem: `{"file", "line", "entry", "code", "message", "hint"}`, absent ones left out.
pub fn problem_json(problem: &Problem) -> Value {
    let Problem { file, line, entry, code, message, hint } = problem;
    present([
        ("file", json!(file)),
        ("line", json!(line)),
        ("entry", json!(entry)),
        ("code", json!(code)),
        ("message", json!(message)),
        ("hint", json!(hint)),
    ])
}

/// A warning: `{"file", "line", "entry", "code", "message"}`, absent ones left out.
pub fn warning_json(warning: &Warning) -> Value {
    let Warning { file, line, entry, code, message } = warning;
    present([
        ("file", json!(file)),
        ("line", json!(line)),
        ("entry", json!(entry)),
        ("code", json!(code)),
        ("message", json!(message)),
    ])
}

/// A place: `{"path", "scope", "dialect", "found"}`.
pub fn place_json(place: &Place) -> Value {
    json!({
        "path": place.path.to_string_lossy(),
        "scope": place.scope.as_str(),
        "dialect": place.dialect.as_str(),
        "found": place.found,
    })
}

fn present<const N: usize>(members: [(&str, Value); N]) -> Value {
    let set = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use callboard_policy::{HttpSpec, StdioSpec};
    use callboard_protocol::Secret;

    #[test]
    fn an_entry_is_shown_whole_and_without_its_secrets() {
        let stdio = StdioSpec {
            command: "npx".into(),
            args: vec!["-y".into(), "demo".into(), "--token".into(), "planted".into()],
            env: [("K".to_owned(), Secret::new("planted"))].into(),
            cwd: Some("/srv".into()),
            ..StdioSpec::default()
        };
        let mut spec = ServerSpec::new("a", TransportSpec::Stdio(stdio));
        spec.options.call_timeout_ms = Some(5);
        assert_eq!(
            spec_json(&spec),
            json!({
                "name": "a", "scope": "dynamic",
                "transport": {
                    "type": "stdio", "command": "npx", "args": ["-y", "demo", "--token", "***"],
                    "env": {"K": "***"}, "cwd": "/srv",
                },
                "timeouts_ms": {"tool": 5}, "enabled": true, "required": false, "trusted": false,
                "always_load": false, "protocol_era": "auto",
            })
        );
        assert!(!format!("{spec:?}").contains("planted"));
        let http = HttpSpec {
            url: "https://joe:planted@h.example/mcp?key=planted".into(),
            headers: vec![("Authorization".into(), Secret::new("Bearer planted"))],
            ..HttpSpec::default()
        };
        let spec = ServerSpec::new("b", TransportSpec::Http(http));
        assert_eq!(
            spec_json(&spec)["transport"],
            json!({
                "type": "auto", "url": "https://***:***@h.example/mcp?key=***", "headers": {"Authorization": "***"},
            })
        );
        assert!(!format!("{spec:?}").contains("planted"));
    }
}
