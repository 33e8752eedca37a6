//! What is answered to a message, as far as it does not depend on how the message came.

use serde_json::{Value, json};
use std::time::Duration;

/// What a message asks for.
pub(crate) enum Deed {
    /// Nothing that could be answered.
    Nothing,
    /// This answer.
    Answer(Value),
    /// A call that may be performed.
    Call(Call),
}

/// A call of the one tool there is.
pub(crate) struct Call {
    pub(crate) id: Value,
    /// What it is known by in the ledger, and answered with.
    pub(crate) number: u64,
    pub(crate) wait: Duration,
    pub(crate) manner: Manner,
}

/// How a call is answered once it is performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Well,
    /// With things around the answer that are none; over HTTP with a page of HTML instead.
    Noise,
    /// To an id that nobody gave.
    WrongId,
    /// With half of the answer, and the connection ends.
    Cut,
    /// With neither a result nor an error.
    Hollow,
}

impl Manner {
    /// The misconduct that a fault over HTTP turns to in turn.
    pub(crate) const BAD: [Manner; 4] = [Manner::Noise, Manner::WrongId, Manner::Cut, Manner::Hollow];

    fn of(word: &str) -> Manner {
        match word {
            "noise" => Manner::Noise,
            "wrong-id" => Manner::WrongId,
            "cut" => Manner::Cut,
            "hollow" => Manner::Hollow,
            _ => Manner::Well,
        }
    }
}

impl Call {
    /// The answer that is right.
    pub(crate) fn answer(&self) -> Value {
        let text = self.number.to_string();
        json!({ "jsonrpc": "2.0", "id": self.id, "result": { "content": [{ "type": "text", "text": text }] } })
    }

    /// The answer that this manner makes of it.
    pub(crate) fn answered(&self, manner: Manner) -> Value {
        let mut answer = self.answer();
        match manner {
            Manner::WrongId => answer["id"] = json!(format!("nobody-{}", self.number)),
            Manner::Hollow => answer = json!({ "jsonrpc": "2.0", "id": self.id }),
            Manner::Well | Manner::Noise | Manner::Cut => {}
        }
        answer
    }
}

pub(crate) fn deed(message: &Value) -> Deed {
    let method = message["method"].as_str().unwrap_or_default();
    let Some(id) = message.get("id") else { return Deed::Nothing };
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "chaos-server", "version": "1" },
        }),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }),
        "tools/call" => {
            let arguments = &message["params"]["arguments"];
            let manner = arguments["manner"].as_str().unwrap_or_default();
            let Some(number) = arguments["n"].as_u64().filter(|_| manner != "refuse") else {
                return Deed::Answer(error(id, -32602, "I will not"));
            };
            let wait = Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0));
            return Deed::Call(Call { id: id.clone(), number, wait, manner: Manner::of(manner) });
        }
        // An answer to us, which never asked.
        "" => return Deed::Nothing,
        _ => return Deed::Answer(error(id, -32601, "method not found")),
    };
    Deed::Answer(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_and_answered_in_its_manner() {
        let message = json!({ "id": 4, "method": "tools/call", "params": { "arguments": { "n": 9, "manner": "wrong-id" } } });
        let Deed::Call(call) = deed(&message) else { panic!("no call") };
        assert_eq!((call.number, call.manner), (9, Manner::WrongId));
        assert_eq!(call.answer()["result"]["content"][0]["text"], "9");
        assert_eq!(call.answered(call.manner)["id"], "nobody-9");
        assert!(call.answered(Manner::Hollow).get("result").is_none());
    }
}
