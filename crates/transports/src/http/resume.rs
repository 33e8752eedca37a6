//! Resuming the broken stream of a request (2025-03-26 to 2025-11-25): a GET with `Last-Event-ID`, whatever
//! opened the stream.

use super::answer::{Asker, Seen, StreamEnd};
use super::standing::open;
use callboard_core::port::{CloseReason, IoKind};
use callboard_protocol::Reply;
use std::time::Duration;

/// The gap before a resume when the stream did not ask for one.
const GAP: Duration = Duration::from_secs(1);
/// The gap doubles up to this, unless the stream asked for a longer one.
const GAP_MAX: Duration = Duration::from_secs(30);
/// Attempts in a row that may fail.
const FAILURES_MAX: u32 = 5;
/// Resumed streams in a row that may end without anything new.
const EMPTY_MAX: u32 = 3;

/// Resumes until the reply comes, the server refuses, or attempts bring nothing new. A clean end of a
/// stream is as good as a break: servers end streams to save connections and expect to be polled.
pub(crate) async fn resume(asker: &Asker<'_>, mut seen: Seen) -> Result<Reply, CloseReason> {
    let mut failures = 0;
    let mut empty = 0;
    while failures < FAILURES_MAX && empty < EMPTY_MAX {
        let asked = seen.retry.unwrap_or(GAP);
        let doubled = asked.saturating_mul(1 << (failures + empty));
        tokio::time::sleep(doubled.min(GAP_MAX).max(asked)).await;
        let before = (seen.last_event_id.clone(), seen.messages);
        let stream = match open(asker.link, seen.last_event_id.as_deref()).await {
            Ok(stream) => stream,
            Err(reason) if is_final(&reason) => {
                if matches!(reason, CloseReason::SessionExpired { .. }) {
                    asker.link.headers.expire_session();
                }
                return Err(reason);
            }
            Err(CloseReason::Status { status, .. }) if status < 500 && status != 429 => {
                return Err(given_up(&format!("the server answered HTTP {status}")));
            }
            Err(CloseReason::NotRpc { content_type, .. }) => {
                return Err(given_up(&format!("the server answered with {content_type}")));
            }
            Err(_) => {
                failures += 1;
                continue;
            }
        };
        match asker.read_stream(stream, &mut seen).await {
            StreamEnd::Reply(reply) => return Ok(reply),
            StreamEnd::Fatal(reason) => return Err(reason),
            StreamEnd::Open(_) if (&seen.last_event_id, seen.messages) != (&before.0, before.1) => {
                failures = 0;
                empty = 0;
            }
            StreamEnd::Open(_) => empty += 1,
        }
    }
    Err(given_up("the resumed stream brought nothing new"))
}

/// Reasons that say more than that the stream is lost.
fn is_final(reason: &CloseReason) -> bool {
    matches!(
        reason,
        CloseReason::SessionExpired { .. }
            | CloseReason::AuthRequired { .. }
            | CloseReason::InsufficientScope { .. }
            | CloseReason::Redirect { .. }
            | CloseReason::Protocol(_)
    )
}

fn given_up(why: &str) -> CloseReason {
    CloseReason::Io { kind: IoKind::ResumeGivenUp, message: why.to_owned() }
}
