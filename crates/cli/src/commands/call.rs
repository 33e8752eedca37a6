//! `call SERVER/TOOL`: connects that server alone, types the arguments by the tool's schema, and calls.

use super::gather::single;
use super::result::{Saving, print};
use super::target::{Target, candidates, no_such_item, resolve};
use crate::app::App;
use crate::args::CallArgs;
use crate::output::{CliError, Exit};
use crate::schema::ObjectSchema;
use crate::terminal::Spinner;
use callboard::{CallError, CallOptions, ConnHandle, ItemList, StateView, ToolReply};
use callboard_protocol::code;
use callboard_protocol::json::is_object;
use callboard_protocol::list::ToolView;
use serde_json::value::RawValue;
use std::io::Read;
use std::sync::Arc;

/// The variable of whoever traces what this command is a part of (W3C trace context, as programs hand it on).
const TRACEPARENT: &str = "TRACEPARENT";
/// The word that means stdin.
const STDIN: &str = "-";

/// Calls one tool and prints what it answers.
pub(super) async fn call(app: &App, args: CallArgs) -> Result<(), CliError> {
    let given = Given::read(&args).await?;
    let (server, tool) = find(app, &args.tool).await?;
    let name = server.name().to_string();
    let spinner = Spinner::start(&app.screen, format!("connecting to {name}"));
    let list = tools_of(app, &server).await?;
    let schema = match &list {
        Some(list) => Some(schema_of(list, &name, &tool)?),
        None => None,
    };
    let arguments = given.arguments(schema.as_ref(), &name, &tool)?;
    spinner.say(format!("calling {name}/{tool}"));
    let options = CallOptions {
        progress: spinner.progress_sink(),
        traceparent: app.surroundings.env.get(TRACEPARENT).cloned(),
        ..app.call_options()
    };
    let reply = server.call_tool(&tool, &arguments, options).await;
    drop(spinner);
    let reply = reply.map_err(|error| failed(app, &server, &tool, schema.as_ref(), &error))?;
    show(app, &reply, &tool, &args)?;
    match reply.is_error() {
        false => Ok(()),
        true => {
            Err(CliError::new(Exit::Tool, "tool-error", format!("the tool {name}/{tool} reports an error"))
                .server(name.as_str())
                .or_hint(|| signature_hint(schema.as_ref())))
        }
    }
}

/// Arguments as they were typed.
enum Given {
    Pairs(Vec<String>),
    Whole(String),
}

