//! `subscriptions/listen` of 2026-07-28: one standing request for changes of lists, one for each resource.
//!
//! A stream that ends is opened anew within bounds; what was missed meanwhile makes the lists stale.

use crate::conn_core::{ConnCore, Outgoing};
use crate::dialect::Outline;
use crate::inbound::ListChanged;
use crate::pending::Clocks;
use crate::session::Session;
use callboard_protocol::list::ListKind;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What is known of the standing request for changes of lists.
#[derive(Default)]
pub(crate) struct ListenState {
    tools_covered: AtomicBool,
    acknowledged: AtomicBool,
}

impl ListenState {
    /// Takes the raw params of an acknowledgement: the subset that the server honours.
    pub(crate) fn acknowledged(&self, params: &str) {
        let params: serde_json::Value = serde_json::from_str(params).unwrap_or_default();
        let tools = params.pointer("/notifications/toolsListChanged").and_then(|flag| flag.as_bool());
        self.tools_covered.fetch_or(tools == Some(true), Ordering::Relaxed);
        self.acknowledged.store(true, Ordering::Relaxed);
    }

    /// Changes of the tool list will be told.
    pub(crate) fn covers_tools(&self) -> bool {
        self.tools_covered.load(Ordering::Relaxed)
    }

    fn reset(&self) -> bool {
        self.tools_covered.store(false, Ordering::Relaxed);
        self.acknowledged.swap(false, Ordering::Relaxed)
    }
}

/// Gaps between reopenings: 1 s, doubled, up to this.
const GAP_MAX: Duration = Duration::from_secs(30);

/// Keeps the standing request for changes of lists open as long as the connection lives and its rules allow
/// (behaviour profile §4.13).
pub(crate) async fn keep_listening(core: Arc<ConnCore>, list_changed: ListChanged) {
    let Some(session) = core.session() else { return };
    if !session.features.list_changed {
        return;
    }
    let wanted = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}"#;
    let mut rules = ReopenRules::default();
    loop {
        let opened = Instant::now();
        let ended = listen_once(&core, session, wanted).await;
        if !ended || !session.listen.reset() {
            // Refused, or nothing was honoured: there is nothing to reopen for.
            return;
        }
        let Some(gap) = rules.next_gap(opened.elapsed(), &core) else { return };
        sleep(gap).await;
        if core.closed().is_some() {
            return;
        }
        for kind in ListKind::ALL {
            list_changed(kind);
        }
    }
}

/// Listens for updates of one resource until it ends; the updates themselves come as events.
pub(crate) async fn listen_to_resource(core: Arc<ConnCore>, uri: String) {
    let Some(session) = core.session() else { return };
    let wanted = serde_json::json!({ "notifications": { "resourceSubscriptions": [uri] } }).to_string();
    let mut rules = ReopenRules::default();
    loop {
        let opened = Instant::now();
        if !listen_once(&core, session, &wanted).await {
            return;
        }
        let Some(gap) = rules.next_gap(opened.elapsed(), &core) else { return };
        sleep(gap).await;
        if core.closed().is_some() {
            return;
        }
    }
}

/// One standing request; false when the server refused it.
async fn listen_once(core: &Arc<ConnCore>, session: &Session, params: &str) -> bool {
    let outline =
        Outline { method: "subscriptions/listen", params: Cow::Borrowed(params), ..Outline::default() };
    let outgoing = Outgoing {
        outline,
        clocks: Clocks::default(),
        progress: None,
        is_listen: true,
        started: Instant::now(),
        early_headers: Vec::new(),
    };
    match core.request(&*session.dialect, outgoing).await {
        Ok(_) => true,
        Err(crate::call::CallError::Lost { reason, .. }) => reason.http_status().is_none(),
        Err(_) => false,
    }
}

/// Decides whether and when a stream that ended is opened anew.
#[derive(Default)]
struct ReopenRules {
    short_in_a_row: usize,
    last_hour: VecDeque<Instant>,
}

impl ReopenRules {
    fn next_gap(&mut self, lived: Duration, core: &ConnCore) -> Option<Duration> {
        let settings = &core.env.settings;
        let now = Instant::now();
        if lived < settings.listen_short {
            self.short_in_a_row += 1;
            if self.short_in_a_row > settings.listen_short_reopens_max {
                return None;
            }
            return Some(Duration::from_secs(1 << (self.short_in_a_row - 1).min(5)).min(GAP_MAX));
        }
        self.short_in_a_row = 0;
        while self.last_hour.front().is_some_and(|at| now - *at > Duration::from_secs(3_600)) {
            self.last_hour.pop_front();
        }
        self.last_hour.push_back(now);
        match self.last_hour.len() > settings.listen_reopens_per_hour_max {
            true => Some(settings.listen_pause),
            false => Some(Duration::from_secs(1)),
        }
    }
}

/// The standing requests for single resources of one connection.
#[derive(Default)]
pub(crate) struct ResourceListens {
    tasks: Mutex<Vec<(String, tokio::task::AbortHandle)>>,
}

/// Resources that one connection listens to.
const RESOURCE_LISTENS_MAX: usize = 256;

impl ResourceListens {
    /// Starts to listen; false when too many are listened to.
    pub(crate) fn start(&self, core: &Arc<ConnCore>, uri: &str) -> bool {
        let mut tasks = self.tasks.lock();
        tasks.retain(|(_, task)| !task.is_finished());
        if tasks.iter().any(|(known, _)| known == uri) {
            return true;
        }
        if tasks.len() >= RESOURCE_LISTENS_MAX {
            return false;
        }
        let task = core.env.runtime.spawn(listen_to_resource(core.clone(), uri.to_owned()));
        tasks.push((uri.to_owned(), task.abort_handle()));
        true
    }

    /// Stops to listen.
    pub(crate) fn stop(&self, uri: &str) {
        self.tasks.lock().retain(|(known, task)| {
            let stop = known == uri;
            if stop {
                task.abort();
            }
            !stop
        });
    }
}

impl ResourceListens {
    /// Stops to listen to all of them.
    pub(crate) fn stop_all(&self) {
        for (_, task) in self.tasks.lock().drain(..) {
            task.abort();
        }
    }
}

impl Drop for ResourceListens {
    fn drop(&mut self) {
        for (_, task) in self.tasks.get_mut() {
            task.abort();
        }
    }
}
