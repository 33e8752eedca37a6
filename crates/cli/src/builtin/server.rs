//! What a built-in server is made of. Servers know their tools, resources and prompts; they know nothing
//! of requests, eras or streams.

use std::fmt::Write as _;
use std::pin::Pin;
use std::time::SystemTime;

use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::broadcast;

use super::arguments::Arguments;
use super::message::Object;
use super::outbox::Reporter;
use super::page::{Page, Start};
use super::revision::Revision;
use super::subscription::Change;

/// What a server answers later. Dropping it cancels the work.
pub(super) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server: a list of tools and a way to call them, and where it has them resources and prompts.
pub(super) trait ToolServer: Send + Sync + 'static {
    fn about(&self) -> About;

    /// The tools of now, always in the same order.
    fn tools(&self) -> Vec<Tool>;

    /// Calls one of [`ToolServer::tools`].
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Arguments,
        reporter: &'a Reporter,
    ) -> Later<'a, Result<ToolOutput, ToolError>>;

    fn resources(&self) -> Option<&dyn Resources> {
        None
    }

    fn prompts(&self) -> Option<&dyn Prompts> {
        None
    }

    /// What changes from now on. A server without it never changes its lists.
    fn changes(&self) -> Option<broadcast::Receiver<Change>> {
        None
    }
}

/// The resources of a server.
pub(super) trait Resources: Send + Sync {
    fn templates(&self) -> Vec<Value>;

    /// A page of the resources, in the order of their keys.
    fn list<'a>(&'a self, start: &'a Start) -> Later<'a, Result<Page<Value>, ResourceError>>;

    /// The one content of a resource.
    fn read<'a>(&'a self, uri: &'a str) -> Later<'a, Result<Value, ResourceError>>;

    /// Values for the variable of a template that start with `prefix`; none where it has no such variable.
    fn complete<'a>(
        &'a self,
        template: &'a str,
        variable: &'a str,
        prefix: &'a str,
    ) -> Later<'a, Option<Vec<String>>>;

    /// Whether updates of that resource, or of one that may yet be there, can be told.
    fn can_watch(&self, uri: &str) -> bool;

    /// For servers that do not tell their updates themselves: how to look for them.
    fn poll(&self) -> Option<Poll> {
        None
    }
}

/// Looks, possibly blocking, at a resource; a different answer means that it was updated.
pub(super) type Poll = std::sync::Arc<dyn Fn(&str) -> Fingerprint + Send + Sync>;

/// Size and time of modification; none where there is nothing.
pub(super) type Fingerprint = Option<(u64, Option<SystemTime>)>;

/// The prompts of a server.
pub(super) trait Prompts: Send + Sync {
    fn list(&self) -> Vec<Prompt>;

    /// The text of one of [`Prompts::list`], with arguments of which the required ones are given.
    fn get(&self, name: &str, arguments: &Object) -> Result<String, String>;

    /// Values for an argument that start with `prefix`.
    fn complete(&self, name: &str, argument: &str, prefix: &str) -> Vec<String>;
}

/// Who a server is.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// For the model, what the tools are good for together.
    pub(super) instructions: &'static str,
}

impl About {
    /// The `Implementation` object of that revision.
    pub(super) fn implementation(&self, revision: Revision) -> Value {
        let mut info = json!({ "name": self.name, "version": env!("CARGO_PKG_VERSION") });
        if revision >= Revision::V2025_06_18 {
            info["title"] = json!(self.title);
        }
        info
    }
}

/// Hints about what a tool does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// Changes nothing.
    Reads,
    /// Adds or replaces; doing it twice changes nothing more.
    Writes,
    /// Destroys; doing it twice changes nothing more.
    Deletes,
}

/// The definition of a tool.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) effect: Effect,
    pub(super) input: Value,
    pub(super) output: Value,
}

