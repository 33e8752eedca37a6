//! Fetching a list: all pages, item by item, within bounds.

use crate::call::CallError;
use crate::catalog::ItemList;
use crate::conn_core::{ConnCore, Outgoing, clocks_for};
use crate::dialect::Outline;
use callboard_protocol::list::{ListKind, ListProblem, Page};
use callboard_protocol::{Era, HeaderPlan, code};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// First pause before a list is asked for again, doubled each time.
const RETRY_GAP: Duration = Duration::from_millis(250);

/// Fetches a whole list; failures that may pass are retried shortly.
///
/// # Errors
/// The failure of the first page that could not be had.
pub(crate) async fn fetch(core: &Arc<ConnCore>, kind: ListKind) -> Result<ItemList, CallError> {
    let mut gap = RETRY_GAP;
    let mut left = core.env.settings.catalog_list_retries_max;
    loop {
        match fetch_pages(core, kind).await {
            Err(error) if left > 0 && may_pass(&error) && core.closed().is_none() => {
                left -= 1;
                sleep(gap).await;
                gap *= 2;
            }
            done => return done,
        }
    }
}

/// None on auth, 4xx, time limits, or an answer of the server (behaviour profile §5.4).
fn may_pass(error: &CallError) -> bool {
    match error {
        CallError::Lost { reason, .. } => reason.is_retryable() && reason.http_status() != Some(404),
        _ => false,
    }
}

async fn fetch_pages(core: &Arc<ConnCore>, kind: ListKind) -> Result<ItemList, CallError> {
    let mut gathered = Gathered::default();
    let mut restarted = false;
    for _ in 0..core.env.settings.catalog_pages_max {
        let raw = match page(core, kind, gathered.cursor.as_deref()).await {
            Err(CallError::Remote(error))
                if error.code == code::INVALID_PARAMS && gathered.cursor.is_some() && !restarted =>
            {
                // The cursor has become invalid: what was gathered under it is void (pagination, 2026-07-28).
                restarted = true;
                gathered = Gathered::default();
                continue;
            }
            answer => answer?,
        };
        let page = Page::read(kind, &raw).map_err(CallError::Invalid)?;
        match page.result_type.as_deref() {
            None | Some("complete") => {}
            Some(other) => {
                return Err(CallError::Invalid(format!(
                    "resultType {other:?} is not allowed for {}",
                    kind.method()
                )));
            }
        }
        if !gathered.add(page) {
            return Ok(gathered.into_list(core, kind));
        }
    }
    let message = format!("more than {} pages (catalog.pages_max)", core.env.settings.catalog_pages_max);
    gathered.problems.push(ListProblem { item: kind.key().into(), message });
    Ok(gathered.into_list(core, kind))
}

async fn page(core: &Arc<ConnCore>, kind: ListKind, cursor: Option<&str>) -> Result<bytes::Bytes, CallError> {
    let session = core.session().ok_or(CallError::Closed)?;
    let params = match cursor {
        Some(cursor) => Cow::Owned(format!(r#"{{"cursor":{cursor}}}"#)),
        // Some legacy servers refuse a request without params.
        None => Cow::Borrowed("{}"),
    };
    let limit = core.env.settings.request_timeout;
    let outgoing = Outgoing {
        outline: Outline { method: kind.method(), params, ..Outline::default() },
        clocks: clocks_for(core.env.settings.http_first_byte_timeout, Duration::ZERO, limit, Instant::now()),
        progress: None,
        is_listen: false,
        started: Instant::now(),
        early_headers: Vec::new(),
    };
    core.request(&*session.dialect, outgoing).await
}

#[derive(Default)]
struct Gathered {
    items: Vec<callboard_protocol::list::Item>,
    problems: Vec<ListProblem>,
    cursor: Option<String>,
    seen: BTreeSet<String>,
    ttl: Option<Duration>,
    public: Option<bool>,
}

impl Gathered {
    /// Takes a page; true when another one follows.
    fn add(&mut self, page: Page) -> bool {
        self.items.extend(page.items);
        self.problems.extend(page.problems);
        let ttl = Duration::from_millis(page.ttl_ms);
        self.ttl = Some(self.ttl.map_or(ttl, |least| least.min(ttl)));
        self.public = Some(self.public.unwrap_or(true) && page.public);
        let Some(cursor) = page.next_cursor else { return false };
        let cursor = callboard_protocol::json::text(&cursor).to_owned();
        if !self.seen.insert(cursor.clone()) {
            let message = format!("the cursor {} came twice; the list ends there", short(&cursor));
            self.problems.push(ListProblem { item: "nextCursor".into(), message });
            return false;
        }
        self.cursor = Some(cursor);
        true
    }

    fn into_list(mut self, core: &ConnCore, kind: ListKind) -> ItemList {
        let modern_http = core.is_exchange() && core.session().is_some_and(|s| s.era() == Era::Modern);
        if kind == ListKind::Tools && modern_http {
            self.drop_unmirrorable();
        }
        let plans = match kind == ListKind::Tools && modern_http {
            true => plans(&self.items),
            false => HashMap::new(),
        };
        let mut list = ItemList::new(kind, self.items, self.problems);
        list.plans = plans;
        list.ttl = self.ttl.unwrap_or_default().min(TTL_MAX);
        list.public = self.public.unwrap_or(false);
        list
    }

    /// Tools whose header annotations are not allowed must not be offered over HTTP; the first of equal names
    /// stays, so positions of what is left are final.
    fn drop_unmirrorable(&mut self) {
        let problems = &mut self.problems;
        let mut names = BTreeSet::new();
        self.items.retain(|item| {
            if !names.insert(item.key.clone()) {
                let message = "stands twice; the first one counts".to_owned();
                problems.push(ListProblem { item: item.key.to_string(), message });
                return false;
            }
            match plan_of(item) {
                Ok(_) => true,
                Err(error) => {
                    problems.push(ListProblem { item: item.key.to_string(), message: error.to_string() });
                    false
                }
            }
        });
    }
}

/// Longest reuse that a server may allow.
const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

fn plan_of(item: &callboard_protocol::list::Item) -> Result<HeaderPlan, callboard_protocol::HeaderPlanError> {
    let view = callboard_protocol::list::ToolView::read(&item.raw);
    match view.and_then(|view| view.input_schema) {
        Some(schema) => HeaderPlan::of_schema(schema.get()),
        None => Ok(HeaderPlan::default()),
    }
}

fn plans(items: &[callboard_protocol::list::Item]) -> HashMap<usize, HeaderPlan> {
    let plans = items.iter().enumerate().filter_map(|(position, item)| {
        let plan = plan_of(item).ok()?;
        (!plan.is_empty()).then_some((position, plan))
    });
    plans.collect()
}

fn short(cursor: &str) -> &str {
    callboard_protocol::text::cut(cursor, 40).0
}
