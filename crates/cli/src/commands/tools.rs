//! `tools [NAME]`.

use super::gather::{Answer, Gathered, gather, single, unhealthy};
use crate::app::App;
use crate::args::ToolsArgs;
use crate::output::{CliError, Sheet, Tone, count, printable, tone};
use crate::schema::ObjectSchema;
use callboard::{Board, CallError, ConnHandle, ItemList, StateView, ToolEntry};
use callboard_protocol::list::{ListKind, ToolView};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool of the JSON shape. Schemas and annotations stay as the server wrote them.
#[derive(Serialize)]
struct ToolRow<'a> {
    name: &'a str,
    server: &'a str,
    original_name: &'a str,
    title: Option<String>,
    description: String,
    description_truncated: bool,
    input_schema: Option<&'a RawValue>,
    output_schema: Option<&'a RawValue>,
    annotations: Option<&'a RawValue>,
    is_mcp: bool,
    permission: &'static str,
}

/// The whole JSON document.
#[derive(Serialize)]
struct Document<'a> {
    tools: Vec<ToolRow<'a>>,
    unavailable: Vec<Value>,
    problems: Vec<Value>,
}

/// Lists the tools of every server, or of one, as their servers answer.
pub(super) async fn tools(app: &App, args: ToolsArgs) -> Result<(), CliError> {
    let board = app.board_of(args.name.as_deref()).await?;
    let gathered = gather(app, board, fetch, |one| section(app, one, args.schema)).await?;
    if app.screen.is_json() {
        print_json(app, board, &gathered)?;
    }
    app.config().something()?;
    ended(args.name.is_some(), &gathered)
}

async fn fetch(server: ConnHandle) -> Result<Arc<ItemList>, CallError> {
    match server.tools().await {
        // A server without tools has none, which is no failure.
        Err(CallError::Unsupported(_)) => {
            Ok(Arc::new(ItemList::new(ListKind::Tools, Vec::new(), Vec::new())))
        }
        answer => answer,
    }
}

/// The command's end: the one server that was named must have answered, and so must all of several.
pub(super) fn ended<T>(named: bool, gathered: &[Gathered<T>]) -> Result<(), CliError> {
    match gathered {
        [one] if named => match &one.answer {
            Answer::Given(_) => Ok(()),
            Answer::Refused(error) => Err(single(&one.server, Some(error))),
            Answer::Waiting => Err(single(&one.server, None)),
        },
        many => unhealthy(many.iter().map(|one| (one.server.name().as_str(), one.server.state()))),
    }
}

fn print_json(app: &App, board: &Board, gathered: &[Gathered<Arc<ItemList>>]) -> Result<(), CliError> {
    let catalog = board.catalog();
    let answered = |entry: &ToolEntry<'_>| {
        let mut given = gathered.iter().filter(|one| matches!(one.answer, Answer::Given(_)));
        given.any(|one| one.server.name() == entry.server)
    };
    let tools = catalog.tools().filter(answered).map(row).collect();
    let mut document =
        Document { tools, unavailable: unavailable(gathered), problems: app.config().problems_json() };
    document.unavailable.iter_mut().for_each(|one| app.config().scrubber.clean_json(one));
    // As the servers gave it, unless one of them tells a secret.
    let told = serde_json::to_value(&document).unwrap_or_default();
    let mut clean = told.clone();
    app.config().scrubber.clean_json(&mut clean);
    match clean == told {
        true => Ok(app.screen.document(&document)?),
        false => Ok(app.screen.document(&clean)?),
    }
}

