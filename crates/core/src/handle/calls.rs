//! The requests that a host makes of a server.

use super::places::Applicant;
use super::{ConnHandle, ToolsState};
use crate::call::{CallError, CallOptions, ToolReply};
use crate::conn_core::{ConnCore, Outgoing, clocks_for, moment};
use crate::dialect::{Outline, meta_members, split_meta};
use crate::pending::Clocks;
use crate::port::{CloseReason, Delivery, IoKind};
use crate::telemetry;
use crate::tool_call::{Asked, perform};
use bytes::Bytes;
use callboard_protocol::list::ListKind;
use callboard_protocol::{Era, code};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span};

impl ConnHandle {
    /// Calls a tool by its raw name; `arguments` is a JSON object.
    ///
    /// A call that no connection has accepted yet waits for one within its deadline. After that it is never
    /// sent again, except once when the server's answer proves that it was refused unperformed.
    ///
    /// # Errors
    /// Exactly one [`CallError`], which says what is known of the request.
    pub async fn call_tool(
        &self,
        tool: &str,
        arguments: &str,
        options: CallOptions,
    ) -> Result<ToolReply, CallError> {
        let started = Instant::now();
        let arguments = object(arguments, "the arguments of a tool")?;
        let mut params = String::with_capacity(32 + tool.len() + arguments.len());
        params.push_str(r#"{"name":"#);
        push_quoted(&mut params, tool);
        params.push_str(r#","arguments":"#);
        params.push_str(arguments);
        params.push('}');
        let span = telemetry::call_span(self.name(), tool);
        let asking =
            Asking { method: "tools/call", name: tool, params, arguments, options, started, span: &span };
        // Nothing is moved into a span that nobody looks at.
        let result = match span.is_disabled() {
            true => self.ask(&asking).await,
            false => Box::pin(self.ask(&asking)).instrument(span.clone()).await,
        };
        self.0.gate.metrics.called(result.as_ref().err(), started.elapsed());
        let reply = ToolReply::new(result?);
        match callboard_protocol::json::first_byte(reply.bytes()) {
            Some(b'{') => Ok(reply),
            _ => Err(CallError::Invalid("the result of a tool is not an object".into())),
        }
    }

    /// Reads a resource; gives the raw result.
    ///
    /// # Errors
    /// As [`ConnHandle::call_tool`].
    pub async fn read_resource(&self, uri: &str, options: CallOptions) -> Result<Bytes, CallError> {
        let params = format!(r#"{{"uri":{}}}"#, quoted(uri));
        let (started, span) = (Instant::now(), &Span::none());
        let method = "resources/read";
        self.ask(&Asking { method, name: uri, params, arguments: "{}", options, started, span }).await
    }

    /// Gets a prompt; `arguments` is a JSON object of texts. Gives the raw result.
    ///
    /// # Errors
    /// As [`ConnHandle::call_tool`].
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &str,
        options: CallOptions,
    ) -> Result<Bytes, CallError> {
        let arguments = object(arguments, "the arguments of a prompt")?;
        let params = format!(r#"{{"name":{},"arguments":{arguments}}}"#, quoted(name));
        let (started, span) = (Instant::now(), &Span::none());
        self.ask(&Asking { method: "prompts/get", name, params, arguments, options, started, span }).await
    }

    /// Asks for completions; raw params in, raw result out (`completion/complete`).
    ///
    /// # Errors
    /// [`CallError::Unsupported`] when the server offers none; otherwise as [`ConnHandle::request`].
    pub async fn complete(&self, params: &str) -> Result<Bytes, CallError> {
        let core = self.core(None, Instant::now()).await?;
        if core.session().is_some_and(|s| !s.features.completions && s.version().as_str() >= "2025-03-26") {
            return Err(CallError::Unsupported(format!("server {} offers no completions", self.name())));
        }
        self.request("completion/complete", params, CallOptions::default()).await
    }

    /// Asks for updates of a resource; they come as events.
    ///
    /// # Errors
    /// [`CallError::Unsupported`] when the server offers none; otherwise as [`ConnHandle::request`].
    pub async fn subscribe(&self, uri: &str) -> Result<(), CallError> {
        let core = self.core(None, Instant::now()).await?;
        let session = core.session().ok_or(CallError::Closed)?;
        if !session.features.resources_subscribe {
            return Err(CallError::Unsupported(format!(
                "server {} offers no updates of resources",
                self.name()
            )));
        }
        if session.era() == Era::Modern {
            return match session.resources.start(&core, uri) {
                true => Ok(()),
                false => Err(CallError::Unsupported("too many resources are listened to".into())),
            };
        }
        let params = format!(r#"{{"uri":{}}}"#, quoted(uri));
        self.request("resources/subscribe", &params, CallOptions::default()).await.map(|_| ())
    }

    /// Ends what [`ConnHandle::subscribe`] began.
    ///
    /// # Errors
    /// As [`ConnHandle::request`].
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), CallError> {
        let core = self.core(None, Instant::now()).await?;
        let session = core.session().ok_or(CallError::Closed)?;
        if session.era() == Era::Modern {
            session.resources.stop(uri);
            return Ok(());
        }
        let params = format!(r#"{{"uri":{}}}"#, quoted(uri));
        self.request("resources/unsubscribe", &params, CallOptions::default()).await.map(|_| ())
    }

    /// Sets the least severe level of the server's log messages; they come as events.
    ///
    /// # Errors
    /// [`CallError::Unsupported`] when the server does not log; otherwise as [`ConnHandle::request`].
    pub async fn set_log_level(&self, level: &str) -> Result<(), CallError> {
        let core = self.core(None, Instant::now()).await?;
        let session = core.session().ok_or(CallError::Closed)?;
        if let Some(modern) = &session.modern {
            modern.set_log_level(level);
            return Ok(());
        }
        if !session.features.logging {
            return Err(CallError::Unsupported(format!("server {} does not log", self.name())));
        }
        let params = format!(r#"{{"level":{}}}"#, quoted(level));
        self.request("logging/setLevel", &params, CallOptions::default()).await.map(|_| ())
    }

    /// Asks for a sign of life: `ping`, or `server/discover` in 2026-07-28, which has no ping.
    ///
    /// # Errors
    /// As [`ConnHandle::request`].
    pub async fn ping(&self) -> Result<(), CallError> {
        let core = self.core(None, Instant::now()).await?;
        let modern = core.session().is_some_and(|session| session.era() == Era::Modern);
        let method = if modern { "server/discover" } else { "ping" };
        self.request(method, "{}", CallOptions::default()).await.map(|_| ())
    }

    /// Sends any other request; raw params in, raw result out.
    ///
    /// # Errors
    /// Exactly one [`CallError`].
    pub async fn request(
        &self,
        method: &str,
        params: &str,
        options: CallOptions,
    ) -> Result<Bytes, CallError> {
        let started = Instant::now();
        let params = object(params, "the params")?;
        if method.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\' || b > 0x7e) {
            return Err(CallError::Unsupported(format!("{method:?} is no method name")));
        }
        let limit = options.timeout.unwrap_or(self.0.env.settings.request_timeout);
        let until = moment(started, limit);
        let mut resent = false;
        loop {
            let caller = options.caller.as_ref();
            self.leave(&Applicant { method, name: None, caller, until, started }).await?;
            let core = self.core(until, started).await?;
            let session = core.session().ok_or(CallError::Closed)?;
            let (bare, own_meta) = split_meta(params);
            let first_byte = self.0.env.settings.http_first_byte_timeout;
            let clocks =
                Clocks { absolute: until, ..clocks_for(first_byte, Duration::ZERO, Duration::ZERO, started) };
            let outgoing = Outgoing {
                outline: Outline {
                    method,
                    params: bare,
                    meta: meta_members(&own_meta, &options),
                    ..Outline::default()
                },
                clocks: first_byte_only_over_http(clocks, &core),
                progress: options.progress.clone(),
                is_listen: false,
                started: Instant::now(),
                early_headers: Vec::new(),
            };
            match core.request(&*session.dialect, outgoing).await {
                Err(error) if self.may_go_again(&core, &error, &mut resent) => {
                    self.core_after(core.generation, until, started).await?;
                }
                done => return done,
            }
        }
    }

    /// One of the three requests that may ask back, through reconnects and out-of-date headers.
    async fn ask(&self, asking: &Asking<'_>) -> Result<Bytes, CallError> {
        let explicit = asking.options.timeout.or(self.call_timeout());
        let limit = explicit.unwrap_or(self.0.env.settings.call_absolute_timeout);
        let until = moment(asking.started, limit);
        let (mut resent, mut mirrored_anew) = (false, false);
        // The clocks of silence run from sending; on the straight path that is now, and no clock is read again.
        let mut now = Some(asking.started);
        // Kept until the end: a call that has its turn does not lose it with a connection.
        let mut place = None;
        loop {
            let core = match self.ready_core() {
                Some(core) => core,
                None => {
                    now = None;
                    self.core(until, asking.started).await?
                }
            };
            if self.awaits_plan() {
                now = None;
                self.await_plan(&core, asking, until).await;
            }
            if place.is_none() {
                place = self.0.gate.try_enter();
            }
            if place.is_none() {
                now = None;
                place = Some(self.place(&asking.applicant(until)).await?);
                // The connection may be another one by now.
                continue;
            }
            // A call that has its turn and could not leave with it: the server may have asked for a pause since.
            if now.is_none() && self.0.gate.is_held() {
                self.leave(&asking.applicant(until)).await?;
                continue;
            }
            telemetry::carried_by(asking.span, core.generation);
            match self.ask_once(&core, asking, explicit, (until, now.take())).await {
                Err(error) if self.may_go_again(&core, &error, &mut resent) => {
                    self.core_after(core.generation, until, asking.started).await?;
                }
                Err(error) if !mirrored_anew && is_header_mismatch(&error) => {
                    // Refused unperformed: the mirrored headers are out of date (protocol.md §1.9).
                    mirrored_anew = true;
                    let refreshing = self.refresh(ListKind::Tools);
                    match until {
                        Some(until) => drop(timeout_at(until, refreshing).await.map_err(|_| error)??),
                        None => drop(refreshing.await?),
                    }
                }
                done => return done,
            }
        }
    }

    async fn ask_once(
        &self,
        core: &Arc<ConnCore>,
        asking: &Asking<'_>,
        explicit: Option<Duration>,
        (until, now): (Option<Instant>, Option<Instant>),
    ) -> Result<Bytes, CallError> {
        let settings = &self.0.env.settings;
        let param_headers = self.mirrored(core, asking);
        let idle = asking.options.idle_timeout.unwrap_or(match core.is_exchange() {
            true => settings.call_idle_timeout_remote,
            false => settings.call_idle_timeout_local,
        });
        let first_byte = match settings.http_first_byte_timeout {
            Duration::ZERO => Duration::ZERO,
            limit => limit.max(explicit.unwrap_or_default()),
        };
        let clocks =
            Clocks { absolute: until, ..clocks_for(first_byte, idle, Duration::ZERO, asking.started) };
        let outline = Outline {
            method: asking.method,
            params: Cow::Borrowed(&asking.params),
            name: Some(asking.name),
            param_headers,
            wants_progress: true,
            meta: meta_members("", &asking.options),
        };
        let asked = Asked {
            outline,
            params: Cow::Borrowed(&asking.params),
            clocks: first_byte_only_over_http(clocks, core),
            progress: asking.options.progress.clone(),
            started: asking.started,
            now,
        };
        perform(core, asked).await
    }

    /// Waits for a first list of tools, where that says which arguments go into headers.
    async fn await_plan(&self, core: &ConnCore, asking: &Asking<'_>, until: Option<Instant>) {
        if !mirrors(core, asking) {
            return;
        }
        match until {
            Some(until) => drop(timeout_at(until, self.tools()).await),
            None => drop(self.tools().await),
        }
    }

    /// The arguments that go into headers.
    fn mirrored(&self, core: &ConnCore, asking: &Asking<'_>) -> Vec<(String, String)> {
        if !mirrors(core, asking) {
            return Vec::new();
        }
        let snapshot = self.0.snapshot.load();
        let plan = snapshot.tools.list.as_ref().and_then(|list| list.plan(asking.name));
        plan.map(|plan| plan.headers(asking.arguments)).unwrap_or_default()
    }

    /// The first list of tools, which says what goes into headers, is not there yet.
    fn awaits_plan(&self) -> bool {
        matches!(self.0.snapshot.load().tools.state, ToolsState::Fetching | ToolsState::None)
    }

    fn call_timeout(&self) -> Option<Duration> {
        self.0.snapshot.load().server.spec().options.call_timeout_ms.map(Duration::from_millis)
    }

    /// May this request be sent over the next connection? Before acceptance always; after an expired session
    /// once, since the server's answer proves that nothing was performed.
    fn may_go_again(&self, core: &ConnCore, error: &CallError, resent: &mut bool) -> bool {
        let CallError::Lost { reason, delivery } = error else { return false };
        if *delivery == Delivery::NotSent && core.closed().is_some() {
            return !matches!(**reason, CloseReason::Cancelled) || self.0.env.is_open();
        }
        if *delivery == Delivery::NotSent && !core.is_exchange() && is_end(reason) {
            // The pipe is broken although the end of the connection is not known yet: nothing was accepted.
            return self.0.env.is_open();
        }
        let refused = matches!(**reason, CloseReason::SessionExpired { .. });
        refused && !std::mem::replace(resent, true)
    }
}

/// Arguments of this request may go into headers.
fn mirrors(core: &ConnCore, asking: &Asking<'_>) -> bool {
    let modern = core.session().is_some_and(|session| session.era() == Era::Modern);
    modern && core.is_exchange() && asking.method == "tools/call"
}

/// The link is broken, as opposed to full.
fn is_end(reason: &CloseReason) -> bool {
    match reason {
        CloseReason::Ended { .. } => true,
        CloseReason::Io { kind, .. } => {
            matches!(kind, IoKind::BrokenPipe | IoKind::Reset | IoKind::StreamLost | IoKind::Closed)
        }
        _ => false,
    }
}

struct Asking<'a> {
    method: &'static str,
    name: &'a str,
    params: String,
    arguments: &'a str,
    options: CallOptions,
    started: Instant,
    span: &'a Span,
}

impl Asking<'_> {
    fn applicant(&self, until: Option<Instant>) -> Applicant<'_> {
        let (name, caller) = (Some(self.name), self.options.caller.as_ref());
        Applicant { method: self.method, name, caller, until, started: self.started }
    }
}

fn first_byte_only_over_http(clocks: Clocks, core: &ConnCore) -> Clocks {
    match core.is_exchange() {
        true => clocks,
        false => Clocks { first_byte: None, ..clocks },
    }
}

fn push_quoted(out: &mut String, text: &str) {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'"' && b != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&quoted(text));
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The text, once it is known to be one whole JSON object.
fn object<'a>(text: &'a str, what: &str) -> Result<&'a str, CallError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok("{}");
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) if raw.get().starts_with('{') => Ok(text),
        Ok(_) => Err(CallError::Unsupported(format!("{what} are not a JSON object"))),
        Err(error) => Err(CallError::Unsupported(format!("{what} are not JSON: {error}"))),
    }
}

fn is_header_mismatch(error: &CallError) -> bool {
    let rpc = match error {
        CallError::Remote(rpc) => Some(rpc),
        CallError::Lost { reason, .. } => match &**reason {
            CloseReason::Status { rpc, .. } => rpc.as_ref(),
            _ => None,
        },
        _ => None,
    };
    rpc.is_some_and(|rpc| rpc.code == code::HEADER_MISMATCH)
}
