//! Waiting for a connection or a list, within a deadline.

use super::{ConnHandle, ConnSnapshot, ToolsFetched, ToolsState};
use crate::call::{CallError, Clock};
use crate::catalog::ItemList;
use crate::conn_core::ConnCore;
use crate::handle::Command;
use crate::lists;
use crate::machine::{DisabledBy, State};
use crate::port::{Delivery, Generation};
use crate::view;
use callboard_protocol::Era;
use callboard_protocol::list::ListKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

impl ConnHandle {
    /// Asks for a connection if there is none and waits for it; after [`ConnHandle::reconnect`] and
    /// [`ConnHandle::enable`], for the one that they lead to.
    ///
    /// # Errors
    /// When the server has failed, needs a login or is switched off, and when the time is up.
    pub async fn connect(&self, timeout: Option<Duration>) -> Result<(), CallError> {
        let started = Instant::now();
        let until = timeout.and_then(|timeout| started.checked_add(timeout));
        self.next_core(until, started).await.map(|_| ())
    }

    /// The connection in use.
    pub(crate) fn ready_core(&self) -> Option<Arc<ConnCore>> {
        let snapshot = self.0.snapshot.load();
        snapshot.core.as_ref().filter(|core| core.closed().is_none()).cloned()
    }

    /// The connection in use, or the next one.
    pub(crate) async fn core(
        &self,
        until: Option<Instant>,
        started: Instant,
    ) -> Result<Arc<ConnCore>, CallError> {
        match self.ready_core() {
            Some(core) => Ok(core),
            None => self.next_core(until, started).await,
        }
    }

    async fn next_core(&self, until: Option<Instant>, started: Instant) -> Result<Arc<ConnCore>, CallError> {
        self.wait(&self.0.changed, until, started, |snapshot| match &snapshot.core {
            Some(core) if core.closed().is_none() => Some(Ok(core.clone())),
            _ => self.given_up(snapshot).map(Err),
        })
        .await
    }

    /// A connection later than this one.
    pub(crate) async fn core_after(
        &self,
        generation: Generation,
        until: Option<Instant>,
        started: Instant,
    ) -> Result<(), CallError> {
        self.wait(&self.0.changed, until, started, |snapshot| match &snapshot.core {
            Some(core) if core.generation > generation => Some(Ok(())),
            _ => self.given_up(snapshot).map(Err),
        })
        .await
    }

    /// Waits until the snapshot satisfies `ready`, asking for a connection whenever nobody is working on one.
    async fn wait<T>(
        &self,
        changes: &Notify,
        until: Option<Instant>,
        started: Instant,
        ready: impl Fn(&ConnSnapshot) -> Option<Result<T, CallError>>,
    ) -> Result<T, CallError> {
        loop {
            // Enabled before the look, so that no change between the two is missed.
            let mut changed = pin!(changes.notified());
            changed.as_mut().enable();
            if !self.0.is_behind() {
                let snapshot = self.0.snapshot.load();
                if let Some(ready) = ready(&snapshot) {
                    return ready;
                }
                if view::is_dormant(&snapshot.machine.state) {
                    self.demand();
                }
            }
            match until {
                Some(until) => {
                    timeout_at(until, changed).await.map_err(|_| self.not_in_time(started))?;
                }
                None => changed.await,
            }
        }
    }

    fn not_in_time(&self, started: Instant) -> CallError {
        CallError::TimedOut {
            what: format!("waiting for server {}", self.name()),
            clock: Clock::Connect,
            elapsed: started.elapsed(),
            delivery: Delivery::NotSent,
            unmatched: 0,
        }
    }

