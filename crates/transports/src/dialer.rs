//! The dialer of every transport.

use crate::http::dial_http;
use callboard_core::port::{BoxFuture, CloseReason, DialRequest, Dialer, Link, RemoteKind, TransportSpec};

/// Dials every transport that this crate speaks.
#[derive(Debug, Clone, Default)]
pub struct Transports {}

impl Transports {
    /// A dialer.
    pub fn new() -> Transports {
        Transports {}
    }
}

impl Dialer for Transports {
    fn dial(&self, request: DialRequest) -> BoxFuture<'static, Result<Link, CloseReason>> {
        Box::pin(async move {
            let transport = request.server.spec().transport.clone();
            match transport {
                TransportSpec::Http(spec) => match spec.kind {
                    RemoteKind::Streamable | RemoteKind::Probe => dial_http(request, &spec).await,
                    RemoteKind::Sse | RemoteKind::WebSocket => Err(CloseReason::Protocol(format!(
                        "the {} transport is not built into this version",
                        spec.kind.as_str()
                    ))),
                },
                TransportSpec::Stdio(spec) => unmerged::dial_stdio(request, spec).await,
                TransportSpec::InProcess(spec) => unmerged::dial_in_process(request, spec).await,
            }
        })
    }
}

/// MERGE: replace by `crate::stdio::dial_stdio(request, spec)` and
/// `crate::in_process::dial_in_process(request, spec, &servers)` and delete this module.
mod unmerged {
    use callboard_core::port::{CloseReason, DialRequest, InProcessSpec, Link, StdioSpec};

    pub(super) async fn dial_stdio(_: DialRequest, spec: StdioSpec) -> Result<Link, CloseReason> {
        let message = "the stdio transport is not merged yet".to_owned();
        Err(CloseReason::Spawn { command: spec.command, message, not_found: false })
    }

    pub(super) async fn dial_in_process(_: DialRequest, spec: InProcessSpec) -> Result<Link, CloseReason> {
        let message = "the in-process transport is not merged yet".to_owned();
        Err(CloseReason::Spawn { command: spec.key, message, not_found: false })
    }
}
