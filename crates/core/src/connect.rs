//! One attempt to connect: dial, find the era, shake hands. A child that dies of the probe is replaced once.

use crate::conn_core::ConnCore;
use crate::environment::Environment;
use crate::gate::CallGate;
use crate::handshake::{self, Verdict, reason_of, timed_out};
use crate::inbound::{Inbound, ListChanged};
use crate::io_task::{self, AliveToken, Gone};
use crate::port::{
    Admitted, CloseReason, DialRequest, EraPin, Generation, HttpSpec, StderrFeed, TransportSpec,
};
use crate::session::Session;
use crate::telemetry;
use callboard_protocol::Era;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span};

/// What an attempt to connect needs.
pub(crate) struct Attempt {
    pub env: Arc<Environment>,
    pub server: Admitted,
    pub generation: Generation,
    /// The places for the server's calls.
    pub gate: Arc<CallGate>,
    /// Where the child's stderr goes.
    pub stderr: StderrFeed,
    pub list_changed: ListChanged,
    /// Handed to whatever the attempt starts. Taken before it began: the board may be closing by the time
    /// that its dial comes back, and must still wait for what that started.
    pub token: AliveToken,
    /// Told once the link is open.
    pub dialed: Box<dyn FnOnce() + Send>,
}

/// A connection whose handshake is done.
pub(crate) struct Established {
    pub core: Arc<ConnCore>,
    pub io: IoHandle,
}

/// The running IO task. Dropped, it ends the task and so the link.
pub(crate) struct IoHandle {
    core: Arc<ConnCore>,
    gone: Gone,
    task: Option<JoinHandle<Arc<CloseReason>>>,
}

impl IoHandle {
    /// Waits for the end of the task: why the link ended.
    pub(crate) async fn ended(mut self) -> Arc<CloseReason> {
        let Some(task) = self.task.as_mut() else { return Arc::new(CloseReason::Cancelled) };
        let reason = match task.await {
            Ok(reason) => reason,
            Err(error) => Arc::new(CloseReason::Protocol(format!("the IO task ended: {error}"))),
        };
        self.task = None;
        reason
    }
}

impl Drop for IoHandle {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.core.io.stop();
        }
    }
}

/// How an opened link is to be greeted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Greeting {
    /// Find out.
    Probe,
    /// `initialize` first.
    Legacy,
    /// Known to be modern.
    Modern,
}

/// What one greeting came to.
enum Greeted {
    Session(Session),
    /// The child is of no use any more; a fresh one gets `initialize` first.
    Afresh,
    Failed(Arc<CloseReason>),
}

/// Connects, within the connect's own time limit.
pub(crate) async fn connect(attempt: Attempt) -> Result<Established, Arc<CloseReason>> {
    let transport = attempt.server.spec().transport.kind();
    let span = telemetry::connection_span(attempt.server.name(), attempt.generation, transport);
    establish(attempt, span.clone()).instrument(span).await
}

