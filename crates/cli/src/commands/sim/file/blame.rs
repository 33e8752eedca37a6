//! Which part of a file does not fit: each one is tried alone among sound servers.

use super::{DURATION_MS, File, judged};
use callboard_testkit::{Scenario, ServerPlan};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// The first place in the file at which something does not fit, in bytes; none when it is no single part.
pub(super) fn place(text: &str, file: &File, scenario: &Scenario) -> Option<usize> {
    let base = sound(scenario)?;
    let fails = |part: Scenario| judged(&part).is_err();
    let mut places: Vec<usize> = Vec::new();
    let duration = file
        .duration_ms
        .iter()
        .filter(|_| fails(Scenario { duration_ms: scenario.duration_ms, ..base.clone() }));
    places.extend(duration.map(|written| written.span().start));
    let settings = file.settings.iter().filter(|(key, text)| {
        let settings = BTreeMap::from([((*key).clone(), text.get_ref().clone())]);
        fails(Scenario { settings, ..base.clone() })
    });
    places.extend(settings.map(|(_, written)| written.span().start));
    let mut seen = BTreeSet::new();
    let names = names(text);
    let servers = names.iter().filter(|name| {
        let mut plans = scenario.servers.iter().filter(|plan| plan.name == *name.get_ref() && plan.count > 0);
        !seen.insert(name.get_ref())
            || plans.any(|plan| fails(Scenario { servers: vec![plan.clone()], ..base.clone() }))
    });
    places.extend(servers.map(|name| name.span().start));
    let callers = file
        .callers
        .iter()
        .filter(|caller| fails(Scenario { callers: vec![caller.get_ref().clone()], ..base.clone() }));
    places.extend(callers.map(|written| written.span().start));
    let actions = file
        .actions
        .iter()
        .filter(|action| fails(Scenario { actions: vec![action.get_ref().clone()], ..base.clone() }));
    places.extend(actions.map(|written| written.span().start));
    places.into_iter().min()
}

/// The servers of the scenario by their names alone, to try a part among; none without a server.
fn sound(scenario: &Scenario) -> Option<Scenario> {
    let peopled = scenario.servers.iter().filter(|plan| plan.count > 0);
    let by_name: BTreeMap<&str, &ServerPlan> = peopled.map(|plan| (plan.name.as_str(), plan)).collect();
    let plain = |plan: &ServerPlan| ServerPlan {
        count: plan.count,
        ..ServerPlan::new(plan.name.clone(), plan.transport)
    };
    let servers: Vec<ServerPlan> = by_name.into_values().map(plain).collect();
    (!servers.is_empty()).then(|| Scenario {
        duration_ms: DURATION_MS,
        settings: BTreeMap::new(),
        servers,
        callers: Vec::new(),
        actions: Vec::new(),
        ..scenario.clone()
    })
}

#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    servers: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: Spanned<String>,
}

/// The names of the servers where they stand. The text has been read before and is sound TOML.
fn names(text: &str) -> Vec<Spanned<String>> {
    let names: Vec<Named> = toml::from_str(text).map(|names: Names| names.servers).unwrap_or_default();
    names.into_iter().map(|named| named.name).collect()
}
