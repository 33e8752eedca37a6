//! Commands against real child processes: shapes, exit codes, what comes when, and what is left.

mod common;

use common::{Home, SECRET, builtin, hanging};
use serde_json::{Value, json};
use std::time::Duration;

fn two() -> Value {
    json!({ "time": builtin(&["time"]), "memory": builtin(&["memory"]) })
}

#[test]
fn status_and_tools_have_the_shapes_of_the_contract() {
    let home = Home::with(two());
    let document = home.run(&["status", "--json"]).exits(0).json();
    let state = &document["servers"][1]["state"];
    assert_eq!((&state["type"], &state["era"]), (&json!("connected"), &json!("2026-07-28")), "{document}");
    assert_eq!(state["tools"], 4, "{document}");
    assert_eq!(state["server_info"]["name"], "callboard-time");
    assert_eq!(document["servers"][0]["name"], "memory");
    let document = home.run(&["tools", "--json"]).exits(0).json();
    assert_eq!(document["unavailable"], json!([]));
    let tools = document["tools"].as_array().expect("a list");
    let now = tools.iter().find(|tool| tool["name"] == "mcp__time__now").expect("the tool");
    assert_eq!((&now["server"], &now["original_name"]), (&json!("time"), &json!("now")));
    assert_eq!((&now["is_mcp"], &now["permission"]), (&json!(true), &json!("ask")));
    assert_eq!(now["description_truncated"], false);
    assert_eq!(now["input_schema"]["type"], "object");
    let one = home.run(&["tools", "memory", "--json"]).exits(0).json();
    assert!(one["tools"].as_array().is_some_and(|tools| tools.iter().all(|tool| tool["server"] == "memory")));
}

#[test]
fn people_get_tables_and_sections() {
    let home = Home::with(two());
    let run = home.run(&["status"]).exits(0);
    assert!(run.stdout.starts_with("NAME ") && run.stdout.contains("callboard-time"), "{run:?}");
    assert_eq!(run.stderr, "");
    assert!(!run.stdout.contains('\u{1b}'));
    let run = home.run(&["list", "--health"]).exits(0);
    assert!(run.stdout.contains("connected"), "{run:?}");
    let run = home.run(&["tools"]).exits(0);
    assert!(run.stdout.contains("time  4 tools") && run.stdout.contains("  convert"), "{run:?}");
    let run = home.run(&["tools", "time", "--schema"]).exits(0);
    assert!(run.stdout.contains("string, required"), "{run:?}");
    let run = home.run(&["get", "time"]).exits(0);
    assert!(run.stdout.contains("connected") && run.stdout.contains("builtin time"), "{run:?}");
    let document = home.run(&["get", "time", "--json"]).exits(0).json();
    assert_eq!(document["entry"]["transport"]["type"], "stdio");
    assert_eq!(document["state"]["type"], "connected");
}

