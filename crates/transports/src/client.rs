//! The HTTP clients of the process: one for each kind of use, made when first needed, shared by every server.
//!
//! A client for each connection would cost 3 ms and 215 KiB. Nothing here runs for a process that only
//! speaks stdio. A Unix-domain socket has a client of its own, since its connections lead nowhere else.

mod answers;

use crate::address::Address;
use crate::http::classify;
use crate::network::Network;
use answers::Answers;
use callboard_core::port::{CloseReason, Unreachable};
use parking_lot::{Mutex, RwLock};
use reqwest::{Request, Response, Url};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What tells clients apart. Connections belong to the runtime that opened them, so it is part of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    runtime: tokio::runtime::Id,
    dial_timeout: Duration,
    network: Arc<Network>,
    authorities: Authorities,
    versions: Versions,
}

impl Key {
    fn new(
        runtime: tokio::runtime::Id,
        url: &Url,
        dial_timeout: Duration,
        network: &Arc<Network>,
        versions: Versions,
    ) -> Key {
        let authorities = Authorities::of(url, network);
        Key { runtime, dial_timeout, network: network.clone(), authorities, versions }
    }
}

/// Which versions of HTTP a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Versions {
    /// Whichever the server prefers.
    Any,
    /// HTTP/1.1 alone: what a connection must speak to become another protocol.
    Http1,
}

/// Which certificate authorities a client trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Authorities {
    /// Those of the system, or what the surroundings name instead and besides; reading them costs milliseconds.
    Given,
    /// None: for plain HTTP without a proxy, which never meets a certificate.
    None,
}

impl Authorities {
    fn of(url: &Url, network: &Network) -> Authorities {
        match network.needs_authorities(url) {
            true => Authorities::Given,
            false => Authorities::None,
        }
    }
}

/// Clients that are kept: each runtime of a process needs four at most, and few processes have more than one.
const CLIENTS_MAX: usize = 8;
/// Idle connections kept for one host: as many as calls may be in flight to it, and then some.
const IDLE_PER_HOST_MAX: usize = 256;
/// How long an idle connection is kept. Longer than most servers keep theirs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// What `localhost` is, whatever the resolver of the system makes of it (RFC 6761 §6.3): many a server listens on
/// one of the two alone. The port is that of the URL.
const LOCALHOST: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0),
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
];

static CLIENTS: Mutex<Vec<(Key, Kept)>> = Mutex::new(Vec::new());

/// A client, and which one it is.
#[derive(Clone)]
struct Kept {
    client: reqwest::Client,
    number: u64,
}

impl Kept {
    fn new(client: reqwest::Client) -> Kept {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Kept { client, number: MADE.fetch_add(1, Ordering::Relaxed) }
    }
}

/// The way to one server: the client for its address, and the one for where a redirect may lead.
pub(crate) struct Clients {
    runtime: tokio::runtime::Id,
    dial_timeout: Duration,
    network: Arc<Network>,
    socket: Option<Arc<Path>>,
    url: Url,
    /// For the scheme of the address.
    first: RwLock<Kept>,
    /// For `https`, when the address is of `http`.
    secure: RwLock<Option<Kept>>,
    answers: Answers,
}

impl Clients {
    /// The clients for an address, on the current runtime. They follow no redirects and have no timer but that of
    /// the dial (zero is none).
    ///
    /// A request that meets a kept connection which the server has just closed is sent anew by the client only
    /// when not a byte of it was written; anything else comes back as an error, since the server may have
    /// performed it.
    ///
    /// # Errors
    /// When TLS cannot be set up, or a proxy of the surroundings cannot be used.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(
        address: &Address,
        dial_timeout: Duration,
        network: Arc<Network>,
    ) -> Result<Clients, CloseReason> {
        let runtime = tokio::runtime::Handle::current().id();
        let first = match &address.socket {
            Some(socket) => Kept::new(of_socket(socket, dial_timeout)?),
            None => kept(Key::new(runtime, &address.url, dial_timeout, &network, Versions::Any))?,
        };
        Ok(Clients {
            runtime,
            dial_timeout,
            network,
            socket: address.socket.clone(),
            url: address.url.clone(),
            first: RwLock::new(first),
            secure: RwLock::default(),
            answers: Answers::default(),
        })
    }

    /// Begins a request, for its headers.
    pub(crate) fn post(&self, url: Url) -> reqwest::RequestBuilder {
        self.first.read().client.post(url)
    }

    /// May a redirect lead from one scheme to another? A socket has but one.
    pub(crate) fn changes_scheme(&self) -> bool {
        self.socket.is_none()
    }

    /// Sends one request.
    ///
    /// # Errors
    /// The classified reason why there is no answer.
    pub(crate) async fn execute(&self, request: Request) -> Result<Response, CloseReason> {
        let is_https = request.url().scheme() == "https";
        if self.answers.take_suspicion() {
            self.renew()?;
        }
        let client = match is_https && self.url.scheme() != "https" {
            true => self.secure(request.url())?,
            false => self.first.read().client.clone(),
        };
        let expected = self.answers.expect(|| self.forget());
        let sent = client.execute(request).await;
        match &sent {
            Ok(_) => expected.answered(),
            Err(_) => expected.failed(),
        }
        sent.map_err(|error| {
            let reason = classify::of_send(error, is_https);
            match &self.socket {
                Some(socket) => at_socket(reason, socket),
                None => reason,
            }
        })
    }

    fn secure(&self, url: &Url) -> Result<reqwest::Client, CloseReason> {
        if let Some(kept) = &*self.secure.read() {
            return Ok(kept.client.clone());
        }
        let made = kept(self.key(url))?;
        Ok(self.secure.write().insert(made).client.clone())
    }

    fn key(&self, url: &Url) -> Key {
        Key::new(self.runtime, url, self.dial_timeout, &self.network, Versions::Any)
    }

    /// Nobody who comes is given these clients any more; who has them keeps them for as long as he is answered.
    fn forget(&self) {
        let first = self.first.read().number;
        let secure = self.secure.read().as_ref().map(|kept| kept.number);
        CLIENTS.lock().retain(|(_, kept)| kept.number != first && Some(kept.number) != secure);
    }

    /// Leaves all connections behind.
    fn renew(&self) -> Result<(), CloseReason> {
        let first = match &self.socket {
            Some(socket) => Kept::new(of_socket(socket, self.dial_timeout)?),
            None => kept(self.key(&self.url))?,
        };
        *self.first.write() = first;
        *self.secure.write() = None;
        Ok(())
    }
}

