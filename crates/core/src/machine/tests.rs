//! Every state against every event, as one table; and the gaps of reconnecting as walks through it.

use super::*;
use crate::port::{ExitInfo, IoKind};

fn rules() -> Rules {
    Rules {
        remote: true,
        reconnect: true,
        first_attempts_max: 4,
        attempts_max: 5,
        backoff_initial: Duration::from_secs(1),
        backoff_max: Duration::from_secs(30),
        backoff_factor: 2.0,
        jitter: 0.0,
        reset_after: Duration::from_secs(30),
        slow_retry: Duration::from_secs(300),
    }
}

const NOW: Generation = Generation(7);
const OLD: Generation = Generation(6);
const TIMER: TimerToken = TimerToken(3);
const OLD_TIMER: TimerToken = TimerToken(2);

fn reset() -> Arc<CloseReason> {
    Arc::new(CloseReason::Io { kind: IoKind::Reset, message: "m".into() })
}

fn ended() -> Arc<CloseReason> {
    Arc::new(CloseReason::Ended { exit: Some(ExitInfo::Code(1)), stderr_tail: String::new() })
}

fn auth() -> Arc<CloseReason> {
    Arc::new(CloseReason::AuthRequired { status: 401, challenge: String::new() })
}

fn fatal() -> Arc<CloseReason> {
    Arc::new(CloseReason::Protocol("p".into()))
}

fn expired() -> Arc<CloseReason> {
    Arc::new(CloseReason::SessionExpired { status: 404 })
}

fn states(now: Instant) -> Vec<(&'static str, State)> {
    let pending = |phase| State::Pending { phase, attempt: 1, last: None };
    vec![
        ("dormant", pending(Phase::Dormant)),
        ("queued", pending(Phase::Queued)),
        ("dialing", pending(Phase::Dialing(NOW))),
        ("handshaking", pending(Phase::Handshaking(NOW))),
        ("backing-off", pending(Phase::BackingOff { until: now + Duration::from_secs(1), timer: TIMER })),
        ("connected", State::Connected { generation: NOW, since: now, attempt: 1 }),
        ("needs-auth", State::NeedsAuth { reason: auth(), since: now }),
        (
            "failed",
            State::Failed {
                reason: reset(),
                class: FailureClass::Unreachable,
                attempts: 5,
                since: now,
                slow_retry: Some((now + Duration::from_secs(300), TIMER)),
            },
        ),
        ("disabled", State::Disabled { by: DisabledBy::User, since: now }),
        ("disabled-by-entry", State::Disabled { by: DisabledBy::Entry, since: now }),
        ("removed", State::Disabled { by: DisabledBy::Removed, since: now }),
    ]
}

fn events() -> Vec<(&'static str, Event)> {
    let down = |generation, reason| Event::Down { generation, reason, answered: true };
    vec![
        ("demand", Event::Demand),
        ("permit", Event::PermitGranted),
        ("dialed", Event::Dialed(NOW)),
        ("dialed-old", Event::Dialed(OLD)),
        ("established", Event::Established(NOW)),
        ("established-old", Event::Established(OLD)),
        ("failed-retryable", Event::ConnectFailed(NOW, reset())),
        ("failed-auth", Event::ConnectFailed(NOW, auth())),
        ("failed-fatal", Event::ConnectFailed(NOW, fatal())),
        ("failed-old", Event::ConnectFailed(OLD, fatal())),
        ("down", down(NOW, reset())),
        ("down-auth", down(NOW, auth())),
        ("down-expired", down(NOW, expired())),
        ("down-old", down(OLD, reset())),
        ("timer", Event::Timer(TIMER)),
        ("timer-old", Event::Timer(OLD_TIMER)),
        ("reconnect", Event::Reconnect),
        ("enable", Event::Enable),
        ("disable", Event::Disable),
        ("replaced", Event::Replaced),
        ("entry-disabled", Event::EntryDisabled),
        ("removed", Event::Removed),
        ("panicked", Event::Panicked { restarted: true }),
        ("panicked-for-good", Event::Panicked { restarted: false }),
    ]
}

fn shown(state: &State) -> String {
    match state {
        State::Pending { phase, attempt, .. } => match phase {
            Phase::Dormant => format!("dormant#{attempt}"),
            Phase::Queued => format!("queued#{attempt}"),
            Phase::Dialing(generation) => format!("dialing({generation})#{attempt}"),
            Phase::Handshaking(generation) => format!("handshaking({generation})#{attempt}"),
            Phase::BackingOff { .. } => format!("backing-off#{attempt}"),
        },
        State::Connected { generation, attempt, .. } => format!("connected({generation})#{attempt}"),
        State::NeedsAuth { .. } => "needs-auth".into(),
        State::Failed { class, .. } => format!("failed({})", class.as_str()),
        State::Disabled { by, .. } => format!("disabled({})", by.as_str()),
    }
}

