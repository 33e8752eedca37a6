//! The commands, one a file.

mod call;
mod completion;
mod config;
mod demo;
mod doctor;
mod events;
mod gather;
mod get;
mod list;
mod live;
mod logs;
mod prompts;
mod reconnect;
mod resources;
mod result;
mod sim;
mod status;
mod target;
mod tools;
mod version;
mod watch;
mod why;

use crate::app::App;
use crate::args::Command;
use crate::output::{CliError, nearest};

/// Runs one command.
pub(crate) async fn run(app: &App, command: Command) -> Result<(), CliError> {
    match command {
        Command::List(args) if args.health => status::status(app).await,
        Command::List(_) => list::list(app),
        Command::Get(args) => get::get(app, &args.name).await,
        Command::Status(args) if args.watch => watch::watch(app, &args.live).await,
        Command::Why(args) => why::why(app, &args.name).await,
        Command::Reconnect(args) => reconnect::reconnect(app, args).await,
        Command::Logs(args) => logs::logs(app, args).await,
        Command::Events(args) => events::events(app, args).await,
        Command::Status(args) if args.live.metrics_listen.is_some() => {
            Err(CliError::usage("--metrics-listen is for commands that go on").hint("add --watch"))
        }
        Command::Status(_) => status::status(app).await,
        Command::Tools(args) => tools::tools(app, args).await,
        Command::Call(args) => call::call(app, args).await,
        Command::Resources(args) => resources::resources(app, args.name.as_deref()).await,
        Command::Read(args) => resources::read(app, args).await,
        Command::Prompts(args) => prompts::prompts(app, args.name.as_deref()).await,
        Command::Prompt(args) => prompts::prompt(app, args).await,
        Command::Config(command) => config::config(app, command),
        Command::Demo => demo::demo(app).await,
        Command::Sim(args) => sim::sim(app, args).await,
        Command::Doctor => doctor::doctor(app).await,
        Command::Completion(args) => completion::completion(app, args.shell),
        Command::Version => version::version(app),
        Command::Builtin(_) => Err(CliError::internal("a built-in server has no board")),
    }
}

/// What to do about a name that is no built-in server.
pub(crate) fn builtin_hint(name: &str) -> Option<String> {
    let names = ["time", "memory", "files"];
    match nearest(name, names) {
        Some(near) if near != name => Some(format!("did you mean {near}?")),
        _ => Some("callboard builtin time|memory|files DIR".to_owned()),
    }
}