/// The shared client of the current runtime for such a URL.
///
/// # Errors
/// When TLS cannot be set up, or a proxy of the surroundings cannot be used.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) fn shared(
    url: &Url,
    dial_timeout: Duration,
    network: &Arc<Network>,
    versions: Versions,
) -> Result<reqwest::Client, CloseReason> {
    let runtime = tokio::runtime::Handle::current().id();
    kept(Key::new(runtime, url, dial_timeout, network, versions)).map(|kept| kept.client)
}

fn kept(key: Key) -> Result<Kept, CloseReason> {
    let mut clients = CLIENTS.lock();
    if let Some((_, kept)) = clients.iter().find(|(known, _)| *known == key) {
        return Ok(kept.clone());
    }
    let kept = Kept::new(build(&key)?);
    if clients.len() == CLIENTS_MAX {
        clients.remove(0);
    }
    clients.push((key, kept.clone()));
    Ok(kept)
}

fn build(key: &Key) -> Result<reqwest::Client, CloseReason> {
    // The library would read the variables of the process by itself.
    let builder =
        key.network.proxies()?.into_iter().fold(plain(key.dial_timeout).no_proxy(), |b, p| b.proxy(p));
    let builder = match key.authorities {
        Authorities::None => builder.tls_certs_only([]),
        Authorities::Given => {
            let extra = key.network.extra_authorities();
            match key.network.authorities()? {
                Some(authorities) => builder.tls_certs_only(authorities.into_iter().chain(extra)),
                None if extra.is_empty() => builder,
                None => builder.tls_certs_merge(extra),
            }
        }
    };
    let builder = match key.versions {
        Versions::Any => builder,
        Versions::Http1 => builder.http1_only(),
    };
    builder.build().map_err(|error| classify::of_send(error, true))
}

fn plain(dial_timeout: Duration) -> reqwest::ClientBuilder {
    let builder = match dial_timeout {
        Duration::ZERO => reqwest::Client::builder(),
        dial_timeout => reqwest::Client::builder().connect_timeout(dial_timeout),
    };
    builder
        .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tcp_nodelay(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .referer(false)
        .resolve_to_addrs("localhost", &LOCALHOST)
}

/// A client whose connections all go to this socket. No proxy applies, and no certificate is met.
#[cfg(unix)]
fn of_socket(socket: &Path, dial_timeout: Duration) -> Result<reqwest::Client, CloseReason> {
    let builder = plain(dial_timeout).no_proxy().tls_certs_only([]).unix_socket(socket);
    builder.build().map_err(|error| classify::of_send(error, false))
}

#[cfg(not(unix))]
fn of_socket(_socket: &Path, _dial_timeout: Duration) -> Result<reqwest::Client, CloseReason> {
    Err(CloseReason::Protocol("Unix-domain sockets are not to be had on this system".into()))
}

/// A failed connect with the path it failed at. Nobody listens where there is no socket.
fn at_socket(reason: CloseReason, socket: &Path) -> CloseReason {
    match reason {
        CloseReason::Unreachable { kind, message } => {
            let kind = match kind {
                Unreachable::NoRoute => Unreachable::Refused,
                Unreachable::Dns
                | Unreachable::Refused
                | Unreachable::TimedOut
                | Unreachable::Tls
                | Unreachable::Proxy => kind,
            };
            CloseReason::Unreachable { kind, message: format!("the socket {}: {message}", socket.display()) }
        }
        other => other,
    }
}