async fn establish(attempt: Attempt, span: Span) -> Result<Established, Arc<CloseReason>> {
    let Attempt { env, server, generation, gate, stderr, list_changed, token, dialed } = attempt;
    let spec = server.spec();
    let limit = spec.options.connect_timeout_ms.map_or(env.settings.connect_timeout, Duration::from_millis);
    let began = Instant::now();
    let deadline = began + limit;
    // A pinned era is neither recalled nor remembered.
    let fingerprint = match spec.options.protocol_era {
        EraPin::Pinned(_) => None,
        EraPin::Auto => Some(callboard_policy::fingerprint(spec)),
    };
    let mut remembered = fingerprint.as_deref().and_then(|fingerprint| env.eras.recall(fingerprint));
    let mut greeting = match (spec.options.protocol_era, remembered) {
        (EraPin::Pinned(Era::Legacy), _) | (EraPin::Auto, Some(Era::Legacy)) => Greeting::Legacy,
        (EraPin::Pinned(Era::Modern), _) | (EraPin::Auto, Some(Era::Modern)) => Greeting::Modern,
        (EraPin::Auto, None) => Greeting::Probe,
    };
    let mut dialed = Some(dialed);
    let opening = Opening {
        env: &env,
        server: &server,
        generation,
        gate: &gate,
        stderr: &stderr,
        deadline,
        began,
        list_changed: &list_changed,
        token: &token,
        span: &span,
    };
    loop {
        let Established { core, io } = opening.open().await?;
        // An exchange link is open from the start: its handshake is its first sign of life.
        if let Some(dialed) = dialed.take_if(|_| !core.is_exchange()) {
            dialed();
        }
        let (core, io, greeted) = match opening.greet(&core, greeting).await {
            Greeted::Failed(refusal)
                if core.is_exchange() && greeting != Greeting::Modern && may_be_older(&refusal) =>
            {
                match opening.fall_back(&refusal).await {
                    Some((older, greeted)) => (older.core, older.io, greeted),
                    None => (core, io, Greeted::Failed(refusal)),
                }
            }
            greeted => (core, io, greeted),
        };
        match greeted {
            Greeted::Session(session) => {
                if let Some(fingerprint) = &fingerprint {
                    env.eras.remember(fingerprint, session.era());
                }
                let _ = core.session.set(session);
                return Ok(Established { core, io });
            }
            Greeted::Afresh if greeting == Greeting::Probe => greeting = Greeting::Legacy,
            Greeted::Afresh | Greeted::Failed(_) if remembered.is_some() && greeting != Greeting::Probe => {
                // The remembered verdict may be what was wrong: find out anew, once.
                remembered = None;
                if let Some(fingerprint) = &fingerprint {
                    env.eras.forget(fingerprint);
                }
                match greeted {
                    Greeted::Failed(reason) if !speaks_of_era(&reason) => {
                        return Err(true_end(io, reason).await);
                    }
                    _ => greeting = Greeting::Probe,
                }
            }
            Greeted::Afresh => return Err(true_end(io, Arc::new(CloseReason::NoReply)).await),
            Greeted::Failed(reason) => return Err(true_end(io, reason).await),
        }
        if Instant::now() >= deadline {
            return Err(timed_out(&core, began));
        }
        if timeout_at(deadline, io.gone_after_stop()).await.is_err() {
            return Err(timed_out(&core, began));
        }
    }
}

impl IoHandle {
    /// Ends the link and waits until nothing of it is left, so that a fresh child does not meet the old one.
    async fn gone_after_stop(self) {
        self.core.io.stop();
        let gone = self.gone.clone();
        let _ = self.ended().await;
        gone.wait().await;
    }
}

/// How long the link's own end is waited for when a write to it has failed.
const TRUE_END_WAIT: Duration = Duration::from_millis(500);

/// A child that dies before it has read shows first as a broken pipe; its exit and its last words say more.
async fn true_end(io: IoHandle, reason: Arc<CloseReason>) -> Arc<CloseReason> {
    if io.core.is_exchange() || !matches!(*reason, CloseReason::Io { .. } | CloseReason::NoReply) {
        return reason;
    }
    match tokio::time::timeout(TRUE_END_WAIT, io.ended()).await {
        Ok(end) if matches!(*end, CloseReason::Ended { .. }) => end,
        Ok(_) | Err(_) => reason,
    }
}

/// A failure that another way to greet might not meet.
fn speaks_of_era(reason: &CloseReason) -> bool {
    match reason {
        CloseReason::Protocol(_) | CloseReason::Ended { .. } | CloseReason::NoReply => true,
        CloseReason::Status { status, .. } => *status < 500,
        _ => false,
    }
}

