//! The HTTP clients of the process: one for each kind of use, made when first needed, shared by every server.
//!
//! A client for each connection would cost 3 ms and 215 KiB. Nothing here runs for a process that only
//! speaks stdio.

use callboard_core::port::CloseReason;
use parking_lot::Mutex;
use std::time::Duration;

/// What tells clients apart. Connections belong to the runtime that opened them, so it is part of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    runtime: tokio::runtime::Id,
    dial_timeout: Duration,
    roots: Roots,
    versions: Versions,
}

/// Which versions of HTTP a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Versions {
    /// Whichever the server prefers.
    Any,
    /// HTTP/1.1 alone: what a connection must speak to become another protocol.
    Http1,
}

/// Which certificate authorities a client trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those of the system; reading them costs milliseconds.
    System,
    /// None: for plain HTTP without a proxy, which never meets a certificate.
    None,
}

impl Roots {
    /// What requests of this scheme need.
    pub(crate) fn of(url: &reqwest::Url) -> Roots {
        let is_proxied = || {
            let names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
            names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
        };
        if url.scheme() == "http" && !is_proxied() { Roots::None } else { Roots::System }
    }
}

/// Clients that are kept: each runtime of a process needs four at most, and few processes have more than one.
const CLIENTS_MAX: usize = 8;
/// Idle connections kept for one host: as many as calls may be in flight to it, and then some.
const IDLE_PER_HOST_MAX: usize = 256;
/// How long an idle connection is kept. Longer than most servers keep theirs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

static CLIENTS: Mutex<Vec<(Key, reqwest::Client)>> = Mutex::new(Vec::new());

/// The client of the current runtime. Proxies come from the environment (`HTTP_PROXY`, `HTTPS_PROXY`,
/// `ALL_PROXY`, `NO_PROXY`) and trusted roots from the system. It follows no redirects and has no timer but
/// that of the dial (zero is none).
///
/// A request that meets a kept connection which the server has just closed is sent anew by the client only
/// when not a byte of it was written; anything else comes back as an error, since the server may have
/// performed it.
///
/// # Errors
/// When TLS cannot be set up.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) fn shared(dial_timeout: Duration, roots: Roots) -> Result<reqwest::Client, CloseReason> {
    of_key(Key {
        runtime: tokio::runtime::Handle::current().id(),
        dial_timeout,
        roots,
        versions: Versions::Any,
    })
}

/// The client of the current runtime whose connections may be upgraded; all else is as with [`shared`].
///
/// # Errors
/// When TLS cannot be set up.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) fn upgradable(dial_timeout: Duration, roots: Roots) -> Result<reqwest::Client, CloseReason> {
    of_key(Key {
        runtime: tokio::runtime::Handle::current().id(),
        dial_timeout,
        roots,
        versions: Versions::Http1,
    })
}

fn of_key(key: Key) -> Result<reqwest::Client, CloseReason> {
    let mut clients = CLIENTS.lock();
    if let Some((_, client)) = clients.iter().find(|(known, _)| *known == key) {
        return Ok(client.clone());
    }
    let client = build(key)?;
    if clients.len() == CLIENTS_MAX {
        clients.remove(0);
    }
    clients.push((key, client.clone()));
    Ok(client)
}

fn build(key: Key) -> Result<reqwest::Client, CloseReason> {
    let builder = match key.dial_timeout {
        Duration::ZERO => reqwest::Client::builder(),
        dial_timeout => reqwest::Client::builder().connect_timeout(dial_timeout),
    };
    let builder = match key.roots {
        Roots::System => builder,
        Roots::None => builder.tls_certs_only([]),
    };
    let builder = match key.versions {
        Versions::Any => builder,
        Versions::Http1 => builder.http1_only(),
    };
    builder
        .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tcp_nodelay(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .referer(false)
        .build()
        .map_err(|error| crate::http::classify::of_send(error, true))
}
