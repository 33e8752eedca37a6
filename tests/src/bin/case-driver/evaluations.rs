//! Evaluations: an input, and what our own code makes of it.

use crate::job::{NamedServer, Naming, ResultView};
use callboard::protocol::view::{ViewLimits, view};
use callboard::protocol::{NameTable, ToolResult};
use serde_json::{Value, json};

/// Names of tools, and the way back from names.
pub(crate) fn naming<'a>(input: &'a Naming) -> Value {
    let pairs_of =
        |server: &'a NamedServer| server.tools.iter().map(|tool| (server.name.as_str(), tool.as_str()));
    let pairs: Vec<(&str, &str)> = input.servers.iter().flat_map(pairs_of).collect();
    let table = NameTable::new(&pairs, input.limit);
    let named = pairs.iter().enumerate().filter_map(|(index, (server, tool))| {
        Some(json!({ "server": server, "tool": tool, "name": table.name(index)?.as_str() }))
    });
    let resolved = input.resolve.iter().filter_map(|name| {
        let (server, tool) = pairs.get(table.index_of(name)?)?;
        Some(json!({ "name": name, "server": server, "tool": tool }))
    });
    json!({ "names": named.collect::<Vec<_>>(), "resolved": resolved.collect::<Vec<_>>() })
}

/// What a model is shown of a result.
pub(crate) fn result_view(input: &ResultView) -> Result<Value, String> {
    let limits = ViewLimits {
        text_chars_max: input.limits.text_chars_max,
        media_bytes_max: input.limits.media_bytes_max,
    };
    let shown = view(&ToolResult::read(input.result.get())?, limits);
    serde_json::to_value(shown).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        let input =
            r#"{"limit":64,"servers":[{"name":"a b","tools":["x","y"]}],"resolve":["mcp__a_b__y","other"]}"#;
        let output = naming(&serde_json::from_str(input).expect("reads"));
        assert_eq!(output["names"][0], json!({ "server": "a b", "tool": "x", "name": "mcp__a_b__x" }));
        assert_eq!(output["resolved"], json!([{ "name": "mcp__a_b__y", "server": "a b", "tool": "y" }]));
    }

    #[test]
    fn a_result_without_limits_is_shown_whole() {
        let input = r#"{"result":{"content":[{"type":"text","text":"hi"}]}}"#;
        let output = result_view(&serde_json::from_str(input).expect("reads")).expect("shows");
        assert_eq!(output, json!({ "blocks": [{ "type": "text", "text": "hi" }], "notes": [] }));
    }
}
