//! What changes on a server, and who wants to hear of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::message::{Fault, Object, RequestId, notification};
use super::revision::META_SUBSCRIPTION_ID;
use super::server::ToolServer;

/// Streams that one client may listen on at a time; more means that it forgets to cancel them.
const LISTENS_MAX: usize = 32;

/// Resources that one client may watch, or one stream.
const WATCHED_MAX: usize = 256;

/// Something about a server that is no longer as it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Tools,
    Resources,
    /// The content of the resource with that URI.
    Resource(String),
}

impl Change {
    fn method(&self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Resource(_) => "notifications/resources/updated",
        }
    }

    fn params(&self) -> Object {
        let mut params = Object::new();
        match self {
            Self::Tools | Self::Resources => {}
            Self::Resource(uri) => {
                params.insert("uri".to_owned(), json!(uri));
            }
        }
        params
    }
}

/// What one `subscriptions/listen` hears: the part of what it asked for that the server has.
#[derive(Debug)]
struct Filter {
    tools: bool,
    resources: bool,
    uris: BTreeSet<String>,
}

impl Filter {
    fn honoured(asked: &Object, server: &dyn ToolServer) -> Result<Self, Fault> {
        let wants = |kind: &str| asked.get(kind).and_then(Value::as_bool).unwrap_or(false);
        let changes = server.changes().is_some();
        let uris: BTreeSet<String> = match (asked.get("resourceSubscriptions"), server.resources()) {
            (Some(Value::Array(uris)), Some(resources)) => uris
                .iter()
                .filter_map(Value::as_str)
                .filter(|uri| resources.can_watch(uri))
                .map(str::to_owned)
                .collect(),
            _ => BTreeSet::new(),
        };
        if uris.len() > WATCHED_MAX {
            return Err(Fault::invalid_params(format!("more than {WATCHED_MAX} resources to watch")));
        }
        Ok(Self {
            tools: wants("toolsListChanged") && changes,
            resources: wants("resourcesListChanged") && changes && server.resources().is_some(),
            uris,
        })
    }

    fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Resources => self.resources,
            Change::Resource(uri) => self.uris.contains(uri),
        }
    }

    fn to_json(&self) -> Value {
        let mut honoured = Object::new();
        if self.tools {
            honoured.insert("toolsListChanged".to_owned(), json!(true));
        }
        if self.resources {
            honoured.insert("resourcesListChanged".to_owned(), json!(true));
        }
        if !self.uris.is_empty() {
            honoured.insert("resourceSubscriptions".to_owned(), json!(self.uris));
        }
        Value::Object(honoured)
    }
}

/// All that one client has subscribed to, in both eras.
#[derive(Default)]
pub(super) struct Subscriptions {
    listens: BTreeMap<RequestId, Filter>,
    /// `resources/subscribe` of the legacy session.
    uris: BTreeSet<String>,
}

impl Subscriptions {
    /// Opens a stream; the acknowledgement to send first.
    pub(super) fn listen(
        &mut self,
        id: &RequestId,
        params: &Object,
        server: &dyn ToolServer,
    ) -> Result<Value, Fault> {
        let Some(asked) = params.get("notifications").and_then(Value::as_object) else {
            return Err(Fault::invalid_params("notifications must be an object"));
        };
        if self.listens.len() >= LISTENS_MAX {
            return Err(Fault::invalid_params(format!("more than {LISTENS_MAX} streams at a time")));
        }
        let filter = Filter::honoured(asked, server)?;
        let mut params = Object::new();
        params.insert("notifications".to_owned(), filter.to_json());
        params.insert("_meta".to_owned(), subscription_meta(id));
        self.listens.insert(id.clone(), filter);
        Ok(notification("notifications/subscriptions/acknowledged", params))
    }

    /// Whether a stream has that id.
    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.listens.contains_key(id)
    }

    /// Closes the stream with that id, if there is one.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        self.listens.remove(id);
    }

    /// Closes all streams; their ids, each owed a result.
    pub(super) fn close(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.listens).into_keys().collect()
    }

    /// `resources/subscribe`.
    pub(super) fn subscribe(&mut self, uri: &str) -> Result<(), Fault> {
        if self.uris.len() >= WATCHED_MAX && !self.uris.contains(uri) {
            return Err(Fault::invalid_params(format!("more than {WATCHED_MAX} resources to watch")));
        }
        self.uris.insert(uri.to_owned());
        Ok(())
    }

    /// `resources/unsubscribe`; unsubscribing twice is nothing.
    pub(super) fn unsubscribe(&mut self, uri: &str) {
        self.uris.remove(uri);
    }

    /// Forgets the subscriptions of a legacy session that begins anew.
    pub(super) fn reset_session(&mut self) {
        self.uris.clear();
    }

    /// The resources that anybody watches.
    pub(super) fn watched(&self) -> BTreeSet<String> {
        let listens = self.listens.values().flat_map(|filter| &filter.uris);
        listens.chain(&self.uris).cloned().collect()
    }

    /// Everything that this client could hear of, for when changes were missed.
    pub(super) fn anything(&self) -> BTreeSet<Change> {
        let updates = self.watched().into_iter().map(Change::Resource);
        [Change::Tools, Change::Resources].into_iter().chain(updates).collect()
    }

    /// The notifications that tell of a change: one for each stream that wants it, and one for the legacy
    /// session where that is open.
    pub(super) fn notifications(&self, change: &Change, session_is_open: bool) -> Vec<Value> {
        let mut told = Vec::new();
        let session_wants = match change {
            Change::Tools | Change::Resources => true,
            Change::Resource(uri) => self.uris.contains(uri),
        };
        if session_is_open && session_wants {
            told.push(notification(change.method(), change.params()));
        }
        for id in self.listens.iter().filter(|(_, filter)| filter.wants(change)).map(|(id, _)| id) {
            let mut params = change.params();
            params.insert("_meta".to_owned(), subscription_meta(id));
            told.push(notification(change.method(), params));
        }
        told
    }
}

/// The `_meta` that ties a message to a stream.
pub(super) fn subscription_meta(id: &RequestId) -> Value {
    json!({ META_SUBSCRIPTION_ID: id.to_json() })
}