#[test]
fn calls_take_every_form_of_name_and_argument() {
    let home = Home::with(two());
    for words in [
        &["call", "time/now", "timezone=Europe/Vienna"][..],
        &["call", "time.now", "timezone=Europe/Vienna"],
        &["call", "mcp__time__now", "timezone=Europe/Vienna"],
        &["call", "time/now", "--args", r#"{"timezone":"Europe/Vienna"}"#],
    ] {
        let run = home.run(words).exits(0);
        assert!(run.stdout.contains("Europe/Vienna"), "{words:?}: {run:?}");
        let mut words = words.to_vec();
        words.push("--json");
        let document = home.run(&words).exits(0).json();
        assert_eq!(document["structuredContent"]["timezone"], "Europe/Vienna", "{words:?}");
    }
    let document = home.run(&["call", "time/wait", "ms=20", "steps=2", "--json"]).exits(0).json();
    assert_eq!(document["structuredContent"]["steps"], 2);
}

#[test]
fn arguments_come_from_stdin_too() {
    let home = Home::with(two());
    for words in [&["call", "time/now", "-"][..], &["call", "time/now", "--args", "-"]] {
        let mut child = home.command(words).stdin(std::process::Stdio::piped()).spawn().expect("starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut stdin, br#"{"timezone":"Asia/Tokyo"}"#).expect("writes");
        drop(stdin);
        let run = common::finish(child, std::time::Instant::now()).exits(0);
        assert!(run.stdout.contains("Asia/Tokyo"), "{run:?}");
    }
}

#[test]
fn a_call_connects_its_own_server_alone() {
    let other = json!({ "command": "sh", "args": ["-c", "touch other-started; exec sleep 1000"] });
    let home = Home::with(json!({ "time": builtin(&["time"]), "other": other }));
    let run = home.run(&["call", "time/now"]).exits(0);
    assert!(run.took < Duration::from_secs(10), "{run:?}");
    home.run(&["call", "mcp__time__now"]).exits(0);
    assert!(!home.path().join("other-started").exists());
}

#[test]
fn a_call_fails_with_the_code_of_its_cause() {
    let home = Home::with(json!({
        "time": builtin(&["time"]),
        "dead": { "command": "sh", "args": ["-c", "read line; echo it broke >&2; exit 3"] },
        "missing": { "command": "no-such-program-anywhere" },
    }));
    let run = home.run(&["call", "time/nwo"]).exits(5);
    assert!(
        run.stderr.contains("no tool \"nwo\"") && run.stderr.contains("did you mean \"time/now\"?"),
        "{run:?}"
    );
    assert_eq!(home.run(&["call", "mcp__time__nwo", "--json"]).exits(5).error()["code"], "unknown-tool");
    let run = home.run(&["call", "time/now", "timezone=Mars/Base"]).exits(5);
    assert!(run.stderr.contains("reports an error") && run.stderr.contains("it takes timezone"), "{run:?}");
    let run = home.run(&["call", "time/now", "timezone=Mars/Base", "--json"]).exits(5);
    assert_eq!(run.json()["isError"], true);
    assert_eq!(run.error()["code"], "tool-error");
    let run = home.run(&["call", "time/wait", "ms=soon"]).exits(1);
    assert!(run.stderr.contains("\"soon\" is not of type integer"), "{run:?}");
    home.run(&["call", "time/now", "--args", "[1]"]).exits(1);
    home.run(&["call", "time"]).exits(1);
    let error = home.run(&["call", "dead/x", "--json"]).exits(4).error();
    assert_eq!(error["server"], "dead");
    assert!(error["stderr_tail"].as_str().is_some_and(|tail| tail.contains("it broke")), "{error}");
    let run = home.run(&["call", "missing/x"]).exits(4);
    assert!(
        run.stderr.contains("no-such-program-anywhere") && run.stderr.contains("hint: install"),
        "{run:?}"
    );
}

#[test]
fn a_timeout_bounds_a_call() {
    let home = Home::with(two());
    let run = home.run(&["call", "time/wait", "ms=60000", "--timeout", "1s", "--json"]).exits(4);
    assert!(run.took < Duration::from_secs(10), "{run:?}");
    assert_eq!(run.error()["code"], "timed-out");
}

#[test]
fn a_hanging_server_delays_nobody_and_is_shown_as_pending() {
    let home = Home::with(json!({ "hang": hanging(), "time": builtin(&["time"]) }));
    let run = home.run(&["status", "--timeout", "2s"]).exits(8);
    let rows: Vec<&str> =
        run.stdout.lines().map(|line| line.split_whitespace().next().unwrap_or("")).collect();
    assert_eq!(rows[..3], ["NAME", "time", "hang"], "{run:?}");
    assert!(run.stdout.contains("pending") && run.took < Duration::from_secs(12), "{run:?}");
    let run = home.run(&["status", "--timeout", "2s", "--json"]).exits(8);
    let document = run.json();
    assert_eq!(document["servers"][0]["state"]["type"], "pending");
    assert_eq!(document["servers"][1]["state"]["type"], "connected");
    assert_eq!(run.error()["code"], "unhealthy");
    let run = home.run(&["tools", "--timeout", "2s", "--json"]).exits(8);
    let document = run.json();
    assert_eq!(document["unavailable"][0]["server"], "hang");
    assert_eq!(document["tools"].as_array().map(Vec::len), Some(4));
    home.run(&["get", "hang", "--timeout", "1s"]).exits(4);
}

#[test]
fn dead_servers_are_named_and_exit_8() {
    let home = Home::with(json!({
        "a": { "command": "no-such-program-anywhere" },
        "b": { "command": "sh", "args": ["-c", "read line; echo my last words >&2; exit 3"] },
        "c": { "url": "http://127.0.0.1:9/mcp" },
    }));
    for words in [&["list", "--health"][..], &["doctor"]] {
        let run = home.run(words).exits(8);
        assert!(run.stderr.contains("3 of 3 servers are unhealthy: a (failed), b (failed), c ("), "{run:?}");
        assert!(run.stdout.contains("my last words"), "{run:?}");
    }
    let document = home.run(&["doctor", "--json"]).exits(8).json();
    assert_eq!(document["ok"], false);
    assert!(document["servers"][1]["state"]["class"].is_string(), "{document}");
}

#[test]
fn resources_and_prompts() {
    let home = Home::new();
    let docs = home.path().join("docs");
    std::fs::create_dir(&docs).expect("a folder");
    std::fs::write(docs.join("a.txt"), "hello\n").expect("writes");
    std::fs::write(docs.join("b.png"), [0x89, 0x50, 0x4e, 0x47, 0, 1, 2]).expect("writes");
    let servers =
        json!({ "files": builtin(&["files", &docs.to_string_lossy()]), "memory": builtin(&["memory"]) });
    home.write("servers.json", &json!({ "mcpServers": servers }).to_string());
    let document = home.run(&["resources", "--json"]).exits(0).json();
    let resources = document["resources"].as_array().expect("a list");
    let uri = |name: &str| {
        let found = resources.iter().find(|resource| resource["name"] == name).expect("the resource");
        found["uri"].as_str().expect("a text").to_owned()
    };
    assert_eq!(resources[0]["server"], "files");
    assert_eq!(home.run(&["read", "files", &uri("a.txt")]).exits(0).stdout, "hello\n");
    let run = home.run(&["read", "files", &uri("b.png")]).exits(0);
    assert!(run.stdout.contains("7 bytes"), "{run:?}");
    home.run(&["read", "files", &uri("b.png"), "--save", "out"]).exits(0);
    assert_eq!(std::fs::read(home.path().join("out/b.png")).expect("saved").len(), 7);
    let document = home.run(&["read", "files", &uri("a.txt"), "--json"]).exits(0).json();
    assert_eq!(document["contents"][0]["text"], "hello\n");
    home.run(&["read", "files", "file:///no/such/file"]).exits(5);
    home.run(&["resources"]).exits(0);
    let document = home.run(&["prompts", "--json"]).exits(0).json();
    assert_eq!(document["prompts"][0]["server"], "memory", "{document}");
    let run = home.run(&["prompts", "memory"]).exits(0);
    assert!(run.stdout.contains("take_notes"), "{run:?}");
    let run = home.run(&["prompt", "memory/take_notes", "topic=stage lights"]).exits(0);
    assert!(run.stdout.contains("user:") && run.stdout.contains("stage lights"), "{run:?}");
    let run = home.run(&["prompt", "memory/take_nots", "topic=x"]).exits(5);
    assert!(run.stderr.contains("memory/take_notes"), "{run:?}");
    home.run(&["prompt", "memory/use_note"]).exits(1);
    home.run(&["prompt", "memory/take_notes", "tpoic=x"]).exits(1);
}

#[test]
fn no_command_prints_a_planted_secret() {
    let talker = json!({
        "command": "sh",
        "args": ["-c", "read line; echo the token is $TOKEN, and $1 >&2; exit 3", "sh", SECRET],
        "env": { "TOKEN": SECRET },
    });
    let remote = json!({
        "url": format!("http://joe:{SECRET}@127.0.0.1:9/mcp?api_key={SECRET}"),
        "headers": { "Authorization": format!("Bearer {SECRET}") },
    });
    let home = Home::with(json!({ "talker": talker, "remote": remote, "time": builtin(&["time"]) }));
    for words in [
        &["list"][..],
        &["list", "--health"],
        &["status"],
        &["status", "--json"],
        &["tools"],
        &["tools", "--json"],
        &["resources", "--json"],
        &["prompts", "--json"],
        &["get", "talker"],
        &["get", "talker", "--json"],
        &["get", "remote"],
        &["get", "remote", "--json"],
        &["call", "talker/x"],
        &["call", "talker/x", "--json"],
        &["call", "remote/x", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["config", "show", "--json"],
    ] {
        let run = home.run(words);
        assert!(!format!("{run:?}").contains(SECRET), "{words:?}: {run:?}");
    }
}

#[test]
fn the_demo_shows_a_child_that_comes_back() {
    let home = Home::new();
    let run = home.run(&["demo"]).exits(0);
    assert!(run.took < Duration::from_secs(20), "{run:?}");
    for part in ["mcp__memory__recall", "lights at nine", "SIGKILL", "connected", "Europe/Vienna"] {
        assert!(run.stdout.contains(part), "{part}: {run:?}");
    }
    let run = home.run(&["demo", "--json"]).exits(0);
    let steps: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    assert!(steps.iter().any(|step| step["step"] == "kill"));
    let last = steps.last().expect("steps");
    assert_eq!((&last["step"], &last["tool"]), (&json!("call"), &json!("mcp__time__now")));
}

#[test]
fn a_server_that_tells_its_own_secret_is_not_quoted() {
    let script = r#"while read -r line; do case "$line" in
        *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"t","version":"%s"}}}\n' "$(id "$line")" "$T";;
        *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","description":"with %s","inputSchema":{"type":"object","properties":{"p":{"type":"string","description":"%s"}}}}]}}\n' "$(id "$line")" "$T" "$T";;
        *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not with %s"}}\n' "$(id "$line")" "$T";;
    esac; done"#;
    let script = format!("id() {{ printf '%s' \"$1\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/'; }}\n{script}");
    let home =
        Home::with(json!({ "t": { "command": "sh", "args": ["-c", script], "env": { "T": SECRET } } }));
    for words in
        [&["tools"][..], &["tools", "--schema"], &["tools", "--json"], &["logs", "t", "--level", "info"]]
    {
        let run = home.run(words).exits(0);
        let text = format!("{}{}", run.stdout, run.stderr);
        assert!(text.contains("with ***") && !text.contains(SECRET), "{words:?}: {run:?}");
    }
}
