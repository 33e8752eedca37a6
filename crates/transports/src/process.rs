//! Child processes as groups that leave nothing behind.

#[cfg(unix)]
mod guard;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub(crate) use system::{Stderr, Stdin, Stdout, is_executable, start};

use callboard_core::port::ExitInfo;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// What is to be started.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The file to run.
    pub(crate) program: PathBuf,
    /// The program as the configuration spells it, which it sees as its own name.
    pub(crate) name: OsString,
    /// Its arguments.
    pub(crate) args: Vec<OsString>,
    /// Its whole environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub(crate) cwd: PathBuf,
}

/// A started child.
pub(crate) struct Child {
    pub(crate) stdin: Stdin,
    pub(crate) stdout: Stdout,
    pub(crate) stderr: Stderr,
    pub(crate) process_id: u32,
    /// How the child itself ended; what it started may still live then.
    pub(crate) exit: oneshot::Receiver<ExitInfo>,
    pub(crate) handle: ProcessHandle,
}

/// How long each step of an orderly end may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Graces {
    /// From the end of stdin to SIGTERM.
    pub(crate) close: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) term: Duration,
}

/// What the supervising task is to do with its group.
#[derive(Debug, Clone, Copy)]
enum Order {
    Live,
    Close(Graces),
    Kill,
}

/// Holds a process group. Dropped, it kills the group at once; the supervising task waits for what is left.
pub(crate) struct ProcessHandle {
    orders: watch::Sender<Order>,
    supervisor: JoinHandle<()>,
}

impl ProcessHandle {
    /// Ends the group in good manners, stdin having been closed, and returns when it is gone. Dropped before
    /// that, the future leaves a group that is killed at once.
    pub(crate) async fn close(mut self, graces: Graces) {
        self.orders.send_replace(Order::Close(graces));
        if let Err(error) = (&mut self.supervisor).await {
            tracing::debug!(%error, "the runtime ended before the process group");
        }
    }
}

impl Drop for ProcessHandle {
    fn drop(&mut self) {
        self.orders.send_replace(Order::Kill);
    }
}

/// The next order that ends something; a lost handle orders nothing gentler.
async fn next_order(orders: &mut watch::Receiver<Order>) -> Order {
    orders.wait_for(|order| !matches!(order, Order::Live)).await.map_or(Order::Kill, |order| *order)
}

async fn killed(orders: &mut watch::Receiver<Order>) {
    // A lost handle kills as well.
    let _ = orders.wait_for(|order| matches!(order, Order::Kill)).await;
}
