//! The dialer of every transport.

use crate::http::dial_http;
use crate::in_process::{InProcessServers, dial_in_process};
use crate::legacy_sse::dial_sse;
use crate::network::Network;
use crate::stdio::dial_stdio;
use crate::websocket::dial_websocket;
use callboard_core::port::{
    BoxFuture, CloseReason, DialRequest, Dialer, HttpSpec, Link, RemoteKind, TransportSpec,
};
use std::sync::Arc;

/// Dials every transport that this crate speaks.
#[derive(Debug, Clone)]
pub struct Transports {
    in_process: InProcessServers,
    network: Arc<Network>,
}

impl Transports {
    /// A dialer that finds in-process servers in this table, with the proxies and certificate authorities that the
    /// variables of this process name.
    pub fn new(in_process: InProcessServers) -> Transports {
        Transports { in_process, network: Arc::new(Network::of_process()) }
    }

    /// The same with these proxies and certificate authorities.
    pub fn with_network(mut self, network: Network) -> Transports {
        self.network = Arc::new(network);
        self
    }
}

impl Default for Transports {
    fn default() -> Transports {
        Transports::new(InProcessServers::default())
    }
}

impl Dialer for Transports {
    fn dial(&self, request: DialRequest) -> BoxFuture<'static, Result<Link, CloseReason>> {
        let (in_process, network) = (self.in_process.clone(), self.network.clone());
        Box::pin(async move {
            let transport = request.server.spec().transport.clone();
            match transport {
                TransportSpec::Http(spec) => match spec.kind {
                    RemoteKind::Streamable | RemoteKind::Probe => dial_http(request, &spec, &network).await,
                    RemoteKind::Sse | RemoteKind::SseIde => dial_sse(request, &spec, &network).await,
                    RemoteKind::WebSocket | RemoteKind::WebSocketIde => {
                        dial_websocket(request, &spec, &network).await
                    }
                },
                TransportSpec::Stdio(spec) => dial_stdio(&request, &spec).await,
                TransportSpec::InProcess(spec) => dial_in_process(&request, &spec, &in_process).await,
            }
        })
    }

    /// An address without a type may also be that of an HTTP+SSE server (protocol.md §1.2, config-formats.md §4.3).
    fn dial_fallback(&self, request: DialRequest) -> Option<BoxFuture<'static, Result<Link, CloseReason>>> {
        match request.server.spec().transport.clone() {
            TransportSpec::Http(spec) if spec.kind == RemoteKind::Probe => {
                let network = self.network.clone();
                Some(Box::pin(async move {
                    // A socket without a path means the usual path of the other form then.
                    let spec = HttpSpec { kind: RemoteKind::Sse, ..spec };
                    dial_sse(request, &spec, &network).await
                }))
            }
            TransportSpec::Http(_) | TransportSpec::Stdio(_) | TransportSpec::InProcess(_) => None,
        }
    }
}