/// The server turned `initialize` away as one does that speaks the older transport: 400, 404 or 405 without a
/// modern error. Any other status says nothing of the transport.
fn may_be_older(reason: &CloseReason) -> bool {
    use callboard_protocol::code;
    let CloseReason::Status { status, rpc, .. } = reason else { return false };
    let is_modern = rpc.as_ref().is_some_and(|rpc| {
        matches!(rpc.code, code::UNSUPPORTED_VERSION | code::HEADER_MISMATCH | code::MISSING_CAPABILITY)
    });
    matches!(status, 400 | 404 | 405) && !is_modern
}

/// What opening a link takes.
struct Opening<'a> {
    env: &'a Arc<Environment>,
    server: &'a Admitted,
    generation: Generation,
    gate: &'a Arc<CallGate>,
    stderr: &'a StderrFeed,
    deadline: Instant,
    began: Instant,
    list_changed: &'a ListChanged,
    token: &'a AliveToken,
    span: &'a Span,
}

impl Opening<'_> {
    fn request(&self) -> DialRequest {
        DialRequest {
            server: self.server.clone(),
            generation: self.generation,
            deadline: self.deadline,
            settings: self.env.settings.clone(),
            authenticator: None,
            stderr: self.stderr.clone(),
        }
    }

    async fn open(&self) -> Result<Established, Arc<CloseReason>> {
        match timeout_at(self.deadline, self.env.dialer.dial(self.request())).await {
            Ok(dialed) => dialed.map(|link| self.start(link)).map_err(Arc::new),
            Err(_) => {
                let after = self.began.elapsed();
                Err(Arc::new(CloseReason::ConnectTimedOut { after, stderr_tail: String::new() }))
            }
        }
    }

    /// Greets within the connect's limit: the clocks of requests stand still while a person is asked, those of
    /// a connect must not.
    async fn greet(&self, core: &Arc<ConnCore>, greeting: Greeting) -> Greeted {
        timeout_at(self.deadline, greet(core, greeting, self.deadline, self.began))
            .await
            .unwrap_or_else(|_| Greeted::Failed(timed_out(core, self.began)))
    }

    /// Tries the dialer's older way, if it has one. None when the server does not speak that either: then the
    /// first refusal tells more.
    async fn fall_back(&self, refusal: &CloseReason) -> Option<(Established, Greeted)> {
        let dialing = self.env.dialer.dial_fallback(self.request())?;
        match timeout_at(self.deadline, dialing).await {
            Ok(Ok(link)) => {
                let established = self.start(link);
                let greeted = self.greet(&established.core, Greeting::Legacy).await;
                Some((established, greeted))
            }
            Ok(Err(reason)) => {
                tracing::debug!(server = %self.server.name(), %refusal, %reason, "the older way fails too");
                None
            }
            Err(_) => None,
        }
    }

    /// Sets the IO task of an open link going.
    fn start(&self, link: crate::port::Link) -> Established {
        let name = self.server.name().clone();
        let ends = (link.send, link.diagnostics);
        let mut core = ConnCore::new(self.env.clone(), name, self.generation, self.gate.clone(), ends);
        if let TransportSpec::Http(HttpSpec { ide: Some(ide), .. }) = &self.server.spec().transport {
            core.platform = ide.platform.clone();
        }
        let core = Arc::new(core);
        let inbound = Inbound::new(core.clone(), self.list_changed.clone());
        let (token, gone) = self.token.of_part();
        let io = io_task::run(core.clone(), link.receive, link.closer, inbound, token);
        let task = self.env.runtime.spawn(io.instrument(self.span.clone()));
        Established { core: core.clone(), io: IoHandle { core, gone, task: Some(task) } }
    }
}

