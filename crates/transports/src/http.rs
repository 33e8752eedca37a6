//! Streamable HTTP in both eras (protocol.md §1.6): every request a POST of its own, answered by JSON or by
//! an event stream; in the legacy era also a session, a standing GET stream and resumed streams.
//!
//! A call runs in its caller's task from the POST to the reply; the link's own tasks are the standing stream
//! and the tails of answers.

mod answer;
pub(crate) mod body;
pub(crate) mod classify;
pub(crate) mod closer;
pub(crate) mod headers;
pub(crate) mod inbox;
pub(crate) mod link;
mod resume;
pub(crate) mod standing;
pub(crate) mod status;
pub(crate) mod stream;

use crate::address::Address;
use crate::client::Clients;
use crate::network::Network;
use callboard_core::port::{CloseReason, DialRequest, HttpSpec, Link, SendHalf};
use closer::HttpCloser;
use headers::Headers;
use inbox::InboxReader;
use link::{HttpLink, HttpLinkParts, HttpSend};
use std::sync::Arc;

/// Makes a link to a streamable HTTP endpoint. Nothing is sent: the first exchange is the first sign of life.
/// Must be called inside the runtime that drives the link.
///
/// # Errors
/// [`CloseReason::Protocol`] when the URL or a header of the entry cannot be used.
pub async fn dial_http(
    request: DialRequest,
    spec: &HttpSpec,
    network: &Arc<Network>,
) -> Result<Link, CloseReason> {
    let link = unconnected(request, spec, network)?;
    Ok(Link {
        send: SendHalf::Exchange(Arc::new(HttpSend(link.clone()))),
        receive: Box::new(InboxReader(link.inbox.clone())),
        closer: Box::new(HttpCloser(link)),
        diagnostics: Arc::new(()),
    })
}

/// What the links over HTTP have in common: a client, prepared headers, an address. Nothing is sent.
///
/// # Errors
/// [`CloseReason::Protocol`] when the URL or a header of the entry cannot be used.
pub(crate) fn unconnected(
    request: DialRequest,
    spec: &HttpSpec,
    network: &Arc<Network>,
) -> Result<Arc<HttpLink>, CloseReason> {
    let address = Address::parse(&spec.url, spec.kind)?;
    let clients = Clients::new(&address, request.settings.http_dial_timeout, network.clone())?;
    // User info in the URL becomes a header, as the library does for requests that it builds itself.
    let built = clients.post(address.url).build().map_err(|error| classify::of_send(error, false))?;
    let headers = Headers::new(built.headers().clone(), spec, request.authenticator)?;
    let endpoint = built.url().clone();
    Ok(HttpLink::new(HttpLinkParts { clients, endpoint, headers, settings: request.settings }))
}
