//! A tool call, a prompt or a resource, with all that may lie between the question and the answer: rounds of
//! input, elicitations that must come first, headers that were out of date.

use crate::ask;
use crate::call::{CallError, Clock};
use crate::conn_core::{ConnCore, Outgoing};
use crate::dialect::Outline;
use crate::pending::Clocks;
use crate::port::Delivery;
use bytes::Bytes;
use callboard_protocol::message::{InputRequired, ResultKind};
use callboard_protocol::{Era, code, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Rounds of input that one request may take (`patterns/mrtr` gives no bound; the field uses 10).
const ROUNDS_MAX: usize = 10;
/// Pause before a round that only echoes a state.
const ROUND_GAP: Duration = Duration::from_millis(250);

/// Sends one of the three requests that may ask back, until it is answered for good.
///
/// # Errors
/// As [`ConnCore::request`]; [`CallError::InputNeeded`] when nobody here can give what is asked for.
pub(crate) async fn perform(core: &Arc<ConnCore>, mut asked: Asked<'_>) -> Result<Bytes, CallError> {
    let session = core.session().ok_or(CallError::Closed)?;
    let (mut rounds, mut urls_done) = (0, false);
    loop {
        let outgoing = Outgoing {
            outline: asked.outline.clone(),
            clocks: asked.clocks,
            progress: asked.progress.clone(),
            is_listen: false,
            started: asked.now.take().unwrap_or_else(Instant::now),
            early_headers: Vec::new(),
        };
        let raw = match core.request(&*session.dialect, outgoing).await {
            // What the server did in the rounds before is not known, so nobody may begin with the first one again.
            Err(CallError::Lost { reason, delivery: Delivery::NotSent }) if rounds > 0 => {
                return Err(CallError::Lost { reason, delivery: Delivery::Unknown });
            }
            Err(error) => match url_elicitations(&error).filter(|_| !urls_done) {
                Some(data) => {
                    let asked_at = Instant::now();
                    if !core.while_open(ask::required_urls(core, &data)).await? {
                        return Err(error);
                    }
                    asked.clocks.put_off(asked_at.elapsed());
                    urls_done = true;
                    continue;
                }
                None => return Err(error),
            },
            Ok(raw) if session.era() == Era::Legacy => return Ok(raw),
            Ok(raw) => raw,
        };
        let input = match ResultKind::of(json::text(&raw)) {
            ResultKind::Complete => return Ok(raw),
            ResultKind::Unknown(kind) => {
                return Err(CallError::Invalid(format!("unknown resultType {kind}")));
            }
            ResultKind::InputRequired(input) => input,
        };
        rounds += 1;
        if rounds > ROUNDS_MAX {
            return Err(CallError::InputNeeded(format!("still asking after {ROUNDS_MAX} rounds")));
        }
        match asked.answer(core, &input).await {
            Err(CallError::Lost { reason, .. }) => {
                return Err(CallError::Lost { reason, delivery: Delivery::Unknown });
            }
            answered => answered?,
        }
    }
}

/// The raw data of a 2025-11-25 error that names elicitations which must be done first.
fn url_elicitations(error: &CallError) -> Option<String> {
    match error {
        CallError::Remote(error) if error.code == code::URL_ELICITATION_REQUIRED => {
            error.data.as_ref().map(|data| json::text(data).to_owned())
        }
        _ => None,
    }
}

/// A request that may ask back.
pub(crate) struct Asked<'a> {
    pub outline: Outline<'a>,
    /// The raw params without answers and state.
    pub params: Cow<'a, str>,
    pub clocks: Clocks,
    pub progress: Option<crate::call::ProgressSink>,
    pub started: Instant,
    /// The present moment, if it is known without asking the clock.
    pub now: Option<Instant>,
}

impl Asked<'_> {
    /// Gets the answers and writes them, and the state byte for byte, into the next round's params.
    async fn answer(&mut self, core: &Arc<ConnCore>, input: &InputRequired) -> Result<(), CallError> {
        let mut members = String::new();
        if input.requests.is_empty() {
            let gap_ends = Instant::now() + ROUND_GAP;
            sleep_until(self.clocks.absolute.map_or(gap_ends, |at| at.min(gap_ends))).await;
        } else {
            let asked_at = Instant::now();
            let responses = core.while_open(ask::modern(core, input)).await??;
            // A person took this time, not the server.
            self.clocks.put_off(asked_at.elapsed());
            members = format!(r#","inputResponses":{{{responses}}}"#);
        }
        if let Some(state) = &input.state {
            members.push_str(r#","requestState":"#);
            members.push_str(state.get());
        }
        if self.clocks.absolute.is_some_and(|at| at <= Instant::now()) {
            return Err(CallError::TimedOut {
                what: self.outline.method.to_owned(),
                clock: Clock::Absolute,
                elapsed: self.started.elapsed(),
                delivery: Delivery::Unknown,
                unmatched: 0,
            });
        }
        let params = self.params.trim_end().strip_suffix('}').unwrap_or("{").to_owned();
        self.outline.params = Cow::Owned(format!("{params}{members}}}"));
        Ok(())
    }
}
