//! What goes out to the client: a bounded queue before the one task that writes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::message::{Object, notification};
use super::revision::{LogLevel, RequestMeta, Revision};

/// Messages that wait for a slow reader before the session stops reading from it.
const QUEUE_MESSAGES_MAX: usize = 256;

/// How long a client may leave a full queue unread before it counts as gone.
const STALL_MAX: Duration = Duration::from_secs(30);

/// The client no longer reads.
#[derive(Debug)]
pub(super) struct Gone;

/// The sending side of the queue.
#[derive(Clone)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Vec<u8>>,
}

impl Outbox {
    /// Starts the writing task, which ends when every sender is dropped or `write` breaks.
    pub(super) fn start<W: AsyncWrite + Unpin + Send + 'static>(write: W) -> (Self, JoinHandle<()>) {
        let (queue, waiting) = mpsc::channel(QUEUE_MESSAGES_MAX);
        (Self { queue }, tokio::spawn(write_all(waiting, write)))
    }

    /// Queues a message that must arrive.
    pub(super) async fn send(&self, message: &Value) -> Result<(), Gone> {
        match self.queue.try_send(line(message)) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Gone),
            Err(mpsc::error::TrySendError::Full(line)) => {
                self.queue.send_timeout(line, STALL_MAX).await.map_err(|_| Gone)
            }
        }
    }

    /// Queues a message that may be lost on a slow reader: progress and logs.
    fn offer(&self, message: &Value) {
        // A full queue means that newer progress will follow, a closed one that nobody listens.
        let _ = self.queue.try_send(line(message));
    }

    /// Resolves once the client no longer reads.
    pub(super) async fn closed(&self) {
        self.queue.closed().await;
    }
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Writes all that has gathered, then flushes once.
async fn write_all<W: AsyncWrite + Unpin>(mut waiting: mpsc::Receiver<Vec<u8>>, mut write: W) {
    while let Some(mut bytes) = waiting.recv().await {
        while let Ok(more) = waiting.try_recv() {
            bytes.extend_from_slice(&more);
        }
        if write.write_all(&bytes).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
}

/// What a running request may tell the client before it ends.
#[derive(Clone)]
pub(super) struct Reporter {
    outbox: Outbox,
    logger: &'static str,
    revision: Revision,
    progress_token: Option<Value>,
    log_level: Option<LogLevel>,
}

impl Reporter {
    /// `log_level` is the least severe level that the client wants to see; none means no log at all.
    pub(super) fn new(
        outbox: Outbox,
        logger: &'static str,
        meta: &RequestMeta,
        log_level: Option<LogLevel>,
    ) -> Self {
        let progress_token = meta.progress_token.clone();
        Self { outbox, logger, revision: meta.revision, progress_token, log_level }
    }

    /// Reports progress where the request asked for it; `done` must grow from call to call.
    pub(super) fn progress(&self, done: u64, total: Option<u64>, message: &str) {
        let Some(token) = &self.progress_token else { return };
        let mut params = Object::new();
        params.insert("progressToken".to_owned(), token.clone());
        params.insert("progress".to_owned(), json!(done));
        if let Some(total) = total {
            params.insert("total".to_owned(), json!(total));
        }
        if self.revision >= Revision::V2025_03_26 {
            params.insert("message".to_owned(), json!(message));
        }
        self.outbox.offer(&notification("notifications/progress", params));
    }

    /// Logs where the client asked for messages of that level.
    pub(super) fn log(&self, level: LogLevel, data: Value) {
        if self.log_level.is_none_or(|least| level < least) {
            return;
        }
        let mut params = Object::new();
        params.insert("level".to_owned(), json!(level.name()));
        params.insert("logger".to_owned(), json!(self.logger));
        params.insert("data".to_owned(), data);
        self.outbox.offer(&notification("notifications/message", params));
    }
}
