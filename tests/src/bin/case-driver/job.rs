//! A job as the harness writes it (`tests/fakeserver/README.md`, section Drivers).

use serde::Deserialize;
use serde::de::Error;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// One job.
#[derive(Debug)]
pub(crate) enum Job {
    /// Steps against a scripted server.
    Scripted(Box<Scripted>),
    /// Names for tools.
    Naming { input: Naming },
    /// What a model is shown of a result.
    ResultView { input: ResultView },
    /// A kind that this program has nothing for.
    Other(String),
}

impl<'de> Deserialize<'de> for Job {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Job, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let kind = value.get("kind").and_then(|kind| kind.as_str()).unwrap_or_default().to_owned();
        let input = || value.get("input").cloned().unwrap_or_default();
        let job = match kind.as_str() {
            "stdio-script" | "http-script" | "oauth" => serde_json::from_value(value).map(Job::Scripted),
            "naming" => serde_json::from_value(input()).map(|input| Job::Naming { input }),
            "result-view" => serde_json::from_value(input()).map(|input| Job::ResultView { input }),
            _ => Ok(Job::Other(kind)),
        };
        job.map_err(D::Error::custom)
    }
}

/// Steps against a scripted server.
#[derive(Debug, Deserialize)]
pub(crate) struct Scripted {
    pub(crate) transport: String,
    #[serde(default)]
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) oauth: bool,
    pub(crate) steps: Vec<Step>,
}

/// One step, and when it counts as hung.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    pub(crate) op: Op,
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Option<Box<RawValue>>,
    #[serde(default)]
    arg_bytes: Option<usize>,
    #[serde(default)]
    pub(crate) calls: Vec<ToolCall>,
    #[serde(default)]
    pub(crate) ms: u64,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(crate) reset_on_progress: bool,
    #[serde(default)]
    pub(crate) max_total_ms: Option<u64>,
    #[serde(default = "hard_ms")]
    pub(crate) hard_ms: u64,
}

/// The README's figure for a step that says nothing of it.
fn hard_ms() -> u64 {
    15_000
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Connect,
    ListTools,
    CallTool,
    ParallelCalls,
    Wait,
    Close,
}

/// One call of a tool.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    #[serde(default)]
    args: Option<Box<RawValue>>,
}

impl ToolCall {
    /// The arguments as raw JSON.
    pub(crate) fn arguments(&self) -> String {
        self.args.as_ref().map_or_else(|| "{}".to_owned(), |args| args.get().to_owned())
    }
}

impl Step {
    /// The call that a `call_tool` step makes.
    pub(crate) fn call(&self) -> ToolCall {
        let filled = self.arg_bytes.map(|bytes| format!(r#"{{"text":"{}"}}"#, "a".repeat(bytes)));
        let filled = filled.and_then(|text| RawValue::from_string(text).ok());
        ToolCall { name: self.name.clone(), args: filled.or_else(|| self.args.clone()) }
    }
}

/// Names for tools.
#[derive(Debug, Deserialize)]
pub(crate) struct Naming {
    pub(crate) limit: usize,
    pub(crate) servers: Vec<NamedServer>,
    #[serde(default)]
    pub(crate) resolve: Vec<String>,
}

/// A server and the raw names of its tools.
#[derive(Debug, Deserialize)]
pub(crate) struct NamedServer {
    pub(crate) name: String,
    pub(crate) tools: Vec<String>,
}

/// A result of `tools/call` and the limits of what is shown of it.
#[derive(Debug, Deserialize)]
pub(crate) struct ResultView {
    pub(crate) result: Box<RawValue>,
    #[serde(default)]
    pub(crate) limits: Limits,
}

/// Absent limits are none.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Limits {
    pub(crate) text_chars_max: usize,
    pub(crate) media_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { text_chars_max: usize::MAX, media_bytes_max: usize::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scripted_job_is_read() {
        let text = r#"{"kind":"stdio-script","scratch":"/s","transport":"stdio","headers":{},"oauth":false,
            "command":"python3","args":["a"],"env":null,"cwd":null,
            "steps":[{"op":"connect"},{"op":"call_tool","name":"echo","arg_bytes":3,"hard_ms":9},
                     {"op":"call_tool","name":"echo","args":{"n":1.50}}]}"#;
        let Job::Scripted(job) = serde_json::from_str(text).expect("reads") else { panic!("wrong kind") };
        assert_eq!((job.steps[0].op, job.steps[0].hard_ms), (Op::Connect, 15_000));
        assert_eq!(job.steps[1].call().arguments(), r#"{"text":"aaa"}"#);
        assert_eq!(job.steps[1].hard_ms, 9);
    }

    #[test]
    fn an_unknown_kind_is_told_by_its_name() {
        let job = serde_json::from_str(r#"{"kind":"websocket","input":{},"scratch":"/s"}"#).expect("reads");
        assert!(matches!(job, Job::Other(kind) if kind == "websocket"));
    }
}
