//! Servers that are child processes, spoken to over stdin and stdout.

mod environment;
mod program;
mod stderr;

use crate::duplex::{DuplexReceive, Outbox, PeerWatch};
use crate::process::{self, Child, Graces, Plan, ProcessHandle, Stdin};
use callboard_core::port::{
    BoxFuture, CloseReason, Diagnostics, DialRequest, ExitInfo, Link, LinkCloser, SendHalf, StderrWriter,
    StdioSpec,
};
use callboard_core::settings::Settings;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use stderr::StderrTail;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

/// Starts a server and returns the link to it. Runs inside the IO runtime.
///
/// The arguments are `stdio.prefix`, the command and its arguments, without a shell in between. The environment
/// is the base set (behaviour profile 1.10), `CALLBOARD=1`, `CALLBOARD_PROJECT_DIR`, `CALLBOARD_SERVER_NAME`,
/// and then the entry's own variables. A dropped future or link kills the server's whole process group at once.
///
/// # Errors
/// [`CloseReason::Spawn`] when the child could not be started before the deadline.
pub async fn dial_stdio(request: &DialRequest, spec: &StdioSpec) -> Result<Link, CloseReason> {
    let (sender, started) = oneshot::channel();
    let server = request.server.name().to_string();
    let settings = request.settings.clone();
    let lines = request.stderr.writer(request.generation);
    let owned_spec = spec.clone();
    // A start can take long, on a slow file system for example. Detached: a child that nobody waits for any
    // more is killed by the drop of what this returns.
    tokio::task::spawn_blocking(move || {
        if !sender.is_closed() {
            // As said: dropped if nobody waits.
            let _ = sender.send(start(&owned_spec, &server, settings, lines));
        }
    });
    let late = |message: &str| CloseReason::Spawn {
        command: spec.command.clone(),
        message: message.to_owned(),
        not_found: false,
    };
    match timeout_at(request.deadline, started).await {
        Ok(Ok(link)) => link,
        Ok(Err(_)) => Err(late("its start was given up with the runtime")),
        Err(_) => Err(late("it did not start in time")),
    }
}

/// Blocks for the length of a process start.
fn start(
    spec: &StdioSpec,
    server: &str,
    settings: Arc<Settings>,
    lines: StderrWriter,
) -> Result<Link, CloseReason> {
    let plan = plan(spec, server, &settings)?;
    let command = plan.name.to_string_lossy().into_owned();
    let program = plan.program.clone();
    let child = process::start(plan).map_err(|error| {
        let message = match error.kind() {
            // The program and the directory were there a moment ago.
            ErrorKind::NotFound => format!("the interpreter that {program:?} names is missing: {error}"),
            _ => error.to_string(),
        };
        CloseReason::Spawn { command, message, not_found: false }
    })?;
    tracing::debug!(server, process_id = child.process_id, "child started");
    Ok(link(child, settings, lines))
}

fn plan(spec: &StdioSpec, server: &str, settings: &Settings) -> Result<Plan, CloseReason> {
    let mut words = settings.stdio_prefix.iter().chain([&spec.command]).chain(&spec.args);
    // The command follows the prefix, so there is a first word.
    let name = words.next().unwrap_or(&spec.command);
    let failed = |(message, not_found): (String, bool)| CloseReason::Spawn {
        command: name.clone(),
        message,
        not_found,
    };
    let cwd = program::working_directory(spec.cwd.as_deref()).map_err(failed)?;
    let env = environment::of_child(std::env::vars_os(), spec, server, &cwd, settings).map_err(failed)?;
    let path = env.get(OsStr::new("PATH")).map(AsRef::as_ref);
    let program = program::find(name, &cwd, path).map_err(failed)?;
    let args = words.map(Into::into).collect();
    Ok(Plan { program, name: name.into(), args, env: env.into_iter().collect(), cwd })
}

fn link(child: Child, settings: Arc<Settings>, lines: StderrWriter) -> Link {
    let frame_bytes_max = settings.wire_frame_bytes_max;
    let stderr = Arc::new(StderrTail::new(settings.stderr_ring_bytes));
    let draining = tokio::spawn(stderr::drain(child.stderr, stderr.clone(), lines));
    let outbox = Arc::new(Outbox::new(child.stdin, frame_bytes_max));
    let graces = Graces { close: settings.stdio_close_grace, term: settings.stdio_term_grace };
    let watch = ChildWatch {
        exit: Fact::Awaited(child.exit),
        draining: Fact::Awaited(draining),
        stderr: stderr.clone(),
        tail_bytes: settings.stderr_tail_bytes,
    };
    Link {
        send: SendHalf::Duplex(outbox.clone()),
        receive: Box::new(DuplexReceive::new(child.stdout, outbox.clone(), frame_bytes_max, watch)),
        closer: Box::new(StdioCloser { outbox, process: child.handle, graces }),
        diagnostics: Arc::new(ChildDiagnostics { stderr, process_id: child.process_id }),
    }
}

struct StdioCloser {
    outbox: Arc<Outbox<Stdin>>,
    process: ProcessHandle,
    graces: Graces,
}

impl LinkCloser for StdioCloser {
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        let StdioCloser { outbox, process, graces } = *self;
        // Drops our end of the child's stdin, which is how a server is told to end.
        outbox.close(CloseReason::Cancelled);
        Box::pin(process.close(graces))
    }
}

/// Something that becomes known once.
enum Fact<F, T> {
    Awaited(F),
    Known(T),
}

impl<F: Future + Unpin, T: Copy> Fact<F, T> {
    fn poll(&mut self, cx: &mut Context<'_>, read: impl FnOnce(F::Output) -> T) -> Poll<T> {
        if let Fact::Awaited(future) = self {
            *self = Fact::Known(read(ready!(Pin::new(future).poll(cx))));
        }
        match self {
            Fact::Known(fact) => Poll::Ready(*fact),
            Fact::Awaited(_) => Poll::Pending,
        }
    }
}

struct ChildWatch {
    exit: Fact<oneshot::Receiver<ExitInfo>, ExitInfo>,
    draining: Fact<JoinHandle<()>, ()>,
    stderr: Arc<StderrTail>,
    tail_bytes: usize,
}

impl PeerWatch for ChildWatch {
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.exit.poll(cx, |exit| exit.unwrap_or(ExitInfo::Unknown)).map(drop)
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let drained = self.draining.poll(cx, |_| ());
        ready!(self.poll_ended(cx));
        drained
    }

    fn reason(&self, broken: Option<CloseReason>) -> CloseReason {
        let exit = match self.exit {
            Fact::Known(exit) => Some(exit),
            Fact::Awaited(_) => None,
        };
        match (exit, broken) {
            (None, Some(broken)) => broken,
            (exit, _) => CloseReason::Ended { exit, stderr_tail: self.stderr.tail(self.tail_bytes) },
        }
    }
}

struct ChildDiagnostics {
    stderr: Arc<StderrTail>,
    process_id: u32,
}

impl Diagnostics for ChildDiagnostics {
    fn stderr_tail(&self, bytes_max: usize) -> String {
        self.stderr.tail(bytes_max)
    }

    fn process_id(&self) -> Option<u32> {
        Some(self.process_id)
    }
}
