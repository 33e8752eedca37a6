//! One client on one pair of streams, in both eras at once.
//!
//! Ownership: [`serve`] owns the [`Session`] and the reading side; the session owns the running calls (a
//! `JoinSet`), the subscriptions and the watch; one task owns the writing side behind the outbox.
//! In: line -> message -> request -> answered at once, or started as a task that the loop collects.
//! Out: answers, acknowledgements and changes -> outbox -> writing task; progress and logs go there
//! straight from the calls. A slow call holds up nothing but itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast;
use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::line::{Line, Lines};
use super::message::{self, Fault, Incoming, Object, RequestId};
use super::method::{self, Reply, Request, resource_fault, seal};
use super::outbox::{Gone, Outbox, Reporter};
use super::revision::{LogLevel, RequestMeta, Revision};
use super::server::{Later, ResourceError, ToolServer};
use super::subscription::{Change, Subscriptions, subscription_meta};
use super::watch::Watch;

/// Requests of one client that may run at a time; far above what an agent has in flight.
const RUNNING_MAX: usize = 256;

/// Messages in one batch of 2025-03-26.
const BATCH_MESSAGES_MAX: usize = 64;

/// What calls may still take to end once the client has closed its side.
const CLOSING_GRACE: Duration = Duration::from_millis(100);

/// What the last messages may take to be written.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// Serves one client until its stream ends or it no longer reads.
pub(super) async fn serve<R, W>(server: Arc<dyn ToolServer>, read: R, write: W)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (outbox, mut writing) = Outbox::start(write);
    let mut session = Session::new(server, outbox);
    if session.converse(Lines::new(read)).await.is_ok() {
        // The client reads on, or it is gone, which the writing task will find out.
        let _ = session.close().await;
    }
    drop(session);
    if tokio::time::timeout(DRAIN_GRACE, &mut writing).await.is_err() {
        writing.abort();
    }
}

/// The legacy session: closed -> opening by `initialize` -> open by `notifications/initialized`.
/// A new `initialize` opens it anew.
#[derive(Clone, Copy)]
enum LegacySession {
    Closed,
    Opening(Revision),
    Open(Revision),
}

impl LegacySession {
    fn revision(self) -> Option<Revision> {
        match self {
            Self::Closed => None,
            Self::Opening(revision) | Self::Open(revision) => Some(revision),
        }
    }
}

/// A request whose answer is still to come.
struct Running {
    /// Tells this request from an earlier one with the same id.
    serial: u64,
    abort: AbortHandle,
    batch: Option<u64>,
}

/// A batch whose answers go out together.
#[derive(Default)]
struct Batch {
    outstanding: usize,
    answers: Vec<Value>,
}

/// A request that has ended.
struct Ended {
    id: RequestId,
    serial: u64,
    outcome: Result<Value, Fault>,
}

struct Session {
    server: Arc<dyn ToolServer>,
    outbox: Outbox,
    legacy: LegacySession,
    /// What `logging/setLevel` set; without it nothing is logged.
    log_level: Option<LogLevel>,
    calls: JoinSet<Ended>,
    running: BTreeMap<RequestId, Running>,
    batches: BTreeMap<u64, Batch>,
    serial_last: u64,
    subscriptions: Subscriptions,
    changes: Option<broadcast::Receiver<Change>>,
    watch: Watch,
}

impl Session {
    fn new(server: Arc<dyn ToolServer>, outbox: Outbox) -> Self {
        Self {
            outbox,
            legacy: LegacySession::Closed,
            log_level: None,
            calls: JoinSet::new(),
            running: BTreeMap::new(),
            batches: BTreeMap::new(),
            serial_last: 0,
            subscriptions: Subscriptions::default(),
            changes: server.changes(),
            watch: Watch::new(server.resources().and_then(|resources| resources.poll())),
            server,
        }
    }

    /// Takes what comes until the client closes its side.
    async fn converse<R: AsyncRead + Unpin>(&mut self, mut lines: Lines<R>) -> Result<(), Gone> {
        loop {
            tokio::select! {
                biased;
                () = self.outbox.closed() => return Err(Gone),
                changes = next_changes(&mut self.changes) => self.announce(changes).await?,
                changes = self.watch.next() => self.announce(Some(changes)).await?,
                Some(ended) = self.calls.join_next() => self.end(ended).await?,
                line = lines.next() => match line {
                    Line::Text(line) => self.receive(&line).await?,
                    Line::TooLong => {
                        let fault = Fault::invalid_request("the message is too long");
                        self.answer(None, Err(fault), None).await?;
                    }
                    Line::End => return Ok(()),
                },
            }
        }
    }

    /// Gives running calls a short grace, and ends the streams as 2026-07-28 wants it.
    async fn close(&mut self) -> Result<(), Gone> {
        let deadline = tokio::time::Instant::now() + CLOSING_GRACE;
        while let Ok(Some(ended)) = tokio::time::timeout_at(deadline, self.calls.join_next()).await {
            self.end(ended).await?;
        }
        for id in self.subscriptions.close() {
            let mut result = Object::new();
            result.insert("_meta".to_owned(), subscription_meta(&id));
            let result = seal(result, &self.server.about(), Revision::V2026_07_28);
            self.answer(Some(&id), Ok(result), None).await?;
        }
        Ok(())
    }