async fn greet(core: &Arc<ConnCore>, greeting: Greeting, deadline: Instant, began: Instant) -> Greeted {
    match greeting {
        Greeting::Legacy => match handshake::initialize(core, deadline).await {
            Ok(session) => Greeted::Session(session),
            Err(error) if wants_modern(&error) => modern(core, deadline, began).await,
            Err(error) => Greeted::Failed(reason_of(error, core, began)),
        },
        Greeting::Modern => modern(core, deadline, began).await,
        Greeting::Probe if core.is_exchange() => match handshake::probe(core, deadline, began).await {
            Verdict::Modern(session) => Greeted::Session(session),
            Verdict::Nothing(reason) => Greeted::Failed(reason),
            Verdict::Legacy => match handshake::initialize(core, deadline).await {
                Ok(session) => Greeted::Session(session),
                Err(error) => Greeted::Failed(reason_of(error, core, began)),
            },
        },
        Greeting::Probe => probe_in_place(core, deadline, began).await,
    }
}

/// A server that answers `initialize` with an unsupported version wants the modern way.
fn wants_modern(error: &crate::call::CallError) -> bool {
    let rpc = match error {
        crate::call::CallError::Remote(rpc) => Some(rpc),
        crate::call::CallError::Lost { reason, .. } => match &**reason {
            CloseReason::Status { rpc, .. } => rpc.as_ref(),
            _ => None,
        },
        _ => None,
    };
    rpc.is_some_and(|rpc| rpc.code == callboard_protocol::code::UNSUPPORTED_VERSION)
}

async fn modern(core: &Arc<ConnCore>, deadline: Instant, began: Instant) -> Greeted {
    match handshake::probe(core, deadline, began).await {
        Verdict::Modern(session) => Greeted::Session(session),
        Verdict::Nothing(reason) => Greeted::Failed(reason),
        Verdict::Legacy => {
            let message =
                "the server does not speak 2026-07-28, which its entry or an earlier answer says it does";
            Greeted::Failed(Arc::new(CloseReason::Protocol(message.into())))
        }
    }
}

/// The probe of a child: `server/discover` first, `initialize` on the same child after a refusal or a silence.
async fn probe_in_place(core: &Arc<ConnCore>, deadline: Instant, began: Instant) -> Greeted {
    let silence = Instant::now() + core.env.settings.probe_timeout;
    let mut probing = Box::pin(handshake::probe(core, deadline, began));
    match timeout_at(silence.min(deadline), &mut probing).await {
        Ok(Verdict::Modern(session)) => Greeted::Session(session),
        Ok(Verdict::Legacy) => match handshake::initialize(core, deadline).await {
            Ok(session) => Greeted::Session(session),
            Err(error) => after_refused_probe(core, error, began),
        },
        Ok(Verdict::Nothing(reason)) => match *reason {
            CloseReason::Ended { .. } | CloseReason::Io { .. } => Greeted::Afresh,
            _ => Greeted::Failed(reason),
        },
        Err(_) => {
            // It may only be slow to start: whichever answer comes first decides.
            let mut initializing = Box::pin(handshake::initialize(core, deadline));
            tokio::select! {
                biased;
                verdict = &mut probing => match verdict {
                    Verdict::Modern(session) => Greeted::Session(session),
                    Verdict::Nothing(reason) if matches!(*reason, CloseReason::Ended { .. }) => Greeted::Afresh,
                    Verdict::Nothing(reason) => Greeted::Failed(reason),
                    // Its `initialize` is on its way already, and a second one would be refused.
                    Verdict::Legacy => match initializing.await {
                        Ok(session) => Greeted::Session(session),
                        Err(error) => after_refused_probe(core, error, began),
                    },
                },
                session = &mut initializing => match session {
                    Ok(session) => Greeted::Session(session),
                    Err(error) => after_refused_probe(core, error, began),
                },
            }
        }
    }
}

fn after_refused_probe(core: &ConnCore, error: crate::call::CallError, began: Instant) -> Greeted {
    match &error {
        crate::call::CallError::TimedOut { .. } => Greeted::Failed(timed_out(core, began)),
        crate::call::CallError::Lost { reason, .. } if matches!(**reason, CloseReason::Protocol(_)) => {
            Greeted::Failed(reason_of(error, core, began))
        }
        _ => Greeted::Afresh,
    }
}

#[cfg(test)]
mod tests;
