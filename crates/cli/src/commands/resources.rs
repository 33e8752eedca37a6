//! `resources [NAME]` and `read SERVER URI`.

use super::gather::{Answer, Gathered, gather, single};
use super::result::{Saving, resource};
use super::tools::{ended, first_line, headed, unavailable};
use crate::app::App;
use crate::args::ReadArgs;
use crate::output::{CliError, Exit, Sheet, Tone, nearest};
use crate::terminal::Spinner;
use callboard::{CallError, ConnHandle, ItemList, StateView};
use callboard_protocol::code;
use callboard_protocol::json::text;
use callboard_protocol::list::{Item, ListKind};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Resources and templates of one server.
struct Lists {
    resources: Option<Arc<ItemList>>,
    templates: Option<Arc<ItemList>>,
}

impl Lists {
    fn items(&self) -> impl Iterator<Item = &Item> {
        items(&self.resources).chain(items(&self.templates))
    }
}

fn items(list: &Option<Arc<ItemList>>) -> impl Iterator<Item = &Item> {
    list.iter().flat_map(|list| list.items.iter())
}

/// Lists the resources of every server, or of one, as their servers answer.
pub(super) async fn resources(app: &App, name: Option<&str>) -> Result<(), CliError> {
    let config = app.config();
    let board = app.board_of(name).await?;
    let gathered = gather(app, board, fetch, |one| section(app, one)).await?;
    if app.screen.is_json() {
        let rows = |pick: fn(&Lists) -> &Option<Arc<ItemList>>| -> Vec<Value> {
            let given = gathered.iter().filter_map(|one| match &one.answer {
                Answer::Given(lists) => Some((one.server.name().as_str(), pick(lists))),
                Answer::Refused(_) | Answer::Waiting => None,
            });
            given.flat_map(|(server, list)| items(list).map(move |item| with_server(server, item))).collect()
        };
        let mut gone = unavailable(&gathered);
        gone.iter_mut().for_each(|one| config.scrubber.clean_json(one));
        app.screen.document(&json!({
            "resources": rows(|lists| &lists.resources),
            "templates": rows(|lists| &lists.templates),
            "unavailable": gone,
        }))?;
    }
    config.something()?;
    ended(name.is_some(), &gathered)
}

async fn fetch(server: ConnHandle) -> Result<Lists, CallError> {
    Ok(Lists {
        resources: offered(server.list(ListKind::Resources).await)?,
        templates: offered(server.list(ListKind::ResourceTemplates).await)?,
    })
}

/// A server that has no such list at all simply has none.
pub(super) fn offered(list: Result<Arc<ItemList>, CallError>) -> Result<Option<Arc<ItemList>>, CallError> {
    match list {
        Ok(list) => Ok(Some(list)),
        Err(CallError::Unsupported(_)) => Ok(None),
        Err(CallError::Remote(error)) if error.code == code::METHOD_NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

/// An item as the server sent it, with the server's name in front.
pub(super) fn with_server(server: &str, item: &Item) -> Value {
    let mut row = Map::new();
    row.insert("server".into(), server.into());
    if let Ok(Value::Object(members)) = serde_json::from_str(text(&item.raw)) {
        row.extend(members.into_iter().filter(|(key, _)| key != "server"));
    }
    Value::Object(row)
}

fn section(app: &App, one: &Gathered<Lists>) -> Result<(), CliError> {
    if app.screen.is_json() {
        return Ok(());
    }
    let Some(lists) = headed(app, one, "resource", |lists| lists.items().count())? else { return Ok(()) };
    let rows: Vec<Vec<String>> =
        lists.items().map(|item| vec![format!("  {}", item.key), about(item)]).collect();
    let sheet = Sheet::fitting(&app.screen, &["", ""], &rows);
    rows.iter().try_for_each(|row| app.screen.result(&sheet.lines(row, &[Some(Tone::Accent), None])))?;
    Ok(app.screen.result("")?)
}

fn about(item: &Item) -> String {
    let value: Value = serde_json::from_str(text(&item.raw)).unwrap_or_default();
    let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let name = if word("title").is_empty() { word("name") } else { word("title") };
    let parts = [name, word("mimeType"), first_line(&word("description"))];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<String>>().join(" · ")
}

/// Reads one resource and prints its contents.
pub(super) async fn read(app: &App, args: ReadArgs) -> Result<(), CliError> {
    let name = args.server.as_str();
    let server = app.server(name).await?;
    let spinner = Spinner::start(&app.screen, format!("reading from {name}"));
    let answer = server.read_resource(&args.uri, app.call_options()).await;
    let raw = match answer {
        Ok(raw) => raw,
        Err(error) => return Err(unread(&server, &args.uri, &error).await),
    };
    drop(spinner);
    if app.screen.is_json() {
        return Ok(app.screen.result(text(&raw))?);
    }
    let value: Value = serde_json::from_str(text(&raw)).unwrap_or_default();
    let Some(contents) = value["contents"].as_array() else {
        let fact = format!("the answer of {name} has no contents");
        return Err(CliError::new(Exit::Unreachable, "invalid-answer", fact).server(name));
    };
    let saving = Saving { folder: args.save.as_deref(), stem: "resource" };
    contents.iter().try_for_each(|contents| resource(app, contents, saving))
}

async fn unread(server: &ConnHandle, uri: &str, error: &CallError) -> CliError {
    let name = server.name().as_str();
    if !matches!(server.state(), StateView::Connected { .. }) {
        return single(server, Some(error));
    }
    let made = CliError::from_call(name, error);
    if !matches!(error, CallError::Remote(_)) {
        return made;
    }
    let known = server.list(ListKind::Resources).await.ok();
    let near = known.as_ref().and_then(|list| nearest(uri, list.items.iter().map(|item| &*item.key)));
    match near.filter(|near| *near != uri) {
        Some(near) => made.or_hint(|| Some(format!("did you mean {near:?}?"))),
        None => made.or_hint(|| Some(format!("`callboard resources {name}` lists what it has"))),
    }
}
