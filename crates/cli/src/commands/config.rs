//! `config paths|show|check`.

use crate::app::App;
use crate::args::{CheckArgs, ConfigCommand, ShowArgs};
use crate::config::Config;
use crate::output::{CliError, Exit, Sheet, Tone, count, escaped, json_text, printable};
use callboard::ServerSpec;
use callboard::load::LoadOptions;
use callboard::load::describe::{place_json, source_json, spec_json, warning_json};
use serde_json::{Value, json};

/// Runs one of them.
pub(super) fn config(app: &App, command: ConfigCommand) -> Result<(), CliError> {
    match command {
        ConfigCommand::Paths => paths(app),
        ConfigCommand::Show(args) => show(app, &args),
        ConfigCommand::Check(args) => check(app, &args),
    }
}

fn paths(app: &App) -> Result<(), CliError> {
    let places = &app.config().places;
    if app.screen.is_json() {
        let places: Vec<Value> = places.iter().map(place_json).collect();
        return Ok(app.screen.document(&json!({ "places": places }))?);
    }
    let cells = places.iter().map(|place| {
        let found = if place.found { "found" } else { "-" };
        vec![place.scope.as_str().to_owned(), found.to_owned(), place.path.display().to_string()]
    });
    let rows: Vec<Vec<String>> = cells.collect();
    Ok(app.screen.result(&Sheet::fitting(&app.screen, &["SCOPE", "FOUND", "FILE"], &rows).whole(&rows))?)
}

/// One entry and what was decided of it.
struct Shown<'a> {
    entry: &'a ServerSpec,
    admitted: bool,
    reason: Option<String>,
}

fn show(app: &App, args: &ShowArgs) -> Result<(), CliError> {
    let config = app.config();
    let shown = shown(config, args.layers);
    if app.screen.is_json() {
        return Ok(app.screen.document(&show_json(config, &shown))?);
    }
    config.warn(&app.screen);
    if shown.is_empty() {
        return Err(config.nothing());
    }
    for one in shown {
        let admitted = match &one.reason {
            None => app.screen.paint(Tone::Good, "admitted"),
            Some(reason) => app.screen.paint(Tone::Warn, reason),
        };
        let name = app.screen.paint(Tone::Accent, &escaped(one.entry.name.as_str()));
        let file = one.entry.source.file.as_deref().unwrap_or("no file");
        let head = format!("{name}  {}  {file}  {admitted}", one.entry.scope.as_str());
        let mut body = spec_json(one.entry);
        if let Some(members) = body.as_object_mut() {
            members.retain(|key, _| key != "name" && key != "scope");
        }
        let body = json_text(serde_json::to_string_pretty(&body).unwrap_or_default()).replace('\n', "\n  ");
        app.screen.result(&format!("{head}\n  {body}"))?;
    }
    Ok(())
}

fn shown(config: &Config, layers: bool) -> Vec<Shown<'_>> {
    let admission = &config.admission;
    let admitted =
        admission.admitted.iter().map(|one| Shown { entry: one.spec(), admitted: true, reason: None });
    let left_out = admission.disabled.iter().chain(&admission.refused).map(|one| Shown {
        entry: &one.spec,
        admitted: false,
        reason: Some(one.reason.clone()),
    });
    let shadowed = admission.shadowed.iter().filter(|_| layers).map(|one| Shown {
        entry: &one.loser,
        admitted: false,
        reason: Some(format!("the {} entry of this name wins", one.winner.scope.as_str())),
    });
    let mut shown: Vec<Shown<'_>> = admitted.chain(left_out).chain(shadowed).collect();
    shown.sort_by(|a, b| (&a.entry.name, a.reason.is_some()).cmp(&(&b.entry.name, b.reason.is_some())));
    shown
}

fn show_json(config: &Config, shown: &[Shown<'_>]) -> Value {
    let servers = shown.iter().map(|one| {
        json!({
            "name": one.entry.name.as_str(),
            "scope": one.entry.scope.as_str(),
            "source": source_json(&one.entry.source),
            "admitted": one.admitted,
            "reason": one.reason,
            "entry": spec_json(one.entry),
        })
    });
    json!({
        "servers": servers.collect::<Vec<Value>>(),
        "problems": config.problems_json(),
        "warnings": config.warnings.iter().map(warning_json).collect::<Vec<Value>>(),
    })
}

fn check(app: &App, args: &CheckArgs) -> Result<(), CliError> {
    let own;
    let config = match args.files.is_empty() {
        true => app.config(),
        false => {
            let here = std::env::current_dir().unwrap_or_default();
            let files = args.files.iter().map(|file| here.join(file)).collect();
            own = Config::load(&LoadOptions { config_files: files, ..app.surroundings.clone() });
            &own
        }
    };
    let found = config.places.iter().filter(|place| place.found).count();
    if app.screen.is_json() {
        app.screen.document(&json!({
            "ok": config.problems.is_empty(),
            "places": config.places.iter().map(place_json).collect::<Vec<Value>>(),
            "servers": config.admission.admitted.len() + config.admission.disabled.len(),
            "problems": config.problems_json(),
            "warnings": config.warnings.iter().map(warning_json).collect::<Vec<Value>>(),
        }))?;
    } else {
        for problem in &config.problems {
            let word = app.screen.paint(Tone::Bad, "problem");
            let (fact, hint) = (escaped(&problem.to_string()), printable(&problem.hint));
            app.screen.result(&format!("{word}  {fact}\n         {hint}"))?;
        }
        for warning in &config.warnings {
            let word = app.screen.paint(Tone::Warn, "warning");
            app.screen.result(&format!("{word}  {}", escaped(&warning.to_string())))?;
        }
        let servers = config.admission.admitted.len() + config.admission.disabled.len();
        let sum = format!("{} with {}", count(found, "file"), count(servers, "good server"));
        app.screen.result(&format!("{sum}, {}", count(config.problems.len(), "problem")))?;
    }
    match config.problems.first() {
        None => Ok(()),
        Some(first) => {
            let fact = format!("the configuration has {}", count(config.problems.len(), "problem"));
            Err(CliError::new(Exit::Config, first.code, fact).hint(&first.hint))
        }
    }
}
