//! The tools and prompts of the `memory` server, as clients see them.

use serde_json::{Value, json};

use super::super::server::{Effect, Prompt, PromptArgument, Tool};
use super::MATCHES_PAGE_MAX;
use super::store::{KEY_BYTES_MAX, NOTE_BYTES_MAX};

/// The tools; `forget` is one of them while there are notes.
pub(super) fn tools(has_notes: bool) -> Vec<Tool> {
    let mut tools = vec![remember(), recall()];
    if has_notes {
        tools.push(forget());
    }
    tools.push(search());
    tools
}

/// The prompts, which never change.
pub(super) const PROMPTS: [Prompt; 2] = [
    Prompt {
        name: "take_notes",
        title: "Take notes",
        description: "Asks to keep what matters of the conversation.",
        arguments: &[PromptArgument {
            name: "topic",
            description: "Keep only what concerns this",
            is_required: false,
        }],
    },
    Prompt {
        name: "use_note",
        title: "Use a note",
        description: "Puts a note into the conversation.",
        arguments: &[PromptArgument { name: "key", description: "Key of the note", is_required: true }],
    },
];

fn remember() -> Tool {
    Tool {
        name: "remember",
        title: "Remember",
        description: "Keeps a note under a key, in place of the one that is there.",
        effect: Effect::Writes,
        input: json!({
            "type": "object",
            "properties": {
                "key": key_schema(),
                "text": {
                    "type": "string", "maxLength": NOTE_BYTES_MAX,
                    "description": "The note",
                },
            },
            "required": ["key", "text"],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "key": { "type": "string" },
                "replaced": { "type": "boolean" },
                "notes": { "type": "integer", "description": "How many notes there are now" },
            },
            "required": ["key", "replaced", "notes"],
        }),
    }
}

fn recall() -> Tool {
    Tool {
        name: "recall",
        title: "Recall",
        description: "The note under a key.",
        effect: Effect::Reads,
        input: key_alone(),
        output: json!({
            "type": "object",
            "properties": {
                "key": { "type": "string" },
                "text": { "type": "string" },
                "uri": { "type": "string", "description": "The note as a resource" },
            },
            "required": ["key", "text", "uri"],
        }),
    }
}

fn forget() -> Tool {
    Tool {
        name: "forget",
        title: "Forget",
        description: "Drops the note under a key for good.",
        effect: Effect::Deletes,
        input: key_alone(),
        output: json!({
            "type": "object",
            "properties": {
                "key": { "type": "string" },
                "notes": { "type": "integer", "description": "How many notes are left" },
            },
            "required": ["key", "notes"],
        }),
    }
}

fn search() -> Tool {
    Tool {
        name: "search",
        title: "Search notes",
        description: "The notes whose key or text contains a text, in any case, in pages.",
        effect: Effect::Reads,
        input: json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "The text; empty finds all notes" },
                "limit": { "type": "integer", "minimum": 1, "maximum": MATCHES_PAGE_MAX },
                "cursor": { "type": "string", "description": "next_cursor of the page before" },
            },
            "required": ["query"],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "matches": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "key": { "type": "string" },
                            "excerpt": { "type": "string" },
                            "uri": { "type": "string" },
                        },
                        "required": ["key", "excerpt", "uri"],
                    },
                },
                "next_cursor": { "type": ["string", "null"] },
            },
            "required": ["matches", "next_cursor"],
        }),
    }
}

fn key_schema() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX,
        "description": "Key of the note",
    })
}

fn key_alone() -> Value {
    json!({
        "type": "object",
        "properties": { "key": key_schema() },
        "required": ["key"],
        "additionalProperties": false,
    })
}