impl Tool {
    /// The tool as that revision has it.
    pub(super) fn to_json(&self, revision: Revision) -> Value {
        let mut tool = json!({
            "name": self.name, "description": self.description, "inputSchema": self.input,
        });
        if revision >= Revision::V2025_03_26 {
            tool["annotations"] = json!({
                "title": self.title,
                "readOnlyHint": matches!(self.effect, Effect::Reads),
                "destructiveHint": matches!(self.effect, Effect::Deletes),
                "idempotentHint": true,
                "openWorldHint": false,
            });
        }
        if revision >= Revision::V2025_06_18 {
            tool["title"] = json!(self.title);
            tool["outputSchema"] = self.output.clone();
        }
        tool
    }
}

/// What a tool answers.
#[derive(Clone, Debug)]
pub(super) struct ToolOutput {
    structured: Value,
    content: Vec<Value>,
}

impl ToolOutput {
    /// Structured content with its mirror as text.
    pub(super) fn mirrored(structured: Value) -> Self {
        let text = structured.to_string();
        Self { structured, content: vec![json!({ "type": "text", "text": text })] }
    }

    /// Structured content beside content of its own.
    pub(super) fn with_content(structured: Value, content: Vec<Value>) -> Self {
        Self { structured, content }
    }

    /// The `CallToolResult` of that revision.
    pub(super) fn into_result(self, revision: Revision) -> Object {
        let mut result = Object::new();
        result.insert("content".to_owned(), Value::Array(self.content));
        if revision >= Revision::V2025_06_18 {
            result.insert("structuredContent".to_owned(), self.structured);
        }
        result.insert("isError".to_owned(), json!(false));
        result
    }
}

/// Why a tool has no output; the model is told, so that it can do better.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum ToolError {
    /// The arguments are not what the tool takes.
    #[error("{0}")]
    Input(String),
    /// The arguments are right, and yet it cannot be done.
    #[error("{0}")]
    Failed(String),
}

impl ToolError {
    /// The `CallToolResult` that says so.
    pub(super) fn into_result(self) -> Object {
        let text = match self {
            Self::Input(fact) => format!("Invalid arguments: {fact}"),
            Self::Failed(fact) => fact,
        };
        let mut result = Object::new();
        result.insert("content".to_owned(), json!([{ "type": "text", "text": text }]));
        result.insert("isError".to_owned(), json!(true));
        result
    }
}

/// Why a resource, or a list of them, cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum ResourceError {
    #[error("there is no such resource")]
    NotFound,
    #[error("the resource has {bytes} bytes, and {bytes_max} is the limit")]
    TooLarge { bytes: u64, bytes_max: u64 },
    #[error("cannot read the resource: {0}")]
    Io(std::io::ErrorKind),
}

/// The definition of a prompt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prompt {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) arguments: &'static [PromptArgument],
}

/// An argument of a prompt.
#[derive(Clone, Copy, Debug)]
pub(super) struct PromptArgument {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) is_required: bool,
}

impl Prompt {
    /// The prompt as that revision has it.
    pub(super) fn to_json(self, revision: Revision) -> Value {
        let arguments: Vec<Value> = self
            .arguments
            .iter()
            .map(|argument| {
                json!({
                    "name": argument.name,
                    "description": argument.description,
                    "required": argument.is_required,
                })
            })
            .collect();
        let mut prompt = json!({
            "name": self.name, "description": self.description, "arguments": arguments,
        });
        if revision >= Revision::V2025_06_18 {
            prompt["title"] = json!(self.title);
        }
        prompt
    }
}

/// Percent-encodes what cannot stand in one segment of a URI.
pub(super) fn encode_segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Undoes [`encode_segment`]; none where the text is not a segment in that form.
pub(super) fn decode_segment(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?].map(|digit| char::from(digit).to_digit(16));
                let [high, low] = digits;
                bytes.push(u8::try_from(high? * 16 + low?).ok()?);
            }
            b'/' | b'?' | b'#' => return None,
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_survive_encoding() {
        for text in ["plain", "a b/c", "ü?#%", ""] {
            assert_eq!(decode_segment(&encode_segment(text)).as_deref(), Some(text));
        }
        for broken in ["a/b", "%", "%4", "%zz", "%ff", "a?b"] {
            assert_eq!(decode_segment(broken), None, "{broken}");
        }
    }
}