    async fn receive(&mut self, line: &[u8]) -> Result<(), Gone> {
        match serde_json::from_slice::<Value>(line) {
            Ok(Value::Array(messages)) => self.receive_batch(messages).await,
            Ok(message) => self.receive_one(Incoming::of(message), None).await,
            Err(_) => self.answer(None, Err(Fault::parse_error()), None).await,
        }
    }

    async fn receive_batch(&mut self, messages: Vec<Value>) -> Result<(), Gone> {
        let refusal = match self.legacy.revision() {
            Some(Revision::V2025_03_26) if messages.is_empty() => Some("an empty batch"),
            Some(Revision::V2025_03_26) if messages.len() > BATCH_MESSAGES_MAX => Some("too long a batch"),
            Some(Revision::V2025_03_26) => None,
            None | Some(_) => Some("batches belong to 2025-03-26 alone"),
        };
        if let Some(fact) = refusal {
            return self.answer(None, Err(Fault::invalid_request(fact)), None).await;
        }
        let batch = self.next_serial();
        // The batch holds itself open until all of its messages are taken.
        self.batches.insert(batch, Batch { outstanding: 1, answers: Vec::new() });
        for message in messages {
            self.receive_one(Incoming::of(message), Some(batch)).await?;
        }
        self.settle(batch).await
    }

    async fn receive_one(&mut self, incoming: Incoming, batch: Option<u64>) -> Result<(), Gone> {
        let is_owed = matches!(incoming, Incoming::Request { .. } | Incoming::Invalid { .. });
        if let Some(batch) = batch.and_then(|batch| self.batches.get_mut(&batch)).filter(|_| is_owed) {
            batch.outstanding += 1;
        }
        match incoming {
            Incoming::Request { id, method, params } => self.request(id, method, params, batch).await,
            Incoming::Notification { method, params } => self.notice(&method, &params).await,
            Incoming::Ignored => Ok(()),
            Incoming::Invalid { id, fault } => self.answer(id.as_ref(), Err(fault), batch).await,
        }
    }

