//! Those who call tools.

use crate::ledger::Told;
use crate::rng::Rng;
use crate::scenario::{CallerPlan, Scenario};
use crate::stage::Stage;
use callboard_core::call::{CallError, CallOptions, ToolReply};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

/// One caller, with everything that it draws.
pub(crate) struct Caller {
    number: u32,
    rng: Rng,
    plan: CallerPlan,
    /// The servers it calls.
    servers: Vec<u32>,
}

impl Caller {
    /// The callers of a scenario.
    pub(crate) fn all(scenario: &Scenario) -> Vec<Caller> {
        let mut numbers: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        let mut next = 0;
        for plan in &scenario.servers {
            let range = next..next + plan.count;
            next = range.end;
            if !plan.denied {
                numbers.entry(&plan.name).or_default().extend(range);
            }
        }
        let mut callers = Vec::new();
        for plan in &scenario.callers {
            let servers: Vec<u32> = match plan.servers.is_empty() {
                true => numbers.values().flatten().copied().collect(),
                false => plan
                    .servers
                    .iter()
                    .filter_map(|name| numbers.get(name.as_str()))
                    .flatten()
                    .copied()
                    .collect(),
            };
            for _ in 0..plan.count {
                let number = callers.len() as u32;
                let rng = Rng::of(scenario.seed, &[0xca11, u64::from(number)]);
                callers.push(Caller { number, rng, plan: plan.clone(), servers: servers.clone() });
            }
        }
        callers
    }

    /// Calls until that moment; the last call is waited for.
    pub(crate) async fn call_until(mut self, stage: Stage, until_ms: u64) {
        if self.servers.is_empty() {
            return;
        }
        loop {
            let think = self.rng.between(self.plan.think_ms).max(1);
            sleep(Duration::from_millis(think)).await;
            if stage.world().now_ms() >= until_ms {
                return;
            }
            let server = *self.rng.one_of(&self.servers);
            let timeout_ms = self.rng.between(self.plan.timeout_ms);
            let gives_up = self.rng.percent(self.plan.cancel_percent).then(|| self.rng.below(timeout_ms));
            let tool = format!("t{}", self.rng.below(u64::from(stage.tools_of(server))));
            call(&stage, server, self.number, &tool, timeout_ms, gives_up).await;
        }
    }
}

/// One call, entered in the books; gives how it ended.
pub(crate) async fn call(
    stage: &Stage,
    server: u32,
    caller: u32,
    tool: &str,
    timeout_ms: u64,
    gives_up_after: Option<u64>,
) -> &'static str {
    let Some(handle) = stage.handle(server) else { return "not-connected" };
    let deadline_ms = stage.world().now_ms() + timeout_ms;
    let number = stage.world().call_begins(server, caller, deadline_ms);
    let arguments = format!(r#"{{"n":{number}}}"#);
    let options = CallOptions {
        caller: Some(format!("caller {caller}").into()),
        ..CallOptions::with_timeout(Duration::from_millis(timeout_ms))
    };
    let calling = handle.call_tool(tool, &arguments, options);
    let ended = match gives_up_after {
        None => Some(calling.await),
        Some(after) => {
            tokio::select! {
                biased;
                ended = calling => Some(ended),
                () = sleep(Duration::from_millis(after)) => None,
            }
        }
    };
    match ended {
        None => stage.world().call_ends(number, tool, Told::GivenUp),
        Some(result) => told(stage, number, tool, &result),
    }
}

fn told(stage: &Stage, number: u64, tool: &str, result: &Result<ToolReply, CallError>) -> &'static str {
    match result {
        Ok(reply) => stage.world().call_ends(number, tool, Told::Reply(&reply.text())),
        Err(error) => stage.world().call_ends(number, tool, Told::Error(error)),
    }
}