fn row(entry: ToolEntry<'_>) -> ToolRow<'_> {
    let view = entry.view();
    let (description, description_truncated) = entry.description();
    ToolRow {
        name: entry.name.as_str(),
        server: entry.server.as_str(),
        original_name: &entry.item.key,
        title: view.as_ref().and_then(ToolView::title_text),
        description,
        description_truncated,
        input_schema: view.as_ref().and_then(|view| view.input_schema),
        output_schema: view.as_ref().and_then(|view| view.output_schema),
        annotations: view.as_ref().and_then(|view| view.annotations),
        is_mcp: true,
        permission: entry.permission.as_str(),
    }
}

/// Servers that gave no answer, with their state.
pub(super) fn unavailable<T>(gathered: &[Gathered<T>]) -> Vec<Value> {
    let without = gathered.iter().filter(|one| !matches!(one.answer, Answer::Given(_)));
    without.map(|one| json!({ "server": one.server.name().as_str(), "state": one.server.state() })).collect()
}

fn section(app: &App, one: &Gathered<Arc<ItemList>>, schema: bool) -> Result<(), CliError> {
    if app.screen.is_json() {
        return Ok(());
    }
    let Some(list) = headed(app, one, "tool", |list| list.items.len())? else { return Ok(()) };
    if schema {
        return list.items.iter().try_for_each(|item| whole(app, &item.key, &ToolView::read(&item.raw)));
    }
    let clean = |text: &str| app.config().scrubber.clean(text);
    let rows: Vec<Vec<String>> = list
        .items
        .iter()
        .map(|item| {
            let description =
                ToolView::read(&item.raw).map(|view| first_line(&clean(&view.description_text())));
            vec![format!("  {}", item.key), description.unwrap_or_default()]
        })
        .collect();
    let sheet = Sheet::fitting(&app.screen, &["", ""], &rows);
    rows.iter().try_for_each(|row| app.screen.result(&sheet.lines(row, &[Some(Tone::Accent), None])))?;
    Ok(app.screen.result("")?)
}

/// The heading of a server's section; gives its answer, if there is one.
pub(super) fn headed<'a, T>(
    app: &App,
    one: &'a Gathered<T>,
    noun: &str,
    items: impl Fn(&T) -> usize,
) -> Result<Option<&'a T>, CliError> {
    let name = app.screen.paint(Tone::Head, &printable(one.server.name().as_str()));
    if let Answer::Given(list) = &one.answer {
        let n = count(items(list), noun);
        app.screen.result(&format!("{name}  {}", app.screen.paint(Tone::Dim, &n)))?;
        return Ok(Some(list));
    }
    let state = one.server.state();
    let why = match (&one.answer, &state) {
        (Answer::Refused(error), StateView::Connected { .. }) => error.to_string(),
        _ => crate::output::detail(&state),
    };
    let word = app.screen.paint(tone(&state), state.word());
    let why = app.config().scrubber.clean(&printable(&why)).replace('\n', "\n  ");
    app.screen.result(&format!("{name}  {word}\n  {why}\n"))?;
    Ok(None)
}

fn whole(app: &App, key: &str, view: &Option<ToolView<'_>>) -> Result<(), CliError> {
    app.screen.result(&format!("  {}", app.screen.paint(Tone::Accent, &printable(key))))?;
    let Some(view) = view else { return Ok(()) };
    let clean = |text: &str| app.config().scrubber.clean(text);
    for line in printable(&clean(&view.description_text())).trim_end().lines() {
        app.screen.result(format!("    {line}").trim_end())?;
    }
    let schema = ObjectSchema::read(view.input_schema.map_or("null", RawValue::get));
    let properties = schema.properties().map(|(name, property)| {
        let required = if schema.is_required(name) { ", required" } else { "" };
        let about = property.get("description").and_then(Value::as_str).map(clean);
        let about = about.as_deref().map(first_line).unwrap_or_default();
        vec![format!("    {name}"), format!("{}{required}", schema.words(property)), about]
    });
    let rows: Vec<Vec<String>> = properties.collect();
    let sheet = Sheet::fitting(&app.screen, &["", "", ""], &rows);
    rows.iter().try_for_each(|row| app.screen.result(&sheet.lines(row, &[None, Some(Tone::Dim), None])))?;
    Ok(app.screen.result("")?)
}

/// The first line that says something, cut where a sentence would be.
pub(super) fn first_line(text: &str) -> String {
    const CHARS_MAX: usize = 160;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let (head, was_cut) = callboard_protocol::text::cut(line, CHARS_MAX);
    printable(head) + if was_cut { "…" } else { "" }
}
