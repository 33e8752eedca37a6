//! Many servers over HTTP in one process, and the faults they are told on its stdin, a line each: `reset N`,
//! `unavailable N MS RETRY_AFTER_S`, `forget N`, `garbage N MS`, `down N MS`, `swallow N MS requests|answers|both`,
//! where N is the server's number; and `restore`, which ends all faults and is answered by `restored`.

use crate::http::{self, Mood, Server};
use callboard_tests::ledger::Ledger;
use callboard_tests::relay::{Relay, Swallowed};
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Commands that may wait.
const COMMANDS_MAX: usize = 1_024;

/// A server and, in front of every third, a relay that can swallow.
struct Site {
    server: Arc<Server>,
    relay: Option<Arc<Relay>>,
}

impl Site {
    fn address(&self) -> SocketAddr {
        self.relay.as_ref().map_or_else(|| self.server.address(), |relay| relay.address())
    }

    fn restore(&self) {
        self.server.be(Mood::Good, Duration::ZERO);
        self.server.listen(true);
        if let Some(relay) = &self.relay {
            relay.pass();
        }
    }
}

/// Serves until its input ends.
///
/// # Errors
/// When there are no ports, or the output is gone.
pub(crate) fn run(first: u32, count: u32, ledger: Ledger) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(serve(first, count, Arc::new(ledger)));
    runtime.shutdown_background();
    served
}

async fn serve(first: u32, count: u32, ledger: Arc<Ledger>) -> io::Result<()> {
    let mut sites = Vec::new();
    for number in first..first + count {
        let (server, socket) = Server::bind(number, ledger.clone())?;
        let relay = match number % 3 {
            0 => Some(Arc::new(Relay::start(server.address()).await?)),
            _ => None,
        };
        tokio::spawn(http::run(server.clone(), socket));
        sites.push(Site { server, relay });
    }
    let addresses: Vec<String> = sites.iter().map(|site| site.address().to_string()).collect();
    say(&format!("addresses {}", addresses.join(" ")))?;
    let mut lines = commands();
    while let Some(line) = lines.recv().await {
        if line == "restore" {
            sites.iter().for_each(Site::restore);
            say("restored")?;
        } else if obey(&line, first, &sites).is_none() {
            eprintln!("chaos-server: what is {line:?}?");
        }
    }
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// The lines of stdin, read by a thread of their own.
fn commands() -> mpsc::Receiver<String> {
    let (told, lines) = mpsc::channel(COMMANDS_MAX);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if told.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn obey(line: &str, first: u32, sites: &[Site]) -> Option<()> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let site = sites.get(usize::try_from(number(1)?.checked_sub(first.into())?).ok()?)?;
    let server = site.server.clone();
    let time = Duration::from_millis(number(2).unwrap_or(0));
    match *words.first()? {
        "reset" => server.reset(),
        "forget" => server.forget(),
        "unavailable" => server.be(Mood::Unavailable(number(3)?), time),
        "garbage" => server.be(Mood::Garbage, time),
        "down" => {
            server.listen(false);
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                server.listen(true);
            });
        }
        "swallow" => {
            let relay = site.relay.clone()?;
            relay.swallow(swallowed(words.get(3)?)?);
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                relay.pass();
            });
        }
        _ => return None,
    }
    Some(())
}

fn swallowed(word: &str) -> Option<Swallowed> {
    Some(match word {
        "requests" => Swallowed::Requests,
        "answers" => Swallowed::Answers,
        "both" => Swallowed::Both,
        _ => return None,
    })
}
