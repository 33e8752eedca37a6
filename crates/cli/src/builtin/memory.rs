//! The `memory` server: notes under keys, kept while the process lives.
//!
//! Its lists depend on the notes, which all sessions of one server share, and on nothing that a
//! connection did: `forget` is a tool while there is something to forget.

mod definitions;
mod store;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::arguments::Arguments;
use super::message::Object;
use super::outbox::Reporter;
use super::page::{Page, Start};
use super::server::{
    About, Later, Prompt, Prompts, ResourceError, Resources, Tool, ToolError, ToolOutput, ToolServer,
    decode_segment, encode_segment,
};
use super::subscription::Change;
use store::{Change as NoteChange, KEY_BYTES_MAX, NOTE_BYTES_MAX, Note, Store};

/// What every URI of a note starts with.
const NOTE_URI_PREFIX: &str = "memory://note/";

/// The template of those URIs.
const NOTE_URI_TEMPLATE: &str = "memory://note/{key}";

/// Notes on a page of resources.
const RESOURCES_PAGE_MAX: usize = 50;

/// Matches on a page of `search`, when it does not say how many.
const MATCHES_PAGE: usize = 20;

/// Most matches on a page of `search`.
const MATCHES_PAGE_MAX: usize = 100;

/// Longest query, in bytes; a key is the longest thing worth searching for.
const QUERY_BYTES_MAX: usize = 256;

/// Characters of a note that a match shows.
const EXCERPT_CHARS: usize = 160;

/// Changes that a slow session may be behind before it is told that all has changed.
const CHANGES_KEPT: usize = 256;

/// The server and its notes.
pub(super) struct MemoryServer {
    store: Mutex<Store>,
    changes: broadcast::Sender<Change>,
}

impl MemoryServer {
    pub(super) fn new() -> Self {
        Self { store: Mutex::new(Store::default()), changes: broadcast::channel(CHANGES_KEPT).0 }
    }

    fn remember(&self, mut arguments: Arguments) -> Result<ToolOutput, ToolError> {
        let key = arguments.text("key", KEY_BYTES_MAX)?;
        let text = arguments.text("text", NOTE_BYTES_MAX)?;
        arguments.end()?;
        let (change, notes) = {
            let mut store = self.store.lock();
            let change = store.put(&key, text).map_err(|error| ToolError::Failed(error.to_string()))?;
            (change, store.len())
        };
        self.publish(change, &key);
        let replaced = matches!(change, NoteChange::Replaced);
        Ok(ToolOutput::mirrored(json!({ "key": key, "replaced": replaced, "notes": notes })))
    }

    fn recall(&self, mut arguments: Arguments) -> Result<ToolOutput, ToolError> {
        let key = arguments.text("key", KEY_BYTES_MAX)?;
        arguments.end()?;
        let store = self.store.lock();
        let note = store.get(&key).ok_or_else(|| no_note(&key))?;
        Ok(ToolOutput::mirrored(json!({ "key": key, "text": note.text, "uri": uri(&key) })))
    }

    fn forget(&self, mut arguments: Arguments) -> Result<ToolOutput, ToolError> {
        let key = arguments.text("key", KEY_BYTES_MAX)?;
        arguments.end()?;
        let (change, notes) = {
            let mut store = self.store.lock();
            (store.remove(&key).ok_or_else(|| no_note(&key))?, store.len())
        };
        self.publish(change, &key);
        Ok(ToolOutput::mirrored(json!({ "key": key, "notes": notes })))
    }

    fn search(&self, mut arguments: Arguments) -> Result<ToolOutput, ToolError> {
        let query = arguments.text("query", QUERY_BYTES_MAX)?.to_lowercase();
        let start = arguments.start()?;
        let limit = arguments.limit(MATCHES_PAGE, MATCHES_PAGE_MAX)?;
        arguments.end()?;
        let store = self.store.lock();
        let found = store.after(start.after()).filter(|(key, note)| note.contains(key, &query));
        let page = Page::take(found, limit, |(key, _)| (*key).to_owned());
        let page = page.map(|(key, note)| json!({ "key": key, "excerpt": excerpt(note), "uri": uri(key) }));
        Ok(ToolOutput::mirrored(json!({ "matches": page.items, "next_cursor": page.next_cursor })))
    }

    /// Tells the sessions what is different now.
    fn publish(&self, change: NoteChange, key: &str) {
        let note = Change::Resource(uri(key));
        let told = match change {
            NoteChange::First | NoteChange::Last => vec![Change::Tools, Change::Resources, note],
            NoteChange::Added | NoteChange::Removed => vec![Change::Resources, note],
            NoteChange::Replaced => vec![note],
        };
        for change in told {
            // Nobody listening is no error.
            let _ = self.changes.send(change);
        }
    }
}

