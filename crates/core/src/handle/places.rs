//! Waiting for a place among the calls in flight, and for the end of a hold.

use super::ConnHandle;
use crate::call::{CallError, Clock};
use crate::gate::{Full, GateView, Need, Place};
use crate::port::Delivery;
use crate::status::CallsView;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until};

/// Who waits, for what and for how long.
pub(super) struct Applicant<'a> {
    pub method: &'a str,
    pub name: Option<&'a str>,
    pub caller: Option<&'a Arc<str>>,
    pub until: Option<Instant>,
    pub started: Instant,
}

impl ConnHandle {
    /// The server's calls at this moment.
    pub fn calls(&self) -> CallsView {
        let GateView { in_flight, in_flight_max, queued, held } = self.0.gate.view();
        let snapshot = self.0.snapshot.load();
        CallsView {
            in_flight,
            queued,
            in_flight_max,
            held_for_ms: held.map(|(left, _)| left.as_millis() as u64),
            strikes: snapshot.core.as_ref().map_or(0, |core| core.strikes()),
        }
    }

    /// Waits for a place. A connection that ends meanwhile changes nothing, a server that is given up does.
    pub(super) async fn place(&self, applicant: &Applicant<'_>) -> Result<Place<'_>, CallError> {
        match self.wait_in_line(applicant, Need::Place).await? {
            Some(place) => Ok(place),
            None => Err(CallError::Closed),
        }
    }

    /// Waits until the server may be asked anything again, if it has asked to be left alone.
    pub(super) async fn leave(&self, applicant: &Applicant<'_>) -> Result<(), CallError> {
        match self.0.gate.is_held() {
            true => self.wait_in_line(applicant, Need::Leave).await.map(drop),
            false => Ok(()),
        }
    }

    async fn wait_in_line(
        &self,
        applicant: &Applicant<'_>,
        need: Need,
    ) -> Result<Option<Place<'_>>, CallError> {
        // Enabled before each look, so that no change between the two is missed.
        let mut changed = Box::pin(self.0.changed.notified());
        changed.as_mut().enable();
        if let Some(error) = self.given_up(&self.0.snapshot.load()) {
            return Err(error);
        }
        let mut waiting = self.0.gate.enter(applicant.caller, need).map_err(|Full| CallError::QueueFull {
            server: self.name().clone(),
            limit: self.0.env.settings.call_queue_max,
        })?;
        let out_of_time = async {
            match applicant.until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(out_of_time);
        loop {
            tokio::select! {
                biased;
                place = waiting.turn() => return Ok(place),
                () = &mut out_of_time => return Err(self.no_turn(applicant)),
                () = &mut changed => {
                    changed.set(self.0.changed.notified());
                    changed.as_mut().enable();
                    if let Some(error) = self.given_up(&self.0.snapshot.load()) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The error of a request whose turn did not come in time: it says what was before it.
    fn no_turn(&self, applicant: &Applicant<'_>) -> CallError {
        let GateView { in_flight, held, .. } = self.0.gate.view();
        let behind = match held {
            Some((left, status)) => {
                let left = left.as_millis();
                format!(
                    "held back since the server answered HTTP {status} and asked to wait another {left} ms"
                )
            }
            None => format!("behind {in_flight} calls in flight (call.in_flight_max)"),
        };
        let name = applicant.name.map_or_else(String::new, |name| format!(" {name}"));
        CallError::TimedOut {
            what: format!("{}{name}, {behind},", applicant.method),
            clock: Clock::Queue,
            elapsed: applicant.started.elapsed(),
            delivery: Delivery::NotSent,
            unmatched: 0,
        }
    }
}
