//! From the runtime's own types to those that are shown.

use crate::handle::{ConnSnapshot, ToolsState};
use crate::machine::{Phase, State};
use crate::port::CloseReason;
use crate::status::{CallsView, InfoView, ServerStatus, SourceView, StateView};
use tokio::time::Instant;

/// The state's own view of a moment.
pub(crate) fn state(snapshot: &ConnSnapshot) -> StateView {
    let now = Instant::now();
    let until = |at: Instant| at.saturating_duration_since(now).as_millis() as u64;
    match &snapshot.machine.state {
        State::Pending { phase, attempt, last } => StateView::Pending {
            phase: phase_word(*phase),
            attempt: *attempt,
            max_attempts: snapshot.attempts_max,
            last_error: last.as_ref().map(|reason| reason.to_string()),
            next_try_in_ms: match phase {
                Phase::BackingOff { until: at, .. } => Some(until(*at)),
                Phase::Dormant | Phase::Queued | Phase::Dialing(_) | Phase::Handshaking(_) => None,
            },
        },
        State::Connected { since, .. } => {
            let session = snapshot.core.as_ref().and_then(|core| core.session());
            let info = session.map(|session| &session.peer.implementation);
            StateView::Connected {
                since_ms: (now - *since).as_millis() as u64,
                era: session.map(|session| session.version().to_string()).unwrap_or_default(),
                server_info: info
                    .map(|info| InfoView { name: info.name.clone(), version: info.version.clone() })
                    .unwrap_or_default(),
                tools: snapshot.tools.list.as_ref().map_or(0, |list| list.items.len()),
                tools_state: tools_word(&snapshot.tools.state),
            }
        }
        State::NeedsAuth { reason, .. } => StateView::NeedsAuth { how: how(reason) },
        State::Failed { reason, class, attempts, slow_retry, .. } => StateView::Failed {
            error: reason.to_string(),
            class: class.as_str(),
            attempts: *attempts,
            stderr_tail: reason.stderr_tail().map(str::to_owned),
            http_status: reason.http_status(),
            hint: reason.hint(),
            slow_retry_in_ms: slow_retry.map(|(at, _)| until(at)),
        },
        State::Disabled { by, .. } => StateView::Disabled { by: by.as_str() },
    }
}

fn how(reason: &CloseReason) -> String {
    reason.hint().unwrap_or_else(|| reason.to_string())
}

pub(crate) fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Dormant => "dormant",
        Phase::Queued => "queued",
        Phase::Dialing(_) => "dialing",
        Phase::Handshaking(_) => "handshaking",
        Phase::BackingOff { .. } => "backing-off",
    }
}

fn tools_word(state: &ToolsState) -> &'static str {
    match state {
        ToolsState::None => "none",
        ToolsState::Fetching => "fetching",
        ToolsState::Fresh => "fresh",
        ToolsState::Stale => "stale",
        ToolsState::Failed(_) => "failed",
    }
}

/// Nobody is working on a connection, but one may be asked for.
pub(crate) fn is_dormant(state: &State) -> bool {
    matches!(state, State::Pending { phase: Phase::Dormant, .. })
}

/// The server's line of a status.
pub(crate) fn server(snapshot: &ConnSnapshot, calls: CallsView) -> ServerStatus {
    let spec = snapshot.server.spec();
    let mut warnings = spec.warnings.clone();
    if let ToolsState::Failed(cause) = &snapshot.tools.state {
        warnings.push(format!("its tools could not be listed: {cause}"));
    }
    let problems = snapshot.tools.list.iter().flat_map(|list| &list.problems);
    warnings.extend(problems.map(|problem| format!("tool {}: {}", problem.item, problem.message)));
    ServerStatus {
        name: spec.name.as_str().to_owned(),
        transport: spec.transport.kind().to_owned(),
        scope: spec.scope.as_str().to_owned(),
        source: SourceView {
            file: spec.source.file.clone(),
            dialect: spec.source.dialect.clone(),
            plugin: spec.source.plugin.clone(),
        },
        state: state(snapshot),
        generation: snapshot.machine.generation.0,
        calls,
        warnings,
    }
}
