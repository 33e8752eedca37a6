//! Where in a file the servers stand (config-formats §4.2).

use super::finding::FileError;
use super::nearest::nearest;
use super::raw::{Language, Raw, RawKind, RawMap};

/// Keys under which servers stand, in the order in which they are looked for.
const CONTAINERS: [&str; 5] = ["mcpServers", "servers", "context_servers", "mcp_servers", "extensions"];
/// The container of some clients, which others use for settings: it counts when it holds entries.
const MCP: &str = "mcp";
/// A map whose values have one of these holds entries.
const ENTRY_KEYS: [&str; 7] = ["command", "cmd", "url", "uri", "serverUrl", "httpUrl", "type"];

/// The servers of a file.
#[derive(Debug, PartialEq)]
pub(super) enum Servers<'a> {
    /// By name.
    Map(&'a RawMap),
    /// In a list, each with a `name`.
    List(&'a [Raw]),
    /// None; with the container's name that a key of the file may have been meant for.
    None { nearest: Option<&'static str> },
}

/// Finds the servers, and the top-level key they stand under unless the whole file is the container.
///
/// # Errors
/// When the container, or the file as a whole, has the wrong type.
pub(super) fn find(root: &Raw, language: Language) -> Result<(Servers<'_>, Option<&'static str>), FileError> {
    let map = match &root.kind {
        RawKind::Map(map) => map,
        RawKind::List(items) => return Ok((Servers::List(items), None)),
        _ => return Err(FileError::NotServers { found: root.type_name() }),
    };
    if let Some(servers) = second_layout(map) {
        return Ok((Servers::Map(servers), Some(MCP)));
    }
    for key in CONTAINERS {
        match map.get(key).map(|raw| (&raw.kind, raw)) {
            None => {}
            Some((RawKind::Map(servers), _)) => return Ok((Servers::Map(servers), Some(key))),
            Some((RawKind::List(items), _)) => return Ok((Servers::List(items), Some(key))),
            Some((RawKind::Null, _)) => return Ok((Servers::List(&[]), Some(key))),
            Some((_, raw)) => {
                let found = raw.type_name();
                return Err(FileError::WrongContainer { key: key.to_owned(), line: raw.line, found });
            }
        }
    }
    if let Some(servers) = map.get(MCP).and_then(Raw::as_map).filter(|servers| holds_entries(servers)) {
        return Ok((Servers::Map(servers), Some(MCP)));
    }
    // In TOML the tables at the top are settings.
    if language == Language::Json && holds_entries(map) {
        return Ok((Servers::Map(map), None));
    }
    let nearest = map.keys().find_map(|key| nearest(key, CONTAINERS));
    Ok((Servers::None { nearest }, None))
}

/// `mcp.servers`, unless that is an entry called `servers`.
fn second_layout(map: &RawMap) -> Option<&RawMap> {
    let servers = map.get(MCP)?.as_map()?.get("servers")?.as_map()?;
    let is_entry = servers.get("type").is_some_and(|raw| raw.as_text().is_some());
    (!is_entry).then_some(servers)
}

fn holds_entries(map: &RawMap) -> bool {
    map.values().filter_map(Raw::as_map).any(|entry| ENTRY_KEYS.iter().any(|key| entry.contains_key(*key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::raw::parse;

    fn check(text: &str, language: Language, expected: &str) {
        let parsed = parse(text.as_bytes(), language).expect("parses");
        let shown = match find(&parsed.root, language) {
            Ok((Servers::Map(map), key)) => {
                format!("{key:?} {}", map.keys().map(String::as_str).collect::<Vec<_>>().join(" "))
            }
            Ok((Servers::List(items), key)) => format!("{key:?} list of {}", items.len()),
            Ok((Servers::None { nearest }, _)) => format!("none {nearest:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn each_shape() {
        for (text, expected) in [
            (r#"{"mcpServers": {"a": {}}, "servers": {"b": {}}}"#, r#"Some("mcpServers") a"#),
            (r#"{"servers": {"a": {}}, "inputs": []}"#, r#"Some("servers") a"#),
            (r#"{"mcpServers": [{"name": "a"}]}"#, r#"Some("mcpServers") list of 1"#),
            (r#"{"mcpServers": null}"#, r#"Some("mcpServers") list of 0"#),
            (r#"{"mcpServers": {}}"#, r#"Some("mcpServers") "#),
            (r#"{"mcp": {"servers": {"a": {}}}, "mcpServers": {"b": {}}}"#, r#"Some("mcp") a"#),
            (r#"{"mcp": {"servers": {"type": "local", "command": "x"}}}"#, r#"Some("mcp") servers"#),
            (r#"{"mcp": {"a": {"url": "x"}}}"#, r#"Some("mcp") a"#),
            (r#"{"mcp": {"access": {"x": 1}}}"#, "none None"),
            (r#"[{"name": "a"}]"#, "None list of 1"),
            (r#"{"a": {"command": "x"}, "b": 1}"#, "None a b"),
            (r#"{"a": {"x": 1}}"#, "none None"),
            (r#"{"mcpServer": {"a": {"command": "x"}}}"#, r#"none Some("mcpServers")"#),
            (r#"{"mcpServers": "x"}"#, "mcpServers is text, not an object of servers"),
            ("7", "holds a number where an object of servers should be"),
        ] {
            check(text, Language::Json, expected);
        }
        check("[servers.A]\ncommand = 'x'\n[connect]\ntype = 'x'", Language::Toml, r#"Some("servers") A"#);
        check("[connect]\ntype = 'x'", Language::Toml, "none None");
    }
}
