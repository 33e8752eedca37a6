//! The process that holds the servers over HTTP.

use crate::options::Options;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// More than it may take to start, to restore or to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Commands that may wait.
const COMMANDS_MAX: usize = 256;

/// Dropped, it is killed; it also ends with its input, so with us.
pub(crate) struct Host {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    addresses: Vec<SocketAddr>,
    commands: Option<mpsc::Sender<String>>,
    writing: JoinHandle<()>,
}

/// The program of the servers, which lies beside us.
pub(crate) fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = own.with_file_name("chaos-server");
    if program.is_file() { Ok(program) } else { Err(format!("{} is not built", program.display())) }
}

impl Host {
    pub(crate) async fn start(options: &Options, ledger: &Path) -> Result<Host, String> {
        let mut command = Command::new(program()?);
        command.args(["--http", &options.http.to_string(), "--first", &options.stdio.to_string()]);
        command.args(["--tag", &options.tag(), "--life", &options.life().as_secs().to_string()]);
        command.arg("--ledger").arg(ledger).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("chaos-server: {error}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("chaos-server has no streams".into());
        };
        let mut lines = BufReader::new(stdout).lines();
        let line = next(&mut lines).await?;
        let addresses = line.strip_prefix("addresses ").unwrap_or_default();
        let addresses = addresses.split(' ').map(str::parse).collect::<Result<Vec<_>, _>>();
        let addresses = addresses.map_err(|_| format!("chaos-server says {line:?}"))?;
        let (commands, told) = mpsc::channel(COMMANDS_MAX);
        let writing = tokio::spawn(write(stdin, told));
        Ok(Host { child, lines, addresses, commands: Some(commands), writing })
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn commands(&self) -> Option<mpsc::Sender<String>> {
        self.commands.clone()
    }

    /// Ends all faults there.
    pub(crate) async fn restore(&mut self) -> Result<(), String> {
        if let Some(commands) = &self.commands {
            let _ = commands.send("restore".into()).await;
        }
        match next(&mut self.lines).await?.as_str() {
            "restored" => Ok(()),
            line => Err(format!("chaos-server says {line:?}")),
        }
    }

    /// Ends the process, first by the end of its input.
    pub(crate) async fn end(mut self) {
        self.commands = None;
        let _ = timeout(PATIENCE, &mut self.writing).await;
        if timeout(PATIENCE, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<String, String> {
    match timeout(PATIENCE, lines.next_line()).await {
        Ok(Ok(Some(line))) => Ok(line),
        _ => Err("chaos-server says nothing".into()),
    }
}

async fn write(mut stdin: ChildStdin, mut told: mpsc::Receiver<String>) {
    while let Some(command) = told.recv().await {
        if stdin.write_all(format!("{command}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}