fn no_note(key: &str) -> ToolError {
    ToolError::Failed(format!("there is no note {key}; search finds notes by a part of their text"))
}

fn uri(key: &str) -> String {
    format!("{NOTE_URI_PREFIX}{}", encode_segment(key))
}

/// The key in a note's URI, if it is one.
fn key_of(uri: &str) -> Option<String> {
    let key = decode_segment(uri.strip_prefix(NOTE_URI_PREFIX)?)?;
    (!key.is_empty() && key.len() <= KEY_BYTES_MAX).then_some(key)
}

fn excerpt(note: &Note) -> String {
    let mut excerpt: String = note.text.chars().take(EXCERPT_CHARS).collect();
    if excerpt.len() < note.text.len() {
        excerpt.push('…');
    }
    excerpt
}

impl ToolServer for MemoryServer {
    fn about(&self) -> About {
        About {
            name: "callboard-memory",
            title: "Memory",
            instructions: "Keeps short notes under keys while the server runs. Search before you recall; \
                           remembering a key again replaces its note.",
        }
    }

    fn tools(&self) -> Vec<Tool> {
        definitions::tools(self.store.lock().len() > 0)
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Arguments,
        _reporter: &'a Reporter,
    ) -> Later<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match tool {
                "remember" => self.remember(arguments),
                "recall" => self.recall(arguments),
                "forget" => self.forget(arguments),
                "search" => self.search(arguments),
                _ => Err(ToolError::Failed(format!("there is no tool {tool}"))),
            }
        })
    }

    fn resources(&self) -> Option<&dyn Resources> {
        Some(self)
    }

    fn prompts(&self) -> Option<&dyn Prompts> {
        Some(self)
    }

    fn changes(&self) -> Option<broadcast::Receiver<Change>> {
        Some(self.changes.subscribe())
    }
}

impl Resources for MemoryServer {
    fn templates(&self) -> Vec<Value> {
        vec![json!({
            "uriTemplate": NOTE_URI_TEMPLATE,
            "name": "note",
            "title": "Note",
            "description": "The note under a key",
            "mimeType": "text/plain",
        })]
    }

    fn list<'a>(&'a self, start: &'a Start) -> Later<'a, Result<Page<Value>, ResourceError>> {
        Box::pin(async move {
            let store = self.store.lock();
            let page =
                Page::take(store.after(start.after()), RESOURCES_PAGE_MAX, |(key, _)| (*key).to_owned());
            Ok(page.map(|(key, note)| {
                json!({
                    "uri": uri(key), "name": key, "mimeType": "text/plain", "size": note.text.len(),
                })
            }))
        })
    }

    fn read<'a>(&'a self, uri: &'a str) -> Later<'a, Result<Value, ResourceError>> {
        Box::pin(async move {
            let key = key_of(uri).ok_or(ResourceError::NotFound)?;
            let store = self.store.lock();
            let note = store.get(&key).ok_or(ResourceError::NotFound)?;
            Ok(json!({ "uri": uri, "mimeType": "text/plain", "text": note.text }))
        })
    }

    fn complete<'a>(
        &'a self,
        template: &'a str,
        variable: &'a str,
        prefix: &'a str,
    ) -> Later<'a, Option<Vec<String>>> {
        Box::pin(async move {
            (template == NOTE_URI_TEMPLATE && variable == "key").then(|| self.store.lock().keys(prefix))
        })
    }

    fn can_watch(&self, uri: &str) -> bool {
        key_of(uri).is_some()
    }
}

impl Prompts for MemoryServer {
    fn list(&self) -> Vec<Prompt> {
        definitions::PROMPTS.to_vec()
    }

    fn get(&self, name: &str, arguments: &Object) -> Result<String, String> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        match name {
            "use_note" => {
                let key = text("key");
                let store = self.store.lock();
                let note = store.get(key).ok_or_else(|| format!("there is no note {key}"))?;
                Ok(format!("Take this note, kept under \"{key}\", into account:\n\n{}", note.text))
            }
            _ => Ok(format!(
                "Keep what matters of our conversation with the tool remember, one short note for each \
                 fact, under keys that are easy to guess.{}",
                match text("topic") {
                    "" => String::new(),
                    topic => format!(" Keep only what concerns {topic}."),
                }
            )),
        }
    }

    fn complete(&self, name: &str, argument: &str, prefix: &str) -> Vec<String> {
        match (name, argument) {
            ("use_note", "key") => self.store.lock().keys(prefix),
            _ => Vec::new(),
        }
    }
}
