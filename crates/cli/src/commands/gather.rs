//! Asks many servers at once; each answer is handed on as soon as it is there.

use crate::app::App;
use crate::output::{CliError, Exit, Health, count, health};
use crate::terminal::Spinner;
use callboard::{Board, CallError, ConnHandle, StateView};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Without `--timeout`: nobody is given up before this has passed,
const WAIT_LEAST: Duration = Duration::from_secs(15);
/// nor so shortly after the last answer: the machine may be busy,
const QUIET: Duration = Duration::from_secs(8);
/// nor while a server waits for its turn to start, but for this in the end.
const WAIT_MOST: Duration = Duration::from_secs(60);

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
    let mut patience = Patience::new(app.time_left());
    let mut waiting: BTreeSet<String> = servers.iter().map(|server| server.name().to_string()).collect();
    let spinner = Spinner::start(&app.screen, waits_for(&waiting));
    let mut asked = JoinSet::new();
    for server in &servers {
        let (server, answer) = (server.clone(), ask(server.clone()));
        asked.spawn(async move { (server, answer.await) });
    }
    let mut gathered = Vec::with_capacity(servers.len());
    loop {
        let next = tokio::select! {
            biased;
            next = asked.join_next() => next,
            () = tokio::time::sleep_until(patience.until) => {
                match patience.is_over(servers.iter().any(|server| is_queued(&server.state()))) {
                    true => None,
                    false => continue,
                }
            }
        };
        let Some(next) = next else { break };
        patience.answered();
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

/// How long is waited for those who have not answered.
struct Patience {
    fixed: bool,
    started: Instant,
    until: Instant,
}

impl Patience {
    fn new(limit: Option<Duration>) -> Patience {
        let started = Instant::now();
        Patience { fixed: limit.is_some(), started, until: started + limit.unwrap_or(WAIT_LEAST) }
    }

    /// Somebody answered.
    fn answered(&mut self) {
        if !self.fixed {
            self.until = self.until.max(Instant::now() + QUIET);
        }
    }

    /// The time is up, unless somebody waits for a turn and there is time left for that.
    fn is_over(&mut self, somebody_is_queued: bool) -> bool {
        let goes_on = !self.fixed && somebody_is_queued && self.started.elapsed() < WAIT_MOST;
        if goes_on {
            self.until = Instant::now() + QUIET;
        }
        !goes_on
    }
}

fn is_queued(state: &StateView) -> bool {
    matches!(state, StateView::Pending { phase: "queued", .. })
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
        .hint(format!("`callboard why {first}` says more of it")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn patience_grows_with_answers_and_for_the_queued_alone() {
        let mut patience = Patience::new(None);
        let least = patience.until;
        patience.answered();
        assert_eq!(patience.until, least, "an early answer changes nothing");
        tokio::time::advance(WAIT_LEAST).await;
        patience.answered();
        assert_eq!(patience.until, Instant::now() + QUIET);
        assert!(!patience.is_over(true) && patience.is_over(false));
        tokio::time::advance(WAIT_MOST).await;
        assert!(patience.is_over(true));
        let mut fixed = Patience::new(Some(QUIET));
        fixed.answered();
        assert_eq!(fixed.until, Instant::now() + QUIET);
        assert!(fixed.is_over(true));
    }
}