fn shown_effect(effect: &Effect) -> String {
    match effect {
        Effect::RequestPermit => "ask-permit".into(),
        Effect::ReleasePermit => "release".into(),
        Effect::Dial(generation) => format!("dial({generation})"),
        Effect::CancelDial => "cancel-dial".into(),
        Effect::CloseLink(generation) => format!("close({generation})"),
        Effect::Drain(generation) => format!("drain({generation})"),
        Effect::ArmTimer(..) => "timer".into(),
    }
}

/// One line a state: only the events that change something or have an effect, the others do nothing.
fn table() -> String {
    let now = Instant::now();
    let mut lines = Vec::new();
    for (name, state) in states(now) {
        lines.push(format!("{name}:"));
        let unchanged = shown(&state);
        for (event_name, event) in events() {
            let mut machine = ConnMachine::new(None, now);
            machine.state = state.clone();
            machine.generation = NOW;
            machine.was_connected = true;
            machine.timer = TIMER;
            let (machine, effects) = machine.step(event, now, &rules());
            let effects: Vec<String> = effects.iter().map(shown_effect).collect();
            if shown(&machine.state) != unchanged || !effects.is_empty() {
                lines.push(format!("  {event_name} -> {} [{}]", shown(&machine.state), effects.join(" ")));
            }
        }
    }
    lines.join("\n")
}

const TABLE: &str = include_str!("table.txt");

#[test]
fn every_state_against_every_event() {
    assert_eq!(table(), TABLE.trim_end(), "the table of the machine has changed:\n{}", table());
}

/// Plays failures of every attempt and gives the gaps before each.
fn gaps_after(
    mut machine: ConnMachine,
    first: Event,
    fail: impl Fn() -> Arc<CloseReason>,
    now: Instant,
) -> (Vec<u64>, State) {
    let mut gaps = Vec::new();
    let mut now = now;
    let mut event = first;
    for _ in 0..100 {
        let (next, effects) = machine.step(event, now, &rules());
        machine = next;
        event = match (&machine.state, effects.as_slice()) {
            (State::Pending { phase: Phase::Queued, .. }, _) => Event::PermitGranted,
            (State::Pending { phase: Phase::Dialing(generation), .. }, _) => {
                Event::ConnectFailed(*generation, fail())
            }
            (State::Pending { phase: Phase::BackingOff { until, timer }, .. }, _) => {
                gaps.push((*until - now).as_secs());
                now = *until;
                Event::Timer(*timer)
            }
            _ => break,
        };
    }
    (gaps, machine.state)
}

fn connected(now: Instant) -> ConnMachine {
    let mut machine = ConnMachine::new(None, now);
    machine.state = State::Connected { generation: Generation(1), since: now, attempt: 0 };
    machine.generation = Generation(1);
    machine.was_connected = true;
    machine
}

#[test]
fn a_lost_connection_is_tried_five_times_with_doubling_gaps() {
    let now = Instant::now();
    let down = Event::Down { generation: Generation(1), reason: reset(), answered: true };
    let (gaps, state) = gaps_after(connected(now), down, reset, now);
    assert_eq!(gaps, [1, 2, 4, 8, 16]);
    assert!(matches!(state, State::Failed { attempts: 5, class: FailureClass::Unreachable, .. }));
}

#[test]
fn a_first_connect_is_retried_three_times() {
    let now = Instant::now();
    let (gaps, state) = gaps_after(ConnMachine::new(None, now), Event::Demand, reset, now);
    assert_eq!(gaps, [1, 2, 4]);
    assert!(matches!(state, State::Failed { attempts: 4, .. }));
}

#[test]
fn the_server_may_ask_for_a_longer_gap() {
    let now = Instant::now();
    let busy = || {
        let retry_after = Some(Duration::from_secs(9));
        Arc::new(CloseReason::Status { status: 503, body: String::new(), rpc: None, retry_after })
    };
    let (gaps, _) = gaps_after(ConnMachine::new(None, now), Event::Demand, busy, now);
    assert_eq!(gaps, [9, 9, 9]);
}

