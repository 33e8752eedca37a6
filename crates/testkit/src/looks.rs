//! What a world looks at from time to time: everything that must have happened by now, and what an agent sees.

use crate::model::Stand;
use crate::stage::Stage;
use std::time::Duration;
use tokio::time::sleep;

/// Looks between two looks at the catalog, which costs more.
const CATALOG_EVERY: u32 = 6;
/// Servers up to which the catalog is looked at on the way; in larger worlds it is at the end alone.
const CATALOG_SERVERS_MAX: usize = 500;
/// How long a list may be behind a change: the longest pause in a storm, the limit of one request, and a margin.
const LIST_BEHIND_MS: u64 = 100_000;

/// Looks at the world again and again.
pub(crate) async fn look_again_and_again(stage: Stage, every: Duration) {
    let mut looks: u32 = 0;
    loop {
        sleep(every).await;
        stage.world().look_around();
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(CATALOG_EVERY) && stage.servers_len() <= CATALOG_SERVERS_MAX {
            look_at_catalog(&stage);
        }
    }
}

/// What an agent sees: names that were known still route, whatever their server does, and a list that counts as
/// fresh is the one that the server has.
pub(crate) fn look_at_catalog(stage: &Stage) {
    let (world, catalog, now) = (stage.world(), stage.catalog(), stage.now_ms());
    for (server, handle) in stage.handles() {
        let known = catalog.servers.get(handle.name());
        let list = known.and_then(|known| known.tools.as_ref());
        let offer = world.offer(server);
        if offer.is_listed && list.is_none() {
            world.broke("names-route", Some(server), "its tools were known, and their names are gone".into());
        }
        let Stand::Connected { since_ms } = world.stand(server) else { continue };
        let is_settled = now > offer.changed_ms.max(since_ms) + LIST_BEHIND_MS;
        let Some(list) = list.filter(|_| is_settled && offer.tells_changes) else { continue };
        if known.is_none_or(|known| known.stale) {
            continue;
        }
        let mut listed: Vec<&str> = list.items.iter().map(|item| &*item.key).collect();
        let mut offered: Vec<&str> = offer.tools.iter().map(String::as_str).collect();
        listed.sort_unstable();
        offered.sort_unstable();
        if listed != offered {
            let detail = format!("offers {offered:?}, and {listed:?} is listed");
            world.broke("catalog-true", Some(server), detail);
        }
    }
}
