//! The client under test for the official conformance suite (`tests/conformance`): the last argument is the
//! server's URL. What it does for a scenario is what the scenario asks of a host; how it is done is the
//! runtime's own affair.

use callboard::protocol::ProtocolVersion;
use callboard::protocol::list::{ListKind, ToolView};
use callboard::{
    Board, BoxFuture, CallOptions, ConnHandle, ElicitAnswer, ElicitRequest, Elicitation, EraPin, Root,
    Sampling, ServerName, ServerOptions, ServerSpec,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

/// One thing that a scenario asks of a host.
enum Step {
    ListTools,
    Call(&'static str, &'static str),
    /// Every tool that was listed, with arguments made from its schema.
    CallAllListed,
    /// The calls that the scenario's context names.
    CallAllGiven,
    /// Every resource that is listed.
    ReadAllListed,
    /// Every prompt that is listed.
    GetAllListed,
    /// Gives the input schema of the first tool to the second as its argument `schema`.
    SendSchemaBack(&'static str, &'static str),
}

/// What a scenario asks for (`tests/conformance/README.md`).
fn steps(scenario: &str) -> Result<Vec<Step>, String> {
    let steps = match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => vec![Step::ListTools],
        "tools_call" => vec![Step::ListTools, Step::Call("add_numbers", r#"{"a":5,"b":3}"#)],
        "elicitation-sep1034-client-defaults" => {
            vec![Step::ListTools, Step::Call("test_client_elicitation_defaults", "{}")]
        }
        "sse-retry" => vec![Step::ListTools, Step::Call("test_reconnection", "{}")],
        "sep-2322-client-request-state" => vec![
            Step::ListTools,
            Step::Call("test_mrtr_echo_state", "{}"),
            Step::Call("test_mrtr_no_state", "{}"),
            Step::Call("test_mrtr_unrelated", "{}"),
            Step::Call("test_mrtr_no_result_type", "{}"),
        ],
        "http-standard-headers" => {
            vec![Step::ListTools, Step::CallAllListed, Step::ReadAllListed, Step::GetAllListed]
        }
        "http-custom-headers" => vec![Step::ListTools, Step::CallAllGiven],
        "http-invalid-tool-headers" => vec![Step::ListTools, Step::CallAllListed],
        "json-schema-2020-12-preservation" => {
            vec![Step::ListTools, Step::SendSchemaBack("json_schema_2020_12_tool", "json_schema_echo")]
        }
        auth if auth.starts_with("auth/") => return Err("OAuth is not built yet".into()),
        other => return Err(format!("no steps are known for the scenario {other:?}")),
    };
    Ok(steps)
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run()));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance-client: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url =
        env::args().next_back().filter(|url| url.contains("://")).ok_or("the last argument is no URL")?;
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO")?;
    let steps = steps(&scenario)?;
    let board = Board::builder()
        .server(ServerSpec {
            options: ServerOptions { protocol_era: era()?, ..ServerOptions::default() },
            ..ServerSpec::http("suite", url)
        })
        .elicitation(Arc::new(Agreeable))
        .sampling(Arc::new(NoModel))
        .roots(vec![Root { uri: "file:///".into(), name: None }])
        .build()
        .await?;
    let server = board.server("suite").ok_or("the board did not admit the server")?;
    let mut ended = server.connect(None).await.map_err(Box::<dyn Error>::from);
    for step in steps {
        if ended.is_ok() {
            ended = take(&server, step).await;
        }
    }
    board.close().await;
    ended
}

/// The era that the suite names; found by probing when it names none.
fn era() -> Result<EraPin, Box<dyn Error>> {
    match env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        Err(_) => Ok(EraPin::Auto),
        Ok(version) => Ok(EraPin::Pinned(version.parse::<ProtocolVersion>()?.era())),
    }
}

async fn take(server: &ConnHandle, step: Step) -> Result<(), Box<dyn Error>> {
    match step {
        Step::ListTools => {
            server.tools().await?;
        }
        Step::Call(tool, arguments) => {
            server.call_tool(tool, arguments, CallOptions::default()).await?;
        }
        Step::CallAllListed => {
            for item in &server.tools().await?.items {
                let schema = ToolView::read(&item.raw).and_then(|tool| tool.input_schema);
                let schema = schema.map_or("{}", RawValue::get);
                server.call_tool(&item.key, &arguments_for(schema), CallOptions::default()).await?;
            }
        }
        Step::CallAllGiven => {
            for call in context()?.tool_calls {
                let arguments = call.arguments.as_ref().map_or("{}", |arguments| arguments.get());
                server.call_tool(&call.name, arguments, CallOptions::default()).await?;
            }
        }
        Step::ReadAllListed => {
            for item in &server.list(ListKind::Resources).await?.items {
                server.read_resource(&item.key, CallOptions::default()).await?;
            }
        }
        Step::GetAllListed => {
            for item in &server.list(ListKind::Prompts).await?.items {
                server.get_prompt(&item.key, "{}", CallOptions::default()).await?;
            }
        }
        Step::SendSchemaBack(from, to) => {
            let tools = server.tools().await?;
            let raw = &tools.get(from).ok_or("the tool with the schema is not listed")?.raw;
            let schema = ToolView::read(raw).and_then(|tool| tool.input_schema).ok_or("it has no schema")?;
            let arguments = format!(r#"{{"schema":{}}}"#, schema.get());
            server.call_tool(to, &arguments, CallOptions::default()).await?;
        }
    }
    Ok(())
}

/// What a scenario hands to its client.
#[derive(Deserialize)]
struct Context {
    #[serde(rename = "toolCalls")]
    tool_calls: Vec<GivenCall>,
}

#[derive(Deserialize)]
struct GivenCall {
    name: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

fn context() -> Result<Context, Box<dyn Error>> {
    Ok(serde_json::from_str(&env::var("MCP_CONFORMANCE_CONTEXT")?)?)
}

/// Arguments that a schema's required properties allow.
fn arguments_for(schema: &str) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let names =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let value_of = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    };
    Value::Object(names.map(|name| (name.to_owned(), value_of(name))).collect()).to_string()
}

/// A person who agrees to everything and fills in nothing: the runtime adds the defaults.
struct Agreeable;

impl Elicitation for Agreeable {
    fn elicit(&self, _request: ElicitRequest) -> BoxFuture<'static, ElicitAnswer> {
        let nothing = RawValue::from_string("{}".to_owned()).ok();
        Box::pin(async move { ElicitAnswer::Accept(nothing) })
    }
}

/// A host without a model, for the capability alone.
struct NoModel;

impl Sampling for NoModel {
    fn create_message(
        &self,
        _server: ServerName,
        _params: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, String>> {
        Box::pin(async { Err("this host has no model".to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_follow_the_schema() {
        let schema =
            r#"{"properties":{"a":{"type":"string"},"n":{"type":"integer"},"o":{}},"required":["a","n"]}"#;
        assert_eq!(arguments_for(schema), r#"{"a":"text","n":1}"#);
        assert_eq!(arguments_for("{}"), "{}");
    }

    #[test]
    fn logins_are_refused_in_words() {
        assert_eq!(steps("auth/dpop").err(), Some("OAuth is not built yet".to_owned()));
        assert!(steps("no-such-scenario").is_err());
        assert!(steps("tools_call").is_ok_and(|steps| steps.len() == 2));
    }
}