/// A server that dies `lived` after each start.
fn deaths(lived: Duration) -> (usize, State) {
    let mut now = Instant::now();
    let mut machine = connected(now);
    for death in 1..=20 {
        now += lived;
        let down = Event::Down { generation: machine.generation, reason: ended(), answered: true };
        machine = machine.step(down, now, &rules()).0;
        let State::Pending { phase: Phase::BackingOff { until, timer }, .. } = machine.state else {
            return (death, machine.state);
        };
        now = until;
        machine = machine.step(Event::Timer(timer), now, &rules()).0;
        machine = machine.step(Event::PermitGranted, now, &rules()).0;
        let generation = machine.generation;
        machine = machine.step(Event::Established(generation), now, &rules()).0;
    }
    (20, machine.state)
}

#[test]
fn f313_five_quick_deaths_are_a_crash_loop() {
    let (deaths, state) = deaths(Duration::from_secs(2));
    assert_eq!(deaths, 5);
    assert!(matches!(state, State::Failed { class: FailureClass::CrashLoop, .. }));
}

#[test]
fn a_connection_that_lasted_starts_the_count_anew() {
    let (deaths, state) = deaths(Duration::from_secs(31));
    assert_eq!(deaths, 20);
    assert!(matches!(state, State::Connected { .. }));
}

#[test]
fn a_retry_after_beyond_all_clocks_is_bounded() {
    let now = Instant::now();
    let absurd = || {
        let retry_after = Some(Duration::from_secs(u64::MAX));
        Arc::new(CloseReason::Status { status: 503, body: String::new(), rpc: None, retry_after })
    };
    let (gaps, _) = gaps_after(ConnMachine::new(None, now), Event::Demand, absurd, now);
    assert_eq!(gaps, [3_600, 3_600, 3_600]);
}

#[test]
fn a_server_that_forgets_each_new_session_is_given_up() {
    let mut now = Instant::now();
    let mut machine = connected(now);
    let mut gaps = Vec::new();
    for _ in 0..20 {
        let down = Event::Down { generation: machine.generation, reason: expired(), answered: true };
        machine = machine.step(down, now, &rules()).0;
        if let State::Pending { phase: Phase::BackingOff { until, timer }, .. } = machine.state {
            gaps.push((until - now).as_secs());
            now = until;
            machine = machine.step(Event::Timer(timer), now, &rules()).0;
        } else if matches!(machine.state, State::Pending { phase: Phase::Queued, .. }) {
            gaps.push(0);
        } else {
            break;
        }
        machine = machine.step(Event::PermitGranted, now, &rules()).0;
        let generation = machine.generation;
        machine = machine.step(Event::Established(generation), now, &rules()).0;
    }
    assert_eq!(gaps, [0, 2, 4, 8, 16], "a session that was merely lost is renewed at once");
    assert!(matches!(machine.state, State::Failed { class: FailureClass::Unreachable, .. }));
}

#[test]
fn jitter_lengthens_a_gap_by_at_most_its_part_and_the_same_way_for_a_seed() {
    let now = Instant::now();
    let rules = Rules { jitter: 0.5, ..rules() };
    let gap = |seed: u64| {
        let machine = ConnMachine { dice: Dice::forked(seed, "s"), ..connected(now) };
        let down = Event::Down { generation: Generation(1), reason: reset(), answered: true };
        match machine.step(down, now, &rules).0.state {
            State::Pending { phase: Phase::BackingOff { until, .. }, .. } => until - now,
            other => panic!("{other:?}"),
        }
    };
    let gaps: std::collections::BTreeSet<Duration> = (0..100).map(gap).collect();
    assert!(gaps.len() > 90, "they differ: {gaps:?}");
    assert!(gaps.iter().all(|gap| (1_000..1_500).contains(&gap.as_millis())), "{gaps:?}");
    assert_eq!(gap(7), gap(7));
}

#[test]
fn a_pause_that_the_server_asked_for_is_never_shortened_by_chance() {
    let now = Instant::now();
    let rules = Rules { jitter: 1.0, ..rules() };
    for seed in 0..100 {
        let retry_after = Some(Duration::from_secs(9));
        let busy = CloseReason::Status { status: 503, body: String::new(), rpc: None, retry_after };
        let machine = ConnMachine { dice: Dice::forked(seed, "s"), ..connected(now) };
        let down = Event::Down { generation: Generation(1), reason: Arc::new(busy), answered: true };
        let State::Pending { phase: Phase::BackingOff { until, .. }, .. } =
            machine.step(down, now, &rules).0.state
        else {
            panic!("not backing off")
        };
        assert!((9..18).contains(&(until - now).as_secs()));
    }
}
