//! What comes in unasked: notifications, and requests of the server.
//!
//! Text from a server is data: bounded where it is kept, never a reason to trust.

use crate::call::Progress;
use crate::conn_core::ConnCore;
use crate::event::EventKind;
use crate::pending::Outcome;
use crate::port::BoxFuture;
use crate::{ask, dialect};
use bytes::Bytes;
use callboard_protocol::list::ListKind;
use callboard_protocol::{Era, Frame, Notification, Request, code, json};
use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests of one server that are being answered at once; more are refused.
const SERVER_REQUESTS_MAX: usize = 16;
/// Characters of a log message that are kept.
const LOG_CHARS_MAX: usize = 2_000;

/// Told that a list of the server has changed.
pub(crate) type ListChanged = Arc<dyn Fn(ListKind) + Send + Sync>;

/// Handles everything that comes in over one link.
pub(crate) struct Inbound {
    core: Arc<ConnCore>,
    list_changed: ListChanged,
    answering: Arc<AtomicUsize>,
}

impl Inbound {
    pub(crate) fn new(core: Arc<ConnCore>, list_changed: ListChanged) -> Inbound {
        Inbound { core, list_changed, answering: Arc::default() }
    }

    pub(crate) fn take(&mut self, frame: Frame) {
        self.core.metrics.received(frame.payload_len());
        match frame {
            Frame::Reply(reply) => match reply.id.own() {
                Some(id) => self.core.complete(id, Outcome::Reply(reply.body)),
                None => self.core.note_unmatched(),
            },
            Frame::Notification(notification) => self.notified(&notification),
            Frame::Request(request) => self.asked(request),
        }
    }

    fn notified(&self, notification: &Notification) {
        match notification.method.as_str() {
            "notifications/progress" => self.progress(notification),
            "notifications/tools/list_changed" => (self.list_changed)(ListKind::Tools),
            "notifications/prompts/list_changed" => (self.list_changed)(ListKind::Prompts),
            "notifications/resources/list_changed" => {
                (self.list_changed)(ListKind::Resources);
                (self.list_changed)(ListKind::ResourceTemplates);
            }
            "notifications/resources/updated" => self.resource_updated(notification),
            "notifications/message" => self.logged(notification),
            "notifications/cancelled" => self.cancelled(notification),
            "notifications/subscriptions/acknowledged" => self.acknowledged(notification),
            method => {
                tracing::debug!(server = %self.core.server, method, "notification without a meaning here")
            }
        }
    }

    fn progress(&self, notification: &Notification) {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(borrow, rename = "progressToken")]
            token: &'a RawValue,
            #[serde(default)]
            progress: Option<f64>,
            #[serde(default)]
            total: Option<f64>,
            #[serde(default)]
            message: Option<String>,
        }
        let Some(shape) = read::<Shape<'_>>(notification) else { return };
        let Some(id) = callboard_protocol::Id::from_raw(shape.token.get()).own() else { return };
        if let Some(Some(sink)) = self.core.touch(id) {
            let progress = shape.progress.unwrap_or_default();
            sink(Progress { progress, total: shape.total, message: shape.message });
        }
    }

    fn resource_updated(&self, notification: &Notification) {
        #[derive(Deserialize)]
        struct Shape {
            uri: String,
        }
        if let Some(shape) = read::<Shape>(notification) {
            self.emit(EventKind::ResourceUpdated { uri: shape.uri });
        }
    }

    fn logged(&self, notification: &Notification) {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(default)]
            level: String,
            #[serde(borrow, default)]
            data: Option<&'a RawValue>,
        }
        if let Some(shape) = read::<Shape<'_>>(notification) {
            let data = shape.data.map_or("null", RawValue::get);
            let data = callboard_protocol::text::cut(data, LOG_CHARS_MAX).0.to_owned();
            self.emit(EventKind::ServerLog { level: shape.level, data });
        }
    }

    /// A modern server ends a `subscriptions/listen` this way; anything else it cannot call off.
    fn cancelled(&self, notification: &Notification) {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(borrow, rename = "requestId")]
            id: &'a RawValue,
        }
        if self.era() == Era::Modern
            && let Some(shape) = read::<Shape<'_>>(notification)
            && let Some(id) = callboard_protocol::Id::from_raw(shape.id.get()).own()
        {
            self.core.complete(
                id,
                Outcome::Reply(callboard_protocol::ReplyBody::Result(Bytes::from_static(b"{}"))),
            );
        }
    }

    fn acknowledged(&self, notification: &Notification) {
        if let Some(session) = self.core.session() {
            session.listen.acknowledged(notification.params.as_ref().map_or("{}", json::text));
        }
    }

    fn emit(&self, event: EventKind) {
        self.core.env.emit(&self.core.server, self.core.generation, event);
    }

    fn era(&self) -> Era {
        self.core.session().map_or(Era::Legacy, |session| session.era())
    }

    fn asked(&self, request: Request) {
        if self.era() == Era::Modern {
            // A modern server may not send requests: a violation, counted and never answered.
            self.core.metrics.malformed();
            tracing::warn!(server = %self.core.server, method = %request.method, "request of a modern server");
            return;
        }
        if request.method == "ping" {
            return self.core.reply(result(&request.id, "{}"));
        }
        let Some(answer) = ask::legacy(&self.core, &request) else {
            let why = format!("the client does not offer {}", request.method);
            return self.core.reply(error(&request.id, code::METHOD_NOT_FOUND, &why));
        };
        if self.answering.fetch_add(1, Ordering::Relaxed) >= SERVER_REQUESTS_MAX {
            self.answering.fetch_sub(1, Ordering::Relaxed);
            return self.core.reply(error(&request.id, code::INTERNAL, "too many requests at once"));
        }
        self.answer(request.id, answer);
    }

    fn answer(&self, id: Bytes, answer: BoxFuture<'static, Result<String, (i64, String)>>) {
        let (core, answering) = (self.core.clone(), self.answering.clone());
        self.core.env.runtime.spawn(async move {
            // A handler that panics still owes the server an answer, and must not keep its place for ever.
            let answer = AssertUnwindSafe(answer).catch_unwind();
            let frame = match core.while_open(answer).await {
                Ok(Ok(Ok(raw))) => Some(result(&id, &raw)),
                Ok(Ok(Err((code, message)))) => Some(error(&id, code, &message)),
                Ok(Err(_)) => Some(error(&id, code::INTERNAL, "the client failed to answer")),
                Err(_) => None,
            };
            answering.fetch_sub(1, Ordering::Relaxed);
            if let Some(frame) = frame {
                core.reply(frame);
            }
        });
    }
}

fn read<'a, T: Deserialize<'a>>(notification: &'a Notification) -> Option<T> {
    serde_json::from_slice(notification.params.as_deref()?).ok()
}

fn result(id: &Bytes, raw: &str) -> Vec<u8> {
    dialect::one_line(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{raw}}}"#, json::text(id)).into_bytes())
}

fn error(id: &Bytes, code: i64, message: &str) -> Vec<u8> {
    let message = serde_json::Value::from(message);
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":{message}}}}}"#,
        json::text(id)
    );
    text.into_bytes()
}
