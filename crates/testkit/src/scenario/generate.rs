//! Scenarios from a seed: every fault somewhere, most servers with one or two.

use super::{
    CallerPlan, Fault, HangPhase, Scenario, ServerPlan, SimEra, Transport, Untruth, UserAction, UserWish,
};
use crate::rng::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

impl Scenario {
    /// A scenario drawn from a seed: so many servers with their faults, callers and a user, for so long.
    pub fn generated(seed: u64, servers: u32, duration: Duration) -> Scenario {
        let duration_ms = (duration.as_millis() as u64).max(1_000);
        let mut rng = Rng::of(seed, &[0x5ce]);
        let plans: Vec<ServerPlan> =
            (0..servers.max(1)).map(|number| server(seed, number, duration_ms)).collect();
        let mut settings = BTreeMap::new();
        if rng.percent(25) {
            // More attempts than usual, so that the longest gap is reached.
            settings.insert("reconnect.attempts_max".to_owned(), "8".to_owned());
        }
        let callers = vec![
            CallerPlan {
                count: 1 + servers / 5,
                servers: Vec::new(),
                think_ms: [500, 8_000],
                timeout_ms: [2_000, 60_000],
                cancel_percent: 3,
            },
            // Several at once on few servers, so that they wait for places.
            CallerPlan {
                count: 6,
                servers: plans
                    .iter()
                    .filter(|plan| !plan.denied)
                    .take(2)
                    .map(|plan| plan.name.clone())
                    .collect(),
                think_ms: [500, 20_000],
                timeout_ms: [500, 10_000],
                cancel_percent: 10,
            },
        ];
        let mut actions: Vec<UserAction> = Vec::new();
        // Some three an hour and server.
        for _ in 0..u64::from(servers) * duration_ms / 1_200_000 {
            let plan = rng.one_of(&plans);
            if plan.denied {
                continue;
            }
            let (at_ms, server) = (rng.below(duration_ms), plan.name.clone());
            if rng.percent(60) {
                actions.push(UserAction { at_ms, server, what: UserWish::Reconnect });
            } else {
                let on_again = at_ms + rng.between([1_000, 120_000]);
                actions.push(UserAction { at_ms, server: server.clone(), what: UserWish::Disable });
                actions.push(UserAction { at_ms: on_again, server, what: UserWish::Enable });
            }
        }
        actions.sort_by_key(|action| action.at_ms);
        // Whoever reads it can play it again.
        let title = format!("seed {seed}, {servers} servers, {} h", duration_ms as f64 / 3_600_000.0);
        Scenario {
            title,
            seed,
            duration_ms,
            connect_all: rng.percent(30),
            settings,
            servers: plans,
            callers,
            actions,
        }
    }
}

fn server(seed: u64, number: u32, duration_ms: u64) -> ServerPlan {
    let mut rng = Rng::of(seed, &[0x5e7, u64::from(number)]);
    let transport =
        *rng.one_of(&[Transport::Stdio, Transport::Stdio, Transport::Http, Transport::Http, Transport::Ws]);
    let mut plan = ServerPlan::new(format!("s{number:03}"), transport);
    if rng.percent(30) {
        plan.era = SimEra::Modern;
    }
    plan.tools = rng.between([1, 5]) as u32;
    plan.answer_ms = [1, rng.between([5, 400])];
    plan.dial_ms = [1, rng.between([5, 2_000])];
    if rng.percent(40) {
        plan.in_flight_max = Some(rng.between([1, 3]) as usize);
    }
    plan.denied = rng.percent(4);
    let faults = *rng.one_of(&[0, 1, 2, 3, 4, 6]);
    plan.faults = (0..faults).map(|_| fault(&mut rng, &plan, duration_ms)).collect();
    plan
}

fn fault(rng: &mut Rng, plan: &ServerPlan, duration_ms: u64) -> Fault {
    let from_ms = rng.below(duration_ms * 7 / 8);
    let until_ms = from_ms + rng.between([10_000, (duration_ms / 2).max(10_001)]);
    let percent = rng.between([5, 60]);
    let http = plan.transport == Transport::Http;
    match rng.below(16) {
        0 => Fault::Down { from_ms, for_ms: rng.between([500, 600_000]) },
        1 | 2 => Fault::Flap {
            from_ms,
            until_ms,
            every_ms: rng.between([3_000, 120_000]),
            down_ms: *rng.one_of(&[0, 300, 4_000, 40_000, 90_000]),
        },
        3 => Fault::CrashLoop { from_ms, until_ms, lives_ms: rng.between([0, 40_000]) },
        4 => Fault::Slow { from_ms, until_ms, percent, answer_ms: [1_000, 90_000] },
        5 if http => Fault::Busy { from_ms, until_ms, percent, retry_after_s: rng.between([0, 40]) },
        6 => Fault::Lie { from_ms, until_ms, percent, how: Untruth::WrongId },
        7 => Fault::Lie {
            from_ms,
            until_ms,
            percent,
            how: *rng.one_of(&[Untruth::DoubleId, Untruth::Garbage, Untruth::WrongCapability]),
        },
        8 => Fault::Hang { from_ms, until_ms, percent, phase: HangPhase::Dial },
        9 => Fault::Hang { from_ms, until_ms, percent, phase: HangPhase::Handshake },
        10 => Fault::Hang {
            from_ms,
            until_ms,
            percent,
            phase: *rng.one_of(&[HangPhase::List, HangPhase::Close]),
        },
        11 => Fault::Hang { from_ms, until_ms, percent, phase: HangPhase::Call },
        12 => Fault::DieInCall { from_ms, until_ms, percent },
        13 if http => Fault::ExpireSessions { from_ms, until_ms, every_ms: rng.between([5_000, 200_000]) },
        14 if plan.transport != Transport::Stdio => Fault::RotateTokens { from_ms, until_ms },
        15 => Fault::Storm { at_ms: from_ms, notices: rng.between([2, 500]) as u32 },
        _ => Fault::ChangeTools { from_ms, until_ms, every_ms: rng.between([5_000, 120_000]) },
    }
}