impl Given {
    async fn read(args: &CallArgs) -> Result<Given, CliError> {
        let whole = match (&args.args, args.pairs.as_slice()) {
            (Some(text), _) if text != STDIN => text.clone(),
            (Some(_), _) => stdin().await?,
            (None, [word]) if word == STDIN => stdin().await?,
            (None, pairs) => return Ok(Given::Pairs(pairs.to_vec())),
        };
        match serde_json::from_str::<&RawValue>(&whole) {
            Ok(raw) if is_object(raw.get()) => Ok(Given::Whole(raw.get().to_owned())),
            Ok(_) => {
                Err(CliError::usage("the arguments are no JSON object").hint(r#"write '{"key": "value"}'"#))
            }
            Err(error) => Err(CliError::usage(format!("the arguments are no JSON: {error}"))
                .hint(r#"write '{"key": "value"}'"#)),
        }
    }

    fn arguments(&self, schema: Option<&ObjectSchema>, server: &str, tool: &str) -> Result<String, CliError> {
        let pairs = match self {
            Given::Whole(text) => return Ok(text.clone()),
            Given::Pairs(pairs) => pairs,
        };
        let object = match schema {
            Some(schema) => schema.object_of(pairs),
            None => ObjectSchema::default().object_of(pairs),
        };
        let object = object.map_err(|problem| {
            CliError::usage(format!("{server}/{tool}: {problem}"))
                .server(server)
                .or_hint(|| signature_hint(schema))
        })?;
        Ok(serde_json::Value::Object(object).to_string())
    }
}

async fn stdin() -> Result<String, CliError> {
    let read = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    });
    let text = read.await.map_err(|error| CliError::internal(error.to_string()))?;
    text.map_err(|error| CliError::usage(format!("stdin cannot be read: {error}")))
}

/// The server that the word names, on a board of its own, and the raw name of the tool.
async fn find(app: &App, word: &str) -> Result<(ConnHandle, String), CliError> {
    let config = app.config();
    let qualified = match resolve(config, word, "tool")? {
        Target::Item { server, item } => return Ok((app.server(&server).await?, item)),
        Target::Qualified(name) => name,
    };
    let servers = config.servers();
    if servers.is_empty() {
        return Err(config.nothing());
    }
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let names = candidates(&names, &qualified);
    let servers = servers.iter().filter(|server| names.contains(&server.name.as_str())).cloned().collect();
    let board = app.board(servers).await?;
    let fetched =
        super::gather::gather(app, board, |server| async move { server.tools().await }, |_| Ok(())).await?;
    let catalog = board.catalog();
    if let Some(entry) = catalog.find(&qualified) {
        return Ok((entry.handle.clone(), entry.item.key.to_string()));
    }
    if let [one] = fetched.as_slice()
        && !matches!(one.server.state(), StateView::Connected { .. })
    {
        return Err(single(&one.server, None));
    }
    let error = CliError::new(Exit::Tool, "unknown-tool", format!("there is no tool {qualified:?}"));
    let all: Vec<&str> = catalog.tools().map(|entry| entry.name.as_str()).collect();
    match crate::output::nearest(&qualified, all) {
        Some(near) => Err(error.hint(format!("did you mean {near:?}?"))),
        None => Err(error.hint("`callboard tools --json` gives the names for models")),
    }
}

/// The server's tools; none when it is connected but its list cannot be had, which need not stop a call.
async fn tools_of(app: &App, server: &ConnHandle) -> Result<Option<Arc<ItemList>>, CliError> {
    let Some(answer) = app.within(server.tools()).await else { return Err(single(server, None)) };
    match answer {
        Ok(list) => Ok(Some(list)),
        Err(CallError::Unsupported(fact)) => {
            Err(CliError::new(Exit::Tool, "unknown-tool", fact).server(server.name().as_str()))
        }
        Err(_) if matches!(server.state(), StateView::Connected { .. }) => Ok(None),
        Err(error) => Err(single(server, Some(&error))),
    }
}

fn schema_of(list: &ItemList, server: &str, tool: &str) -> Result<ObjectSchema, CliError> {
    let Some(item) = list.get(tool) else {
        return Err(no_such_item(server, "tool", tool, list.items.iter().map(|item| &*item.key)));
    };
    let view = ToolView::read(&item.raw);
    Ok(ObjectSchema::read(view.and_then(|view| view.input_schema).map_or("null", RawValue::get)))
}

fn failed(
    app: &App,
    server: &ConnHandle,
    tool: &str,
    schema: Option<&ObjectSchema>,
    error: &CallError,
) -> CliError {
    let name = server.name();
    let made = CliError::from_call(name.as_str(), error);
    match error {
        CallError::Remote(remote) if remote.code == code::INVALID_PARAMS => {
            let takes = signature_hint(schema);
            made.or_hint(|| {
                takes.or_else(|| Some(format!("`callboard tools {name} --schema` shows what {tool} takes")))
            })
        }
        CallError::TimedOut { .. } if app.global.timeout.is_some() => made.hint("give a larger --timeout"),
        _ => made,
    }
}

fn signature_hint(schema: Option<&ObjectSchema>) -> Option<String> {
    let signature = schema?.signature();
    Some(match signature.is_empty() {
        true => "it takes no arguments".to_owned(),
        false => format!("it takes {signature}"),
    })
}

fn show(app: &App, reply: &ToolReply, tool: &str, args: &CallArgs) -> Result<(), CliError> {
    let saving = Saving { folder: args.save.as_deref(), stem: tool };
    if app.screen.is_json() {
        // Exactly as the server gave it.
        return Ok(app.screen.result(reply.raw())?);
    }
    let result =
        reply.read().map_err(|error| CliError::new(Exit::Unreachable, error.code(), error.to_string()))?;
    print(app, &result, saving)
}
