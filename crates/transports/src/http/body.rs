//! Reading bodies within their limits.

use bytes::{Bytes, BytesMut};
use callboard_core::port::CloseReason;
use futures_util::FutureExt;
use reqwest::Response;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the start of an error's body is waited for.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long what follows a reply is read, so that its connection can be used again.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);
/// How much of a body that nobody wants is read for the sake of its connection, in bytes.
const DRAIN_BYTES_MAX: usize = 64 * 1024;

/// Reads a whole body of at most `limit` bytes; `on_bytes` is told of every piece.
///
/// # Errors
/// When the body is larger, which may show before any of it is read, or breaks.
pub(crate) async fn read_whole(
    response: &mut Response,
    limit: usize,
    on_bytes: impl Fn(),
) -> Result<Bytes, CloseReason> {
    let announced = response.content_length().unwrap_or(0);
    if announced > limit as u64 {
        return Err(CloseReason::TooLarge { limit });
    }
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    // At the announced length there is nothing left to wait for; asking for the end would cost one more turn.
    let is_complete = |read: usize| announced > 0 && read as u64 == announced;
    while !is_complete(first.len().max(joined.len()))
        && let Some(chunk) = response.chunk().await.map_err(|error| super::classify::of_body(&error))?
    {
        on_bytes();
        let so_far = first.len().max(joined.len());
        if so_far + chunk.len() > limit {
            return Err(CloseReason::TooLarge { limit });
        }
        if so_far == 0 {
            first = chunk;
            continue;
        }
        if joined.is_empty() {
            joined.reserve((announced as usize).max(first.len() + chunk.len()));
            joined.extend_from_slice(&first);
        }
        joined.extend_from_slice(&chunk);
    }
    Ok(if joined.is_empty() { first } else { joined.freeze() })
}

/// The first `limit` bytes of a body, or what has come of them when it breaks or stalls.
pub(crate) async fn read_start(mut response: Response, limit: usize) -> Bytes {
    let deadline = Instant::now() + ERROR_BODY_TIMEOUT;
    let mut start = BytesMut::new();
    while start.len() < limit {
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(chunk))) => start.extend_from_slice(&chunk[..chunk.len().min(limit - start.len())]),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    start.freeze()
}

/// Reads a body that nobody wants to its end, when it ends soon.
pub(crate) async fn drain(mut response: Response) {
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    let mut read = 0;
    while let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await {
        read += chunk.len();
        if read > DRAIN_BYTES_MAX {
            return;
        }
    }
}

/// Drains what is there already; gives the response back when more is to come.
pub(crate) fn drain_now(mut response: Response) -> Option<Response> {
    let mut read = 0;
    loop {
        match response.chunk().now_or_never() {
            Some(Ok(Some(chunk))) => read += chunk.len(),
            Some(Ok(None) | Err(_)) => return None,
            None => return Some(response),
        }
        if read > DRAIN_BYTES_MAX {
            return None;
        }
    }
}
