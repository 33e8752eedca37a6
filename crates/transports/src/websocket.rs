//! WebSocket: a binding of our own (protocol.md §1.6), one JSON-RPC message or batch in each text or binary
//! message.
//!
//! The HTTP client makes the connection and asks for the upgrade, so proxies, certificates and the reading of
//! refusals are those of HTTP. The task that polls the receive half drives both directions.

mod closer;
mod incoming;
mod limit;
mod outbox;
mod receive;
mod silence;
mod tunnel;
mod upgrade;

use crate::network::Network;
use callboard_core::port::{CloseReason, DialRequest, HttpSpec, Link, SendHalf};
use closer::WebSocketCloser;
use incoming::Incoming;
use outbox::Outbox;
use parking_lot::Mutex;
use receive::WebSocketReceive;
use silence::Silence;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// What an idle connection keeps for reading, and gathers before it writes, in bytes.
const BUFFER_BYTES: usize = 8 * 1024;

type Socket = WebSocketStream<Incoming<reqwest::Upgraded>>;

/// What the halves and the closer of one link share.
struct Shared {
    outbox: Outbox,
    open: Mutex<Open>,
}

/// The socket, until the closer takes it, and how it is to be closed.
struct Open {
    socket: Option<Socket>,
    code: CloseCode,
}

/// Opens a WebSocket to the entry's URL (`ws`, `wss`, or their HTTP spellings) and offers the subprotocol
/// `mcp`. Must be called inside the runtime that drives the link.
///
/// # Errors
/// Why there is none: the address, the way to it, or the server's refusal as over HTTP.
pub async fn dial_websocket(
    request: DialRequest,
    spec: &HttpSpec,
    network: &Arc<Network>,
) -> Result<Link, CloseReason> {
    let began = Instant::now();
    let (deadline, frame_bytes_max) = (request.deadline, request.settings.wire_frame_bytes_max);
    let silence = (request.settings.websocket_ping, request.settings.websocket_pong_timeout);
    let upgraded =
        timeout_at(deadline, upgrade::upgrade(request, spec, network)).await.unwrap_or_else(|_| {
            Err(CloseReason::ConnectTimedOut { after: began.elapsed(), stderr_tail: String::new() })
        })?;
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_message_size(Some(frame_bytes_max))
        .max_frame_size(Some(frame_bytes_max));
    let socket = WebSocketStream::from_raw_socket(
        Incoming::new(upgraded, frame_bytes_max),
        Role::Client,
        Some(config),
    )
    .await;
    let shared = Arc::new(Shared {
        outbox: Outbox::new(frame_bytes_max),
        open: Mutex::new(Open { socket: Some(socket), code: CloseCode::Normal }),
    });
    Ok(Link {
        send: SendHalf::Duplex(Arc::new(outbox::WebSocketSend(shared.clone()))),
        receive: Box::new(WebSocketReceive::new(
            shared.clone(),
            frame_bytes_max,
            Silence::new(silence.0, silence.1),
        )),
        closer: Box::new(WebSocketCloser(shared)),
        diagnostics: Arc::new(()),
    })
}
