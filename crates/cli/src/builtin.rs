//! The MCP servers inside the binary: `time`, `memory` and `files DIR`. They let `demo` and the tests work
//! with nothing else installed, and they speak every revision, so that both eras can be tried on them.
//!
//! This module knows nothing about boards, configuration or connections: it is the other end of the wire.
//! One session (`session`) serves any [`server::ToolServer`] over any pair of byte streams; the process'
//! own stdin and stdout are one such pair ([`run`]), an in-memory pipe is another ([`serve`]).

mod arguments;
mod files;
mod line;
mod memory;
mod message;
mod method;
mod outbox;
mod page;
mod revision;
mod server;
mod session;
mod subscription;
#[cfg(test)]
mod tests;
mod time;
mod watch;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use server::ToolServer;

/// Threads that one process may block at once: stdin, stdout, and the bounded work at the disk.
const BLOCKING_THREADS_MAX: usize = 8;

/// A built-in server, ready to be served. Clones share its state: what one session of a memory server
/// remembers, the other sessions of its clones recall.
#[derive(Clone)]
pub(crate) struct Builtin {
    server: Arc<dyn ToolServer>,
}

impl Builtin {
    /// The server of that name. Fails with a fact for people when there is none, when `files` has no
    /// readable directory, or when there are words that the server does not take.
    pub(crate) fn named(name: &str, args: &[String]) -> Result<Self, String> {
        match (name, args) {
            ("time", []) => Ok(Self { server: Arc::new(time::TimeServer::new()) }),
            ("memory", []) => Ok(Self { server: Arc::new(memory::MemoryServer::new()) }),
            ("files", [directory]) => {
                let server = files::FilesServer::new(Path::new(directory))
                    .map_err(|error| format!("cannot serve the directory {directory}: {error}"))?;
                Ok(Self { server: Arc::new(server) })
            }
            ("files", _) => Err("the built-in server files takes one directory: files DIR".to_owned()),
            ("time" | "memory", _) => Err(format!("the built-in server {name} takes no arguments")),
            _ => Err(format!("there is no built-in server {name}; there are time, memory and files DIR")),
        }
    }
}

/// Serves the built-in server of that name on this process' stdin and stdout until stdin ends.
/// Fails, with a fact for people, before the first byte is read or not at all.
pub(crate) fn run(name: &str, args: &[String]) -> Result<ExitCode, String> {
    let server = Builtin::named(name, args)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(|error| format!("cannot start a runtime: {error}"))?;
    runtime.block_on(serve(server, tokio::io::stdin(), tokio::io::stdout()));
    // A thread may still be blocked on a stdout that nobody reads; the process does not wait for it.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Serves one peer on a pair of byte streams, one JSON-RPC message a line, until `read` ends or `write`
/// breaks. Calls that are still running then get a short grace. Needs a tokio runtime with its timer on.
pub(crate) async fn serve<R, W>(server: Builtin, read: R, write: W)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    session::serve(server.server, read, write).await;
}
