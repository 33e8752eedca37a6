//! What is done to the world at certain moments: faults that strike, and what the user asks for.

use crate::rng::Rng;
use crate::scenario::{Fault, Scenario, UserWish};
use crate::stage::Stage;
use tokio::time::sleep_until;

/// What is done at one moment.
#[derive(Debug, Clone, Copy)]
enum Deed {
    TakeDown { for_ms: u64 },
    Expire,
    ChangeTools,
    Storm { notices: u32 },
    Wish(UserWish),
}

/// Everything that is done to servers, in the order of time.
pub(crate) struct Script(Vec<(u64, u32, Deed)>);

impl Script {
    /// Writes out what recurs.
    pub(crate) fn of(scenario: &Scenario) -> Script {
        let mut deeds = Vec::new();
        let end_ms = scenario.duration_ms;
        let mut number = 0;
        let mut numbers = std::collections::BTreeMap::new();
        for plan in &scenario.servers {
            for name in plan.names() {
                for (at, fault) in plan.faults.iter().enumerate() {
                    // Alike servers do not flap in step, unless they are to fall at once.
                    let mut rng = Rng::of(scenario.seed, &[0xdeed, u64::from(number), at as u64]);
                    deeds
                        .extend(deeds_of(fault, end_ms, &mut rng).map(|(at_ms, deed)| (at_ms, number, deed)));
                }
                numbers.insert(name, number);
                number += 1;
            }
        }
        for action in &scenario.actions {
            if let Some(server) = numbers.get(&action.server) {
                deeds.push((action.at_ms, *server, Deed::Wish(action.what)));
            }
        }
        deeds.retain(|(at_ms, ..)| *at_ms < end_ms);
        deeds.sort_by_key(|(at_ms, ..)| *at_ms);
        Script(deeds)
    }

    /// Does everything when its time comes.
    pub(crate) async fn play(self, stage: Stage) {
        for (at_ms, server, deed) in self.0 {
            sleep_until(stage.world().moment(at_ms)).await;
            match deed {
                Deed::TakeDown { for_ms } => stage.world().take_down(server, for_ms),
                Deed::Expire => stage.world().expire(server),
                Deed::ChangeTools => stage.world().change_tools(server),
                Deed::Storm { notices } => stage.world().storm(server, notices),
                Deed::Wish(wish) => stage.wish(server, wish),
            }
        }
    }
}

fn deeds_of(fault: &Fault, end_ms: u64, rng: &mut Rng) -> Box<dyn Iterator<Item = (u64, Deed)>> {
    let mut again = |from_ms: u64, until_ms: u64, every_ms: u64, deed: Deed| {
        let from_ms = from_ms + rng.below(every_ms);
        let moments = (from_ms..until_ms.min(end_ms)).step_by(every_ms.max(1) as usize);
        Box::new(moments.map(move |at_ms| (at_ms, deed)))
    };
    match *fault {
        Fault::Down { from_ms, for_ms } => Box::new([(from_ms, Deed::TakeDown { for_ms })].into_iter()),
        Fault::Flap { from_ms, until_ms, every_ms, down_ms } => {
            again(from_ms, until_ms, every_ms, Deed::TakeDown { for_ms: down_ms })
        }
        Fault::ExpireSessions { from_ms, until_ms, every_ms } => {
            again(from_ms, until_ms, every_ms, Deed::Expire)
        }
        Fault::ChangeTools { from_ms, until_ms, every_ms } => {
            again(from_ms, until_ms, every_ms, Deed::ChangeTools)
        }
        Fault::Storm { at_ms, notices } => Box::new([(at_ms, Deed::Storm { notices })].into_iter()),
        Fault::CrashLoop { .. }
        | Fault::Slow { .. }
        | Fault::Busy { .. }
        | Fault::Lie { .. }
        | Fault::Hang { .. }
        | Fault::DieInCall { .. }
        | Fault::RotateTokens { .. } => Box::new(std::iter::empty()),
    }
}
