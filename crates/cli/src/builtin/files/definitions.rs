//! The tools of the `files` server, as clients see them.

use serde_json::{Value, json};

use super::super::server::{Effect, Tool};
use super::tools::{ENTRIES_PAGE_MAX, MATCHES_MAX, PART_BYTES_MAX};

/// All tools; they never change.
pub(super) fn tools() -> Vec<Tool> {
    vec![list(), read(), search(), stat()]
}

fn list() -> Tool {
    Tool {
        name: "list",
        title: "List a directory",
        description: "The entries of a directory, in the order of their names, in pages.",
        effect: Effect::Reads,
        input: json!({
            "type": "object",
            "properties": {
                "path": path_schema("Directory; left out, the served one"),
                "limit": { "type": "integer", "minimum": 1, "maximum": ENTRIES_PAGE_MAX },
                "cursor": { "type": "string", "description": "next_cursor of the page before" },
            },
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "entries": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": { "type": "string" },
                            "kind": kind_schema(),
                            "bytes": { "type": ["integer", "null"] },
                        },
                        "required": ["name", "kind", "bytes"],
                    },
                },
                "next_cursor": { "type": ["string", "null"] },
            },
            "required": ["path", "entries", "next_cursor"],
        }),
    }
}

fn read() -> Tool {
    Tool {
        name: "read",
        title: "Read a file",
        description: "A file, or a part of a long one. What is no text comes as base64.",
        effect: Effect::Reads,
        input: json!({
            "type": "object",
            "properties": {
                "path": path_schema("File"),
                "offset": {
                    "type": "integer", "minimum": 0,
                    "description": "Where to start, in bytes; next_offset of the part before",
                },
                "length": {
                    "type": "integer", "minimum": 1, "maximum": PART_BYTES_MAX,
                    "description": "How much at most, in bytes",
                },
            },
            "required": ["path"],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "uri": { "type": "string", "description": "The file as a resource" },
                "bytes": { "type": "integer", "description": "Size of the whole file" },
                "offset": { "type": "integer" },
                "next_offset": {
                    "type": ["integer", "null"],
                    "description": "Where the next part starts, if there is one",
                },
                "encoding": { "type": "string", "enum": ["utf-8", "base64"] },
                "text": {
                    "type": "string",
                    "description": "The text; with base64, the content is in the embedded resource",
                },
            },
            "required": ["path", "uri", "bytes", "offset", "next_offset", "encoding"],
        }),
    }
}

fn search() -> Tool {
    Tool {
        name: "search",
        title: "Search files",
        description: "The lines of text files below a directory that contain a text, in any case.",
        effect: Effect::Reads,
        input: json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "minLength": 1, "description": "A part of a line" },
                "path": path_schema("Directory; left out, the served one"),
                "limit": { "type": "integer", "minimum": 1, "maximum": MATCHES_MAX },
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
                            "path": { "type": "string" },
                            "line": { "type": "integer" },
                            "text": { "type": "string" },
                        },
                        "required": ["path", "line", "text"],
                    },
                },
                "files_searched": { "type": "integer" },
                "is_complete": {
                    "type": "boolean",
                    "description": "Whether everything was searched, or a limit came first",
                },
            },
            "required": ["matches", "files_searched", "is_complete"],
        }),
    }
}

fn stat() -> Tool {
    Tool {
        name: "stat",
        title: "About a file",
        description: "Kind, size and time of modification of a file or directory.",
        effect: Effect::Reads,
        input: json!({
            "type": "object",
            "properties": { "path": path_schema("File or directory") },
            "required": ["path"],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "uri": { "type": "string" },
                "kind": kind_schema(),
                "bytes": { "type": ["integer", "null"] },
                "modified": { "type": ["string", "null"], "description": "RFC 3339" },
                "media_type": { "type": ["string", "null"] },
            },
            "required": ["path", "uri", "kind", "bytes", "modified", "media_type"],
        }),
    }
}

fn path_schema(what: &str) -> Value {
    json!({
        "type": "string",
        "description": format!("{what}; relative to the served directory, with / between the names"),
    })
}

fn kind_schema() -> Value {
    json!({ "type": "string", "enum": ["file", "directory", "link", "other"] })
}
