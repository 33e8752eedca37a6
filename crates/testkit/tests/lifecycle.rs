//! The cases of kind `lifecycle-sim` in `tests/cases`, played in the simulated world.

use callboard_testkit::{Scenario, ServerPlan, Stage, Transport, play};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[derive(Deserialize, Clone)]
struct Case {
    id: String,
    kind: String,
    input: serde_json::Value,
    #[serde(default)]
    expect: serde_json::Value,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Input {
    script: Vec<Step>,
}

#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields)]
struct Step {
    server: Option<String>,
    tools: Option<Vec<String>>,
    connect: Option<bool>,
    until: Option<String>,
    call: Option<String>,
    wait_ms: Option<u64>,
    late_close_of_generation: Option<u64>,
}

#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields)]
struct Expect {
    attempt_gaps_ms: Option<Vec<u64>>,
    state: Option<String>,
    generation: Option<u64>,
    calls: Option<Vec<Called>>,
    received: Option<BTreeMap<String, u64>>,
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Called {
    tool: String,
    outcome: String,
}

/// What was seen when the script was over.
struct Seen {
    at_ms: u64,
    state: &'static str,
    generation: u64,
    calls: Vec<Called>,
    received: BTreeMap<String, u64>,
}

const NAME: &str = "server";
/// What a script may wait for anything.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// What one call of a script may take.
const CALL_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn every_case() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let mut played = 0;
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).expect("the cases").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a case");
        let Ok(case) = serde_json::from_str::<Case>(&text) else { continue };
        if case.kind == "lifecycle-sim" {
            let input: Input = serde_json::from_value(case.input).expect(&case.id);
            let expect: Expect = serde_json::from_value(case.expect).expect(&case.id);
            for transport in [Transport::Stdio, Transport::Ws] {
                check(&case.id, transport, &input, &expect);
            }
            played += 1;
        }
    }
    assert!(played >= 3, "{played} cases");
}

fn check(id: &str, transport: Transport, input: &Input, expect: &Expect) {
    let plan = ServerPlan { answer_ms: [1, 1], dial_ms: [1, 1], ..ServerPlan::new(NAME, transport) };
    let scenario = Scenario { title: id.to_owned(), servers: vec![plan], ..minimal() };
    let script = input.script.clone();
    let (recording, seen) = play(&scenario, |stage| act(stage, script)).expect("plays");
    let on = format!("{id} over {}", transport.as_str());
    assert_eq!(recording.broken, [], "{on}");
    if let Some(gaps) = &expect.attempt_gaps_ms {
        let bands = recording.servers[0].bands.iter().filter(|band| band.to_ms <= seen.at_ms);
        let backing_off = bands.filter(|band| band.state == "backing-off");
        assert_eq!(backing_off.map(|band| band.to_ms - band.from_ms).collect::<Vec<_>>(), *gaps, "{on}");
    }
    if let Some(state) = &expect.state {
        assert_eq!(seen.state, state, "{on}");
    }
    if let Some(generation) = expect.generation {
        assert_eq!(seen.generation, generation, "{on}");
    }
    if let Some(calls) = &expect.calls {
        assert_eq!(seen.calls, *calls, "{on}");
    }
    if let Some(received) = &expect.received {
        assert_eq!(seen.received, *received, "{on}");
    }
}

fn minimal() -> Scenario {
    Scenario::from_toml("duration_ms = 3600000\n[[servers]]\nname = \"server\"").expect("a scenario")
}

async fn act(stage: Stage, script: Vec<Step>) -> Seen {
    let ended = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut calls = tokio::task::JoinSet::new();
    for step in script {
        if let Some(tools) = step.tools {
            stage.set_tools(NAME, tools);
        }
        match step.server.as_deref() {
            None => {}
            Some("up") => stage.bring_up(NAME),
            Some("down") => stage.take_down(NAME),
            Some("drop") => {
                // A loss is there before what follows it.
                stage.drop_links(NAME);
                stage.wait(Duration::from_millis(1)).await;
            }
            Some(other) => panic!("a server that is {other}"),
        }
        if step.connect == Some(true) {
            stage.server(NAME).expect("a server").connect(Some(PATIENCE)).await.expect("connects");
        }
        if let Some(tool) = step.call {
            let (stage, ended) = (stage.clone(), ended.clone());
            calls.spawn(async move {
                let outcome = stage.call(NAME, &tool, CALL_LIMIT).await.to_owned();
                ended.lock().expect("no panic").push(Called { tool, outcome });
            });
        }
        if let Some(generation) = step.late_close_of_generation {
            stage.late_close(NAME, generation);
        }
        if let Some(ms) = step.wait_ms {
            stage.wait(Duration::from_millis(ms)).await;
        }
        match step.until.as_deref() {
            None => {}
            Some("quiet") => {
                while calls.join_next().await.is_some() {}
                until(&stage, |stage| state(stage) != "pending").await;
            }
            Some(word) => until(&stage, |stage| state(stage) == word).await,
        }
    }
    while calls.join_next().await.is_some() {}
    let handle = stage.server(NAME).expect("a server");
    let calls = ended.lock().expect("no panic").clone();
    Seen {
        at_ms: stage.now_ms(),
        state: state(&stage),
        generation: handle.status().generation,
        calls,
        received: stage.performed(NAME),
    }
}

fn state(stage: &Stage) -> &'static str {
    stage.server(NAME).expect("a server").state().word()
}

async fn until(stage: &Stage, is_so: impl Fn(&Stage) -> bool) {
    let limit_ms = stage.now_ms() + PATIENCE.as_millis() as u64;
    while !is_so(stage) {
        assert!(stage.now_ms() < limit_ms, "never became so");
        stage.wait(Duration::from_millis(1)).await;
    }
}
