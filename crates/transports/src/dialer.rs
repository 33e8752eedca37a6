//! The dialer of every transport.

use crate::http::dial_http;
use crate::in_process::{InProcessServers, dial_in_process};
use crate::legacy_sse::dial_sse;
use crate::stdio::dial_stdio;
use crate::websocket::dial_websocket;
use callboard_core::port::{BoxFuture, CloseReason, DialRequest, Dialer, Link, RemoteKind, TransportSpec};

/// Dials every transport that this crate speaks.
#[derive(Debug, Clone, Default)]
pub struct Transports {
    in_process: InProcessServers,
}

impl Transports {
    /// A dialer that finds in-process servers in this table.
    pub fn new(in_process: InProcessServers) -> Transports {
        Transports { in_process }
    }
}

impl Dialer for Transports {
    fn dial(&self, request: DialRequest) -> BoxFuture<'static, Result<Link, CloseReason>> {
        let in_process = self.in_process.clone();
        Box::pin(async move {
            let transport = request.server.spec().transport.clone();
            match transport {
                TransportSpec::Http(spec) => match spec.kind {
                    RemoteKind::Streamable | RemoteKind::Probe => dial_http(request, &spec).await,
                    RemoteKind::Sse => dial_sse(request, &spec).await,
                    RemoteKind::WebSocket => dial_websocket(request, &spec).await,
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
                Some(Box::pin(async move { dial_sse(request, &spec).await }))
            }
            TransportSpec::Http(_) | TransportSpec::Stdio(_) | TransportSpec::InProcess(_) => None,
        }
    }
}