    /// The error of a server that will not be connected by waiting.
    pub(super) fn given_up(&self, snapshot: &ConnSnapshot) -> Option<CallError> {
        let server = self.name().clone();
        let (message, reason) = match &snapshot.machine.state {
            State::Pending { .. } | State::Connected { .. } => return None,
            State::NeedsAuth { reason, .. } => (reason.to_string(), Some(reason.clone())),
            State::Failed { reason, slow_retry, .. } => {
                let next = slow_retry.map(|(at, _)| at.saturating_duration_since(Instant::now()).as_secs());
                let next = next.map_or_else(String::new, |s| format!(" (tried again in {s} s)"));
                (format!("{reason}{next}"), Some(reason.clone()))
            }
            State::Disabled { .. } if !self.0.env.is_open() => return Some(CallError::Closed),
            State::Disabled { by, .. } => {
                let message = match by {
                    DisabledBy::User => "it is switched off",
                    DisabledBy::Entry => "it is switched off by its entry",
                    DisabledBy::Removed => "it was removed from the board",
                };
                (message.into(), None)
            }
        };
        Some(CallError::NotConnected { server, message, reason })
    }

    /// The server's tools: the known list while it is good, else a new one. Connects if needed.
    ///
    /// # Errors
    /// When there is no connection, or the list cannot be had and there is no earlier one.
    pub async fn tools(&self) -> Result<Arc<ItemList>, CallError> {
        let started = Instant::now();
        let settled = self
            .wait(&self.0.tools_changed, None, started, |snapshot| match &snapshot.tools.state {
                _ if snapshot.core.is_none() => self.given_up(snapshot).map(Err),
                ToolsState::Fetching | ToolsState::None => None,
                ToolsState::Fresh => snapshot.tools.list.clone().map(|list| Ok(Some(list))),
                ToolsState::Stale | ToolsState::Failed(_) => Some(Ok(None)),
            })
            .await?;
        match settled {
            Some(list) if self.is_good(&list) => Ok(list),
            Some(list) => Ok(self.refresh(ListKind::Tools).await.unwrap_or(list)),
            None => {
                let known = self.tools_snapshot().list;
                match (self.refresh(ListKind::Tools).await, known) {
                    (Err(_), Some(known)) => Ok(known),
                    (fetched, _) => fetched,
                }
            }
        }
    }

    /// A legacy list is good until it is said to have changed; a modern one while its time runs, or while
    /// changes are being told.
    fn is_good(&self, list: &ItemList) -> bool {
        let snapshot = self.0.snapshot.load();
        let Some(session) = snapshot.core.as_ref().and_then(|core| core.session()) else { return false };
        session.era() == Era::Legacy || session.listen.covers_tools() || list.fetched_at.elapsed() <= list.ttl
    }

    /// Asks the server for a list again, whatever is known.
    ///
    /// # Errors
    /// When there is no connection, or the list cannot be had; what was known stays.
    pub async fn refresh(&self, kind: ListKind) -> Result<Arc<ItemList>, CallError> {
        let started = Instant::now();
        let core = self.core(None, started).await?;
        let sequence = self.0.sequence.fetch_add(1, Ordering::Relaxed);
        let fetched = lists::fetch(&core, kind).await.map(Arc::new);
        if kind == ListKind::Tools {
            let result = fetched.clone().map_err(|error| error.to_string());
            let fetched = ToolsFetched { generation: core.generation, sequence, result };
            (self.0.commands)(Command::ToolsFetched(fetched));
        }
        fetched
    }

    /// A list of the server, from the session's cache where it is good.
    ///
    /// # Errors
    /// [`CallError::Unsupported`] when the server does not have such lists; otherwise as [`ConnHandle::refresh`].
    pub async fn list(&self, kind: ListKind) -> Result<Arc<ItemList>, CallError> {
        if kind == ListKind::Tools {
            return self.tools().await;
        }
        let core = self.core(None, Instant::now()).await?;
        let session = core.session().ok_or(CallError::Closed)?;
        let offered = match kind {
            ListKind::Tools => session.features.tools,
            ListKind::Resources | ListKind::ResourceTemplates => session.features.resources,
            ListKind::Prompts => session.features.prompts,
        };
        if !offered {
            return Err(CallError::Unsupported(format!("server {} has no {}", self.name(), kind.key())));
        }
        if let Some(list) = session.cached(kind)
            && (session.era() == Era::Legacy || list.fetched_at.elapsed() <= list.ttl)
        {
            return Ok(list);
        }
        let changes = session.changes(kind);
        let list = self.refresh(kind).await?;
        session.cache(kind, list.clone(), changes);
        Ok(list)
    }
}
