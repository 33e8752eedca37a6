//! Processes on Windows. **Untested**: written against the interfaces, never built or run there.
//!
//! It is less than the Unix side does: the child alone is ended, by closing its input, then, there being no
//! SIGTERM, by `TerminateProcess` after both graces; what the child started is not. A job object
//! (kill on close) is what is missing, and it would also be the guard for our own death.

use super::{Child, Graces, Order, Plan, ProcessHandle, killed, next_order};
use callboard_core::port::ExitInfo;
use std::io;
use std::path::Path;
use std::process::Stdio;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// Our end of the child's stdin.
pub(crate) type Stdin = tokio::process::ChildStdin;
/// Our end of the child's stdout.
pub(crate) type Stdout = tokio::process::ChildStdout;
/// Our end of the child's stderr.
pub(crate) type Stderr = tokio::process::ChildStderr;

/// Starts a child. Needs the context of the IO runtime, whose task supervises the child from now on.
pub(crate) fn start(plan: Plan) -> io::Result<Child> {
    let mut command = tokio::process::Command::new(plan.program);
    command.args(plan.args).env_clear().envs(plan.env).current_dir(plan.cwd).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn()?;
    let missing = || io::Error::other("the child lacks a pipe or a process id");
    let stdin = process.stdin.take().ok_or_else(missing)?;
    let stdout = process.stdout.take().ok_or_else(missing)?;
    let stderr = process.stderr.take().ok_or_else(missing)?;
    let process_id = process.id().ok_or_else(missing)?;
    let (exit_sender, exit) = oneshot::channel();
    let (orders, order_receiver) = watch::channel(Order::Live);
    let supervisor = tokio::spawn(supervise(process, order_receiver, exit_sender));
    let handle = ProcessHandle { orders, supervisor };
    Ok(Child { stdin, stdout, stderr, process_id, exit, handle })
}

/// Can this file be run, as far as can be told? `PATHEXT` is not applied.
pub(crate) fn is_executable(file: &Path) -> bool {
    file.is_file()
}

async fn supervise(
    mut process: tokio::process::Child,
    mut orders: watch::Receiver<Order>,
    exit: oneshot::Sender<ExitInfo>,
) {
    let status = tokio::select! {
        biased;
        order = next_order(&mut orders) => end(&mut process, order, &mut orders).await,
        status = process.wait() => status,
    };
    let code = status.ok().and_then(|status| status.code());
    // Nobody asks when the link was dropped.
    let _ = exit.send(code.map_or(ExitInfo::Unknown, ExitInfo::Code));
}

async fn end(
    process: &mut tokio::process::Child,
    order: Order,
    orders: &mut watch::Receiver<Order>,
) -> io::Result<std::process::ExitStatus> {
    if let Order::Close(Graces { close, term }) = order {
        let exit = tokio::select! {
            biased;
            () = killed(orders) => None,
            exit = timeout(close + term, process.wait()) => exit.ok(),
        };
        if let Some(exit) = exit {
            return exit;
        }
    }
    process.start_kill()?;
    process.wait().await
}