    async fn request(
        &mut self,
        id: RequestId,
        method: String,
        params: Object,
        batch: Option<u64>,
    ) -> Result<(), Gone> {
        if self.running.contains_key(&id) || self.subscriptions.has(&id) {
            let fault = Fault::invalid_request("a request with that id is running");
            return self.answer(Some(&id), Err(fault), batch).await;
        }
        let reply = match RequestMeta::of(&method, &params, self.legacy.revision()) {
            Ok(meta) => self.dispatch(&id, Request { method, params, meta }),
            Err(fault) => Reply::Now(Err(fault)),
        };
        match reply {
            Reply::Now(outcome) => self.answer(Some(&id), outcome, batch).await,
            Reply::Later(_) if self.running.len() >= RUNNING_MAX => {
                let fault = Fault::internal("too many requests are running");
                self.answer(Some(&id), Err(fault), batch).await
            }
            Reply::Later(work) => {
                self.start(id, work, batch);
                Ok(())
            }
            Reply::Open(acknowledgement) => {
                self.outbox.send(&acknowledgement).await?;
                match batch {
                    Some(batch) => self.settle(batch).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Answers what concerns the session itself; the rest concerns the server.
    fn dispatch(&mut self, id: &RequestId, request: Request) -> Reply {
        let is_modern = request.meta.revision.is_modern();
        let params = &request.params;
        match request.method.as_str() {
            "initialize" if !is_modern => Reply::Now(self.initialize(params)),
            "logging/setLevel" if !is_modern => Reply::Now(self.set_level(params)),
            "resources/subscribe" | "resources/unsubscribe"
                if !is_modern && self.server.resources().is_some() =>
            {
                Reply::Now(self.subscribe(&request))
            }
            "subscriptions/listen" if is_modern => {
                let opened = self.subscriptions.listen(id, params, &*self.server);
                self.watch.set(self.subscriptions.watched());
                opened.map_or_else(|fault| Reply::Now(Err(fault)), Reply::Open)
            }
            _ => {
                let log_level = if is_modern { request.meta.log_level } else { self.log_level };
                let name = self.server.about().name;
                let reporter = Reporter::new(self.outbox.clone(), name, &request.meta, log_level);
                method::answer(&self.server, request, reporter)
            }
        }
    }

    fn initialize(&mut self, params: &Object) -> Result<Value, Fault> {
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let asked = asked.ok_or_else(|| Fault::invalid_params("protocolVersion must be a string"))?;
        let revision = Revision::negotiated(asked);
        self.legacy = LegacySession::Opening(revision);
        self.log_level = None;
        self.subscriptions.reset_session();
        self.watch.set(self.subscriptions.watched());
        Ok(method::initialized(&*self.server, revision))
    }

    fn set_level(&mut self, params: &Object) -> Result<Value, Fault> {
        self.log_level = Some(LogLevel::of(params.get("level").unwrap_or(&Value::Null))?);
        Ok(json!({}))
    }

    fn subscribe(&mut self, request: &Request) -> Result<Value, Fault> {
        let uri = request.params.get("uri").and_then(Value::as_str);
        let uri = uri.ok_or_else(|| Fault::invalid_params("uri must be a string"))?;
        let can_watch = self.server.resources().is_some_and(|resources| resources.can_watch(uri));
        match request.method.as_str() {
            "resources/unsubscribe" => self.subscriptions.unsubscribe(uri),
            _ if can_watch => self.subscriptions.subscribe(uri)?,
            _ => return Err(resource_fault(&ResourceError::NotFound, uri, request.meta.revision)),
        }
        self.watch.set(self.subscriptions.watched());
        Ok(json!({}))
    }

    async fn notice(&mut self, method: &str, params: &Object) -> Result<(), Gone> {
        match (method, self.legacy) {
            ("notifications/initialized", LegacySession::Opening(revision)) => {
                self.legacy = LegacySession::Open(revision);
            }
            ("notifications/cancelled", _) => {
                if let Some(id) = params.get("requestId").and_then(RequestId::of) {
                    self.cancel(&id).await?;
                }
            }
            // What else a client may notify of has no meaning here.
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, id: RequestId, work: Later<'static, Result<Value, Fault>>, batch: Option<u64>) {
        let serial = self.next_serial();
        let ended_id = id.clone();
        let abort = self.calls.spawn(async move { Ended { id: ended_id, serial, outcome: work.await } });
        self.running.insert(id, Running { serial, abort, batch });
    }

    /// A cancelled request gets no answer.
    async fn cancel(&mut self, id: &RequestId) -> Result<(), Gone> {
        self.subscriptions.cancel(id);
        self.watch.set(self.subscriptions.watched());
        let Some(running) = self.running.remove(id) else { return Ok(()) };
        running.abort.abort();
        match running.batch {
            Some(batch) => self.settle(batch).await,
            None => Ok(()),
        }
    }

    async fn end(&mut self, ended: Result<Ended, JoinError>) -> Result<(), Gone> {
        let (id, outcome) = match ended {
            Ok(ended)
                if self.running.get(&ended.id).is_some_and(|running| running.serial == ended.serial) =>
            {
                (ended.id, ended.outcome)
            }
            // It was cancelled just before it ended.
            Ok(_) => return Ok(()),
            Err(error) => {
                let crashed = self.running.iter().find(|(_, running)| running.abort.id() == error.id());
                let Some(id) = crashed.map(|(id, _)| id.clone()) else { return Ok(()) };
                (id, Err(Fault::internal("the request crashed")))
            }
        };
        let batch = self.running.remove(&id).and_then(|running| running.batch);
        self.answer(Some(&id), outcome, batch).await
    }

    async fn answer(
        &mut self,
        id: Option<&RequestId>,
        outcome: Result<Value, Fault>,
        batch: Option<u64>,
    ) -> Result<(), Gone> {
        let message = message::answer(id, outcome);
        match batch.and_then(|batch| Some((batch, self.batches.get_mut(&batch)?))) {
            Some((key, batch)) => {
                batch.answers.push(message);
                self.settle(key).await
            }
            None => self.outbox.send(&message).await,
        }
    }

    /// Counts one message of a batch as dealt with; with the last one, the answers go out.
    async fn settle(&mut self, key: u64) -> Result<(), Gone> {
        let Some(batch) = self.batches.get_mut(&key) else { return Ok(()) };
        batch.outstanding -= 1;
        if batch.outstanding > 0 {
            return Ok(());
        }
        let answers = self.batches.remove(&key).map(|batch| batch.answers).unwrap_or_default();
        if answers.is_empty() { Ok(()) } else { self.outbox.send(&Value::Array(answers)).await }
    }

    /// Tells of changes; none stands for changes that were missed.
    async fn announce(&mut self, changes: Option<BTreeSet<Change>>) -> Result<(), Gone> {
        let session_is_open = matches!(self.legacy, LegacySession::Open(_));
        for change in changes.unwrap_or_else(|| self.subscriptions.anything()) {
            for message in self.subscriptions.notifications(&change, session_is_open) {
                self.outbox.send(&message).await?;
            }
        }
        Ok(())
    }

    fn next_serial(&mut self) -> u64 {
        self.serial_last += 1;
        self.serial_last
    }
}

/// Waits for changes and takes all that there are, each once; none where some were missed.
async fn next_changes(changes: &mut Option<broadcast::Receiver<Change>>) -> Option<BTreeSet<Change>> {
    let Some(receiver) = changes else { return std::future::pending().await };
    let mut gathered = BTreeSet::new();
    match receiver.recv().await {
        Ok(change) => gathered.insert(change),
        Err(broadcast::error::RecvError::Lagged(_)) => return None,
        Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
    };
    while let Ok(change) = receiver.try_recv() {
        gathered.insert(change);
    }
    Some(gathered)
}
