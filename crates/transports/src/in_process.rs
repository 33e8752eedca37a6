//! Servers that live inside this process and speak newline-delimited JSON-RPC over a stream.

mod stream;

use crate::duplex::{DuplexReceive, Outbox};
use callboard_core::port::{BoxFuture, CloseReason, DialRequest, InProcessSpec, Link, LinkCloser, SendHalf};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use stream::{BoxStream, SharedStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout_at;

type Connect = Arc<dyn Fn() -> BoxFuture<'static, io::Result<BoxStream>> + Send + Sync>;

/// The in-process servers of a host, by the key that entries name. Cheap to clone; clones share one table.
#[derive(Clone, Default)]
pub struct InProcessServers {
    table: Arc<RwLock<BTreeMap<String, Connect>>>,
}

impl InProcessServers {
    /// An empty table.
    pub fn new() -> InProcessServers {
        InProcessServers::default()
    }

    /// Registers a server under `key`, in place of an earlier one. Each dial calls `connect` once, inside the IO
    /// runtime, for the client's end of a new stream of newline-delimited JSON-RPC, such as one half of
    /// [`tokio::io::duplex`]. The stream is dropped when its link is closed.
    pub fn register<F, Opening, S>(&self, key: impl Into<String>, connect: F)
    where
        F: Fn() -> Opening + Send + Sync + 'static,
        Opening: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connect = move || -> BoxFuture<'static, io::Result<BoxStream>> {
            let opening = connect();
            Box::pin(async move { Ok(Box::new(opening.await?) as BoxStream) })
        };
        self.table.write().insert(key.into(), Arc::new(connect));
    }

    /// Takes a server off the table; open links to it live on. False when there was none.
    pub fn unregister(&self, key: &str) -> bool {
        self.table.write().remove(key).is_some()
    }
}

impl fmt::Debug for InProcessServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.table.read().keys()).finish()
    }
}

/// Opens a link to a server of `servers`.
///
/// # Errors
/// [`CloseReason::Spawn`] when there is no such server (yet), or it gave no stream before the deadline.
pub async fn dial_in_process(
    request: &DialRequest,
    spec: &InProcessSpec,
    servers: &InProcessServers,
) -> Result<Link, CloseReason> {
    let failed = |message: String| CloseReason::Spawn {
        command: spec.key.clone(),
        message,
        // Of what the host may hand over later it cannot be said that it does not exist.
        not_found: false,
    };
    let connect = servers.table.read().get(&spec.key).cloned();
    let connect =
        connect.ok_or_else(|| failed("the host has registered no such in-process server".into()))?;
    let stream = timeout_at(request.deadline, connect())
        .await
        .map_err(|_| failed("the in-process server gave no stream in time".into()))?
        .map_err(|error| failed(error.to_string()))?;
    Ok(link(stream, request.settings.wire_frame_bytes_max))
}

fn link(stream: BoxStream, frame_bytes_max: usize) -> Link {
    let stream = SharedStream::new(stream);
    let outbox = Arc::new(Outbox::new(stream.clone(), frame_bytes_max));
    Link {
        send: SendHalf::Duplex(outbox.clone()),
        receive: Box::new(DuplexReceive::new(stream.clone(), outbox.clone(), frame_bytes_max, ())),
        closer: Box::new(InProcessCloser { stream, outbox }),
        diagnostics: Arc::new(()),
    }
}

/// Dropping it is closing it: there is nothing to wait for.
struct InProcessCloser {
    stream: SharedStream,
    outbox: Arc<Outbox<SharedStream>>,
}

impl LinkCloser for InProcessCloser {
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(self) })
    }
}

impl Drop for InProcessCloser {
    fn drop(&mut self) {
        self.outbox.close(CloseReason::Cancelled);
        self.stream.close();
    }
}
