//! One streamable HTTP link: what its exchanges, its standing stream and its closer share.

use super::body;
use super::headers::Headers;
use super::inbox::Inbox;
use super::{answer, standing, status};
use crate::client::Clients;
use bytes::Bytes;
use callboard_core::port::{BoxFuture, CloseReason, Exchange, ExchangeSend, IoKind, Negotiated};
use callboard_core::settings::Settings;
use callboard_protocol::{Decoded, Era, Frame, ProtocolVersion, Reply};
use parking_lot::{Mutex, RwLock};
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

/// Acknowledgements that may be waited for at once, beside the POSTs of requests: a cancellation never
/// waits behind the calls it is to end.
const NOTICES_MAX: usize = 16;
/// Redirects that one request follows.
const HOPS_MAX: usize = 3;

/// What the parts of one link share.
pub(crate) struct HttpLink {
    clients: Clients,
    /// Where requests go; a permanent redirect moves it.
    pub(crate) endpoint: RwLock<Url>,
    pub(crate) headers: Headers,
    pub(crate) settings: Arc<Settings>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) gate: standing::Gate,
    posts: Semaphore,
    notices: Semaphore,
    is_closed: AtomicBool,
    closed: Notify,
    tasks: Mutex<JoinSet<()>>,
}

/// What a link is made of.
pub(crate) struct HttpLinkParts {
    pub(crate) clients: Clients,
    pub(crate) endpoint: Url,
    pub(crate) headers: Headers,
    pub(crate) settings: Arc<Settings>,
}

impl HttpLink {
    /// A link that has sent nothing yet. Must be called inside the runtime that will drive it.
    pub(crate) fn new(parts: HttpLinkParts) -> Arc<HttpLink> {
        Arc::new(HttpLink {
            clients: parts.clients,
            endpoint: RwLock::new(parts.endpoint),
            headers: parts.headers,
            inbox: Inbox::new(parts.settings.wire_frame_bytes_max),
            runtime: tokio::runtime::Handle::current(),
            gate: standing::Gate::new(),
            posts: Semaphore::new(parts.settings.http_posts_max.clamp(1, Semaphore::MAX_PERMITS)),
            notices: Semaphore::new(NOTICES_MAX),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
            tasks: Mutex::new(JoinSet::new()),
            settings: parts.settings,
        })
    }

    /// Stops everything: exchanges end as cancelled, background work is aborted, nothing new starts.
    /// Returns the work that is ending, to be waited for.
    pub(crate) fn stop(&self) -> JoinSet<()> {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closed.notify_waiters();
        self.inbox.end(CloseReason::Cancelled);
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.abort_all();
        tasks
    }

    /// Was the link closed on this side?
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Runs background work that ends with the link.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        // Under the lock that `stop` takes after raising the flag: no task can slip past it.
        if !self.is_closed.load(Ordering::SeqCst) {
            tasks.spawn_on(work, &self.runtime);
        }
    }

    /// Runs `work` until it ends, the link is closed or `limit` has passed (zero is no limit).
    async fn bounded<T>(
        &self,
        limit: Duration,
        setting: &'static str,
        work: impl Future<Output = Result<T, CloseReason>>,
    ) -> Result<T, CloseReason> {
        let closed = self.closed.notified();
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(CloseReason::Cancelled);
        }
        let out_of_time = async {
            match limit {
                Duration::ZERO => std::future::pending().await,
                limit => tokio::time::sleep(limit).await,
            }
        };
        tokio::select! {
            biased;
            () = closed => Err(CloseReason::Cancelled),
            result = work => result,
            () = out_of_time => Err(CloseReason::Io {
                kind: IoKind::TimedOut,
                message: format!("no whole answer within {} ms ({setting})", limit.as_millis()),
            }),
        }
    }

    async fn ask(self: &Arc<Self>, exchange: Exchange) -> Result<Reply, CloseReason> {
        let Exchange { id, frame, headers, activity, is_listen, may_ask_back } = exchange;
        let frame = Bytes::from(frame);
        let agreement = self.headers.agreement();
        let is_initialize = agreement.is_none() && is_initialize(&frame);
        if is_initialize {
            self.headers.forget_session();
        }
        // A listen stream is open for hours and must not take a place from calls.
        let _place = match (is_listen, self.posts.try_acquire()) {
            (true, _) => None,
            (false, Ok(place)) => Some(place),
            (false, Err(_)) => Some(self.posts.acquire().await.map_err(|_| CloseReason::Cancelled)?),
        };
        if may_ask_back {
            self.gate.pass().await;
        }
        let sent_session = self.headers.has_session();
        let response = self.send(Method::POST, Some(frame), || self.headers.for_post(&headers)).await?;
        activity.active(id);
        if !response.status().is_success() {
            return Err(self.refusal(response, sent_session).await);
        }
        if is_initialize {
            self.headers.capture_session(response.headers());
        }
        let may_resume = match agreement {
            Some(agreed) => has_streams(&agreed),
            None => is_initialize,
        };
        let asker = answer::Asker { link: self, id, activity: &*activity, may_resume };
        asker.read(response).await
    }

    async fn tell(&self, frame: Vec<u8>, headers: Vec<(String, String)>) -> Result<(), CloseReason> {
        let _place = self.notices.acquire().await.map_err(|_| CloseReason::Cancelled)?;
        let sent_session = self.headers.has_session();
        let frame = Bytes::from(frame);
        let response = self.send(Method::POST, Some(frame), || self.headers.for_post(&headers)).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response, sent_session).await);
        }
        if let Some(unfinished) = body::drain_now(response) {
            self.spawn(body::drain(unfinished));
        }
        Ok(())
    }

    /// The reason behind an answer without success.
    pub(crate) async fn refusal(&self, response: Response, sent_session: bool) -> CloseReason {
        let session = sent_session.then_some(self.settings.session_expired_rule);
        let reason = status::refusal(response, session, self.settings.wire_error_body_bytes_max).await;
        if matches!(reason, CloseReason::SessionExpired { .. }) {
            self.headers.expire_session();
        }
        reason
    }

    /// Sends a request and follows redirects that stay on the origin, method and body kept. Nothing is ever
    /// sent to another origin.
    pub(crate) async fn send(
        &self,
        method: Method,
        body: Option<Bytes>,
        headers: impl Fn() -> Result<HeaderMap, CloseReason>,
    ) -> Result<Response, CloseReason> {
        let mut url = self.endpoint.read().clone();
        let mut hops = 0;
        loop {
            let mut request = reqwest::Request::new(method.clone(), url.clone());
            *request.headers_mut() = headers()?;
            *request.body_mut() = body.clone().map(Into::into);
            let response = self.clients.execute(request).await?;
            let Some(target) = redirect_target(&response, &url) else { return Ok(response) };
            let status = response.status();
            let is_near = is_same_origin(&url, &target)
                && (url.scheme() == target.scheme() || self.clients.changes_scheme());
            if hops == HOPS_MAX || !is_followed(status) || !is_near {
                let location = callboard_protocol::masked_url(target.as_str());
                return Err(CloseReason::Redirect { status: status.as_u16(), location });
            }
            if status == StatusCode::PERMANENT_REDIRECT {
                *self.endpoint.write() = target.clone();
            }
            body::drain_now(response);
            url = target;
            hops += 1;
        }
    }
}

