//! Making a scenario that breaks an invariant smaller, while it still breaks the same one.

use crate::run::run;
use crate::scenario::Scenario;
use std::borrow::Cow;

/// The smallest scenario that was found within so many runs, and the invariant that it breaks. None when the
/// scenario breaks nothing.
///
/// ```
/// use callboard_testkit::{Scenario, shrink};
///
/// let good = Scenario::from_toml("duration_ms = 1000\n[[servers]]\nname = \"a\"")?;
/// assert!(shrink(&good, 10).is_none());
/// # Ok::<(), callboard_testkit::ScenarioError>(())
/// ```
pub fn shrink(scenario: &Scenario, runs_max: usize) -> Option<(Scenario, Cow<'static, str>)> {
    let invariant = broken_by(scenario)?;
    let mut smallest = scenario.clone();
    let mut left = runs_max;
    while let Some(smaller) = smaller_one(&smallest, &invariant, &mut left) {
        smallest = smaller;
    }
    smallest.title = format!("breaks {invariant}; shrunk from {}", scenario.title);
    Some((smallest, invariant))
}

fn broken_by(scenario: &Scenario) -> Option<Cow<'static, str>> {
    run(scenario).ok()?.broken.first().map(|broken| broken.invariant.clone())
}

fn smaller_one(scenario: &Scenario, invariant: &str, left: &mut usize) -> Option<Scenario> {
    for smaller in smaller_ones(scenario) {
        *left = left.checked_sub(1)?;
        if smaller.problems().is_empty() && broken_by(&smaller).is_some_and(|broken| broken == invariant) {
            return Some(smaller);
        }
    }
    None
}

/// Everything that could be left out, the most first.
fn smaller_ones(scenario: &Scenario) -> impl Iterator<Item = Scenario> {
    let mut candidates = Vec::new();
    let mut with = |change: &dyn Fn(&mut Scenario)| {
        let mut smaller = scenario.clone();
        change(&mut smaller);
        forget_the_unknown(&mut smaller);
        if smaller != *scenario {
            candidates.push(smaller);
        }
    };
    for parts in [2, 4, 8, scenario.servers.len()] {
        for part in 0..parts.min(scenario.servers.len()) {
            with(&|s| leave_out(&mut s.servers, part, parts));
        }
    }
    with(&|s| s.actions.clear());
    for part in 0..4 {
        with(&|s| leave_out(&mut s.actions, part, 4));
    }
    for caller in 0..scenario.callers.len() {
        with(&|s| drop(s.callers.remove(caller)));
        with(&|s| s.callers[caller].count = s.callers[caller].count.div_ceil(2));
        with(&|s| s.callers[caller].cancel_percent = 0);
    }
    with(&|s| s.duration_ms /= 2);
    with(&|s| s.duration_ms = s.duration_ms / 4 * 3);
    for server in 0..scenario.servers.len() {
        with(&|s| s.servers[server].count = s.servers[server].count.div_ceil(2));
        for fault in 0..scenario.servers[server].faults.len() {
            with(&|s| {
                s.servers[server].faults.remove(fault);
            });
        }
    }
    for key in scenario.settings.keys() {
        with(&|s| drop(s.settings.remove(key)));
    }
    candidates.into_iter()
}

/// Leaves out one of so many parts.
fn leave_out<T>(items: &mut Vec<T>, part: usize, parts: usize) {
    let (from, to) = (items.len() * part / parts.max(1), items.len() * (part + 1) / parts.max(1));
    items.drain(from..to);
}

/// Callers and actions of servers that are gone.
fn forget_the_unknown(scenario: &mut Scenario) {
    let plans: Vec<String> = scenario.servers.iter().map(|plan| plan.name.clone()).collect();
    let names: Vec<String> = scenario.servers.iter().flat_map(|plan| plan.names()).collect();
    scenario.actions.retain(|action| names.contains(&action.server));
    scenario.callers.retain_mut(|caller| {
        let called_all = caller.servers.is_empty();
        caller.servers.retain(|name| plans.contains(name));
        called_all || !caller.servers.is_empty()
    });
}
