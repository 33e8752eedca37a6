//! `prompts [NAME]` and `prompt SERVER/PROMPT`.

use super::gather::{Answer, Gathered, gather, single};
use super::resources::{offered, with_server};
use super::result::{Saving, print_block};
use super::target::{Target, no_such_item, resolve};
use super::tools::{ended, first_line, headed, unavailable};
use crate::app::App;
use crate::args::PromptArgs;
use crate::output::{CliError, Exit, Sheet, Tone, nearest};
use crate::terminal::Spinner;
use callboard::{CallError, ConnHandle, ItemList, StateView};
use callboard_protocol::ToolResult;
use callboard_protocol::json::text;
use callboard_protocol::list::{Item, ListKind};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Lists the prompts of every server, or of one, as their servers answer.
pub(super) async fn prompts(app: &App, name: Option<&str>) -> Result<(), CliError> {
    let config = app.config();
    let board = app.board_of(name).await?;
    let gathered = gather(app, board, fetch, |one| section(app, one)).await?;
    if app.screen.is_json() {
        let given = gathered.iter().filter_map(|one| match &one.answer {
            Answer::Given(list) => Some((one.server.name().as_str(), list)),
            Answer::Refused(_) | Answer::Waiting => None,
        });
        let rows = given.flat_map(|(server, list)| items(list).map(move |item| with_server(server, item)));
        let rows: Vec<Value> = rows.collect();
        let mut gone = unavailable(&gathered);
        gone.iter_mut().for_each(|one| config.scrubber.clean_json(one));
        app.screen.document(&json!({ "prompts": rows, "unavailable": gone }))?;
    }
    config.something()?;
    ended(name.is_some(), &gathered)
}

async fn fetch(server: ConnHandle) -> Result<Option<Arc<ItemList>>, CallError> {
    offered(server.list(ListKind::Prompts).await)
}

fn items(list: &Option<Arc<ItemList>>) -> impl Iterator<Item = &Item> {
    list.iter().flat_map(|list| list.items.iter())
}

/// One argument of a prompt.
#[derive(Deserialize)]
struct Argument {
    name: String,
    #[serde(default)]
    required: bool,
}

fn arguments_of(item: &Item) -> Vec<Argument> {
    let value: Value = serde_json::from_str(text(&item.raw)).unwrap_or_default();
    let arguments = value["arguments"].as_array().cloned().unwrap_or_default();
    arguments.into_iter().filter_map(|argument| serde_json::from_value(argument).ok()).collect()
}

fn section(app: &App, one: &Gathered<Option<Arc<ItemList>>>) -> Result<(), CliError> {
    if app.screen.is_json() {
        return Ok(());
    }
    let Some(list) = headed(app, one, "prompt", |list| items(list).count())? else { return Ok(()) };
    let rows: Vec<Vec<String>> = items(list).map(cells).collect();
    let sheet = Sheet::fitting(&app.screen, &["", "", ""], &rows);
    let tones = [Some(Tone::Accent), Some(Tone::Dim), None];
    rows.iter().try_for_each(|row| app.screen.result(&sheet.lines(row, &tones)))?;
    Ok(app.screen.result("")?)
}

fn cells(item: &Item) -> Vec<String> {
    let value: Value = serde_json::from_str(text(&item.raw)).unwrap_or_default();
    let words = arguments_of(item).into_iter().map(|argument| match argument.required {
        true => format!("{}=…", argument.name),
        false => format!("[{}=…]", argument.name),
    });
    let about = first_line(value["description"].as_str().unwrap_or_default());
    vec![format!("  {}", item.key), words.collect::<Vec<String>>().join(" "), about]
}

/// Gets one prompt and prints its messages.
pub(super) async fn prompt(app: &App, args: PromptArgs) -> Result<(), CliError> {
    let (name, prompt) = match resolve(app.config(), &args.prompt, "prompt")? {
        Target::Item { server, item } => (server, item),
        Target::Qualified(word) => {
            return Err(
                CliError::usage(format!("{word:?} names no server and prompt")).hint("write SERVER/PROMPT")
            );
        }
    };
    let server = app.server(&name).await?;
    let spinner = Spinner::start(&app.screen, format!("asking {name}"));
    let Some(answer) = app.within(server.list(ListKind::Prompts)).await else {
        return Err(single(&server, None));
    };
    let list = match answer {
        Ok(list) => Some(list),
        Err(CallError::Unsupported(fact)) => {
            return Err(CliError::new(Exit::Tool, "unknown-item", fact).server(name));
        }
        Err(_) if matches!(server.state(), StateView::Connected { .. }) => None,
        Err(error) => return Err(single(&server, Some(&error))),
    };
    let arguments = arguments(list.as_deref(), &name, &prompt, &args.pairs)?;
    let answer = server.get_prompt(&prompt, &arguments, app.call_options()).await;
    drop(spinner);
    let raw = answer.map_err(|error| CliError::from_call(&name, &error))?;
    match app.screen.is_json() {
        true => Ok(app.screen.result(text(&raw))?),
        false => messages(app, text(&raw)),
    }
}

/// The arguments as a raw object: all of them are texts.
fn arguments(
    list: Option<&ItemList>,
    server: &str,
    prompt: &str,
    pairs: &[String],
) -> Result<String, CliError> {
    let known = match list.map(|list| (list, list.get(prompt))) {
        None => None,
        Some((_, Some(item))) => Some(arguments_of(item)),
        Some((list, None)) => {
            return Err(no_such_item(server, "prompt", prompt, list.items.iter().map(|item| &*item.key)));
        }
    };
    let usage = |fact: String| CliError::usage(format!("{server}/{prompt}: {fact}")).server(server);
    let mut object = Map::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(usage(format!("{pair:?} is not key=value")));
        };
        if let Some(known) = &known
            && !known.iter().any(|argument| argument.name == key)
        {
            let names = known.iter().map(|argument| argument.name.as_str());
            let near = nearest(key, names).map(|near| format!("did you mean {near:?}?"));
            return Err(usage(format!("there is no argument {key:?}")).or_hint(|| near));
        }
        object.insert(key.to_owned(), value.into());
    }
    let missing =
        known.iter().flatten().find(|argument| argument.required && !object.contains_key(&argument.name));
    match missing {
        Some(argument) => Err(usage(format!("the argument {:?} is missing", argument.name))
            .hint(format!("add {}=…", argument.name))),
        None => Ok(Value::Object(object).to_string()),
    }
}

#[derive(Deserialize)]
struct Prompt<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default)]
    role: String,
    #[serde(borrow)]
    content: &'a RawValue,
}

fn messages(app: &App, raw: &str) -> Result<(), CliError> {
    let invalid = |fact: String| CliError::new(Exit::Unreachable, "invalid-answer", fact);
    let prompt: Prompt<'_> =
        serde_json::from_str(raw).map_err(|error| invalid(format!("the answer is no prompt: {error}")))?;
    for message in &prompt.messages {
        let role = crate::output::printable(&message.role);
        app.screen.result(&app.screen.paint(Tone::Head, &format!("{role}:")))?;
        let wrapped = match message.content.get().starts_with('[') {
            true => format!(r#"{{"content":{}}}"#, message.content.get()),
            false => format!(r#"{{"content":[{}]}}"#, message.content.get()),
        };
        let result = ToolResult::read(&wrapped).map_err(invalid)?;
        for block in &result.content {
            print_block(app, block, Saving { folder: None, stem: "prompt" })?;
        }
    }
    Ok(())
}