/// Has this agreement GET streams, standing or resumed?
pub(crate) fn has_streams(agreed: &Negotiated) -> bool {
    agreed.era == Era::Legacy && agreed.version >= ProtocolVersion::V2025_03_26
}

fn is_initialize(frame: &Bytes) -> bool {
    let decoded = callboard_protocol::decode(frame);
    matches!(decoded, Decoded::One(Frame::Request(request)) if request.method == "initialize")
}

/// Where an answer redirects to, if it does.
fn redirect_target(response: &Response, from: &Url) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?;
    from.join(std::str::from_utf8(location.as_bytes()).ok()?).ok()
}

/// 301, 302 and 303 would turn a POST into a GET.
fn is_followed(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// The same origin, or the same host moved from http to https.
fn is_same_origin(from: &Url, to: &Url) -> bool {
    let ports = (from.port_or_known_default(), to.port_or_known_default());
    let is_upgrade = from.scheme() == "http"
        && to.scheme() == "https"
        && (ports == (Some(80), Some(443)) || ports.0 == ports.1);
    from.host() == to.host() && ((from.scheme() == to.scheme() && ports.0 == ports.1) || is_upgrade)
}

/// The send half of a link.
pub(crate) struct HttpSend(pub(crate) Arc<HttpLink>);

impl ExchangeSend for HttpSend {
    fn exchange(&self, exchange: Exchange) -> BoxFuture<'static, Result<Reply, CloseReason>> {
        let link = self.0.clone();
        Box::pin(async move {
            let limit = match exchange.is_listen {
                true => Duration::ZERO,
                false => link.settings.http_post_total_timeout,
            };
            link.bounded(limit, "http.post_total_timeout_ms", link.ask(exchange)).await
        })
    }

    fn notify(
        &self,
        frame: Vec<u8>,
        headers: Vec<(String, String)>,
    ) -> BoxFuture<'static, Result<(), CloseReason>> {
        let link = self.0.clone();
        Box::pin(async move {
            let limit = link.settings.http_first_byte_timeout;
            link.bounded(limit, "http.first_byte_timeout_ms", link.tell(frame, headers)).await
        })
    }

    fn negotiated(&self, negotiated: &Negotiated) {
        let is_first = self.0.headers.agreement().is_none();
        self.0.headers.negotiated(negotiated);
        if is_first && has_streams(negotiated) {
            self.0.gate.close();
            self.0.spawn(standing::run(self.0.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        for (from, to, is_same) in [
            ("http://h/a", "http://h/b", true),
            ("http://h:80/a", "http://h/b", true),
            ("http://h/a", "https://h/a", true),
            ("http://h:8080/a", "https://h:8080/a", true),
            ("http://h:8080/a", "https://h/a", false),
            ("https://h/a", "http://h/a", false),
            ("http://h/a", "http://i/a", false),
            ("http://h/a", "http://h:81/a", false),
        ] {
            let url = |text: &str| Url::parse(text).expect("a URL");
            assert_eq!(is_same_origin(&url(from), &url(to)), is_same, "{from} -> {to}");
        }
    }
}
