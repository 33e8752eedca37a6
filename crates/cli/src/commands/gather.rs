//! Asks many servers at once; each answer is handed on as soon as it is there.

use crate::app::App;
use crate::output::{CliError, Exit, Health, count, health};
use crate::terminal::Spinner;
use callboard::{Board, CallError, ConnHandle, StateView};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;
use tokio::task::JoinSet;

/// Without `--timeout`, servers that have said nothing by then are shown as pending.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// What came of one server.
pub(super) enum Answer<T> {
    /// It answered.
    Given(T),
    /// It did not, and will not.
    Refused(CallError),
    /// It has not yet.
    Waiting,
}

/// One server and its answer.
pub(super) struct Gathered<T> {
    /// The server.
    pub(super) server: ConnHandle,
    /// What came of it.
    pub(super) answer: Answer<T>,
}

/// Connects every server of the board and asks each one; `each` is called as answers come, and at the end,
/// by name, for those that did not answer in time.
pub(super) async fn gather<T, F, A>(
    app: &App,
    board: &Board,
    ask: F,
    mut each: impl FnMut(&Gathered<T>) -> Result<(), CliError>,
) -> Result<Vec<Gathered<T>>, CliError>
where
    T: Send + 'static,
    F: Fn(ConnHandle) -> A,
    A: Future<Output = Result<T, CallError>> + Send + 'static,
{
    let servers = board.servers();
    let limit = app.time_left().unwrap_or(WAIT_MAX.min(app.config().settings.connect_timeout));
    let mut waiting: BTreeSet<String> = servers.iter().map(|server| server.name().to_string()).collect();
    let spinner = Spinner::start(&app.screen, waits_for(&waiting));
    let mut asked = JoinSet::new();
    for server in &servers {
        let (server, answer) = (server.clone(), ask(server.clone()));
        asked.spawn(async move { (server, answer.await) });
    }
    let deadline = tokio::time::sleep(limit);
    tokio::pin!(deadline);
    let mut gathered = Vec::with_capacity(servers.len());
    loop {
        let next = tokio::select! {
            biased;
            next = asked.join_next() => next,
            () = &mut deadline => None,
        };
        let Some(next) = next else { break };
        let (server, answer) = next.map_err(|error| CliError::internal(error.to_string()))?;
        waiting.remove(server.name().as_str());
        spinner.say(waits_for(&waiting));
        let answer = answer.map_or_else(Answer::Refused, Answer::Given);
        gathered.push(Gathered { server, answer });
        if let Some(last) = gathered.last() {
            each(last)?;
        }
    }
    drop(spinner);
    for server in servers.into_iter().filter(|server| waiting.contains(server.name().as_str())) {
        gathered.push(Gathered { server, answer: Answer::Waiting });
        if let Some(last) = gathered.last() {
            each(last)?;
        }
    }
    gathered.sort_by(|a, b| a.server.name().cmp(b.server.name()));
    Ok(gathered)
}

fn waits_for(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => "done".to_owned(),
        [a] => format!("waiting for {a}"),
        [a, b] => format!("waiting for {a} and {b}"),
        [a, b, rest @ ..] => format!("waiting for {a}, {b} and {}", count(rest.len(), "other")),
    }
}

/// The failure of a command that many servers take part in: names those that are not well.
pub(super) fn unhealthy<'a>(states: impl IntoIterator<Item = (&'a str, StateView)>) -> Result<(), CliError> {
    let (mut all, mut ill, mut first) = (0, Vec::new(), None);
    for (name, state) in states {
        match health(&state) {
            Health::Well => all += 1,
            Health::Off => {}
            Health::Ill => {
                all += 1;
                first = first.or(Some(name));
                ill.push(format!("{name} ({})", state.word()));
            }
        }
    }
    let Some(first) = first else { return Ok(()) };
    let are = if ill.len() == 1 { "is" } else { "are" };
    let message = format!("{} of {} {are} unhealthy: {}", ill.len(), count(all, "server"), ill.join(", "));
    Err(CliError::new(Exit::Unhealthy, "unhealthy", message)
        .hint(format!("`callboard get {first}` says more of it")))
}

/// The failure of a command that one server alone takes part in.
pub(super) fn single(server: &ConnHandle, error: Option<&CallError>) -> CliError {
    let name = server.name().as_str();
    match server.state() {
        StateView::NeedsAuth { how } => {
            CliError::new(Exit::Auth, "needs-auth", format!("server {name} wants a login"))
                .server(name)
                .hint(how)
        }
        StateView::Failed { error: fact, class, stderr_tail, http_status, hint, .. } => {
            let failed = CliError::new(Exit::Unreachable, class, format!("server {name} failed: {fact}"));
            failed.server(name).stderr_tail(stderr_tail).http_status(http_status).or_hint(|| hint)
        }
        state => match error {
            Some(error) => CliError::from_call(name, error),
            None => {
                let fact = format!("server {name} has not answered in time ({})", state.word());
                CliError::new(Exit::Unreachable, "timed-out", fact)
                    .server(name)
                    .hint("give a larger --timeout")
            }
        },
    }
}
