//! The board under test, as a host has it, and what a host does for it.

use crate::callers::{Asked, Book};
use crate::judge::Violations;
use crate::options::Options;
use crate::{BACK_MAX, host};
use callboard::protocol::Era;
use callboard::{Board, EraPin, ServerOptions, ServerSpec, Settings, StateView};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Shorter than the defaults, so that a run sees many rounds: how long a connect may hang in a server that is
/// stopped, and after what a remote server that was given up is tried again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SLOW_RETRY: Duration = Duration::from_secs(5);
/// What the first connects may take in all.
const START_MAX: Duration = Duration::from_secs(60);
/// How often the host looks for servers that were given up.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a call may take that asks whether a server is back, and what lies between two of them.
const PROBE_LIMIT: Duration = Duration::from_secs(2);
const PROBE_GAP: Duration = Duration::from_millis(200);

pub(crate) async fn build(
    options: &Options,
    ledger: &Path,
    addresses: &[SocketAddr],
) -> Result<Board, String> {
    let program = host::program()?.display().to_string();
    let ledger = ledger.display().to_string();
    let life = options.life().as_secs().to_string();
    let stdio = (0..options.stdio).map(|number| {
        let number_word = number.to_string();
        let tag = options.tag();
        let words = ["--stdio", &number_word, "--ledger", &ledger, "--tag", &tag, "--life", &life];
        ServerSpec::stdio(name(number), program.clone(), words.map(str::to_owned))
    });
    let http = (options.stdio..)
        .zip(addresses)
        .map(|(number, address)| ServerSpec::http(name(number), format!("http://{address}/mcp")));
    let legacy = || ServerOptions { protocol_era: EraPin::Pinned(Era::Legacy), ..ServerOptions::default() };
    let specs = stdio.chain(http).map(|spec| ServerSpec { options: legacy(), ..spec });
    let settings = Settings {
        connect_timeout: CONNECT_TIMEOUT,
        reconnect_slow_retry: SLOW_RETRY,
        ..Settings::default()
    };
    Board::builder().settings(settings).servers(specs).build().await.map_err(|error| error.to_string())
}

/// By these names the board's order of servers is that of their numbers.
fn name(number: u32) -> String {
    format!("server-{number:04}")
}

pub(crate) async fn all_connected(board: &Board, options: &Options) -> Result<(), String> {
    let servers = board.servers();
    let wanted = (options.stdio + options.http) as usize;
    if servers.len() != wanted {
        return Err(format!("the board has {} servers of {wanted}", servers.len()));
    }
    board.connect_all();
    let until = Instant::now() + START_MAX;
    for server in &servers {
        let left = until.saturating_duration_since(Instant::now());
        let connected = server.connect(Some(left)).await;
        connected.map_err(|error| format!("{}: {error}", server.name()))?;
        let listed = tokio::time::timeout_at(until, server.tools()).await;
        listed.map_err(|_| format!("{}: no list of tools", server.name()))?.map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Reconnects servers of children that were given up, as a person would.
pub(crate) struct Keeper {
    count: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Keeper {
    pub(crate) fn start(board: &Board, options: &Options) -> Keeper {
        let count = Arc::new(AtomicU64::new(0));
        let counted = count.clone();
        let mut stdio = board.servers();
        stdio.truncate(options.stdio as usize);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let failed = stdio.iter().filter(|server| matches!(server.state(), StateView::Failed { .. }));
                for server in failed {
                    server.reconnect();
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Keeper { count, task }
    }

    /// Ends, and tells how often it had to.
    pub(crate) fn stop(self) -> u64 {
        self.task.abort();
        self.count.load(Ordering::Relaxed)
    }
}

/// Waits until every server serves; gives how long the slowest took, and how many asked in vain meanwhile.
pub(crate) async fn all_back(
    board: &Arc<Board>,
    book: &Arc<Book>,
    violations: &Arc<Violations>,
) -> (Duration, u64) {
    let begun = Instant::now();
    let mut asking = tokio::task::JoinSet::new();
    for (number, server) in board.servers().into_iter().enumerate() {
        let (book, violations) = (book.clone(), violations.clone());
        asking.spawn(async move {
            let mut vain = 0;
            loop {
                let asked =
                    Asked { server: number as u32, limit: PROBE_LIMIT, leaves_after: None, extra: "" };
                match book.call(&server, asked, &violations).await {
                    true => return (begun.elapsed(), vain),
                    false => vain += 1,
                }
                if begun.elapsed() > BACK_MAX {
                    violations.add(format!(
                        "{} does not serve {BACK_MAX:?} after the last fault: {:?}",
                        server.name(),
                        server.state()
                    ));
                    return (begun.elapsed(), vain);
                }
                tokio::time::sleep(PROBE_GAP).await;
            }
        });
    }
    let (mut slowest, mut vain) = (Duration::ZERO, 0);
    while let Some(ended) = asking.join_next().await {
        match ended {
            Ok((took, more)) => (slowest, vain) = (slowest.max(took), vain + more),
            Err(error) => violations.add(format!("asking whether a server is back: {error}")),
        }
    }
    (slowest, vain)
}
