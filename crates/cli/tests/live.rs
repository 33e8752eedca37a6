//! Commands that go on: what they print, how they follow the configuration, how they end.
#![cfg(unix)]

mod common;

use common::{Home, Run, builtin, finish};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A legacy server in shell: it logs when it is told a level, and writes down what it is sent.
const LOGGING: &str = r#"
    printf 'begun \033[31mred\n' >&2
    while read -r line; do
        printf '%s\n' "$line" >> "$HOME/seen"
        id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
        case "$line" in
            *'"initialize"'*) say='"result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"1"},"capabilities":{"logging":{},"tools":{}}}' ;;
            *'logging/setLevel'*)
                printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"too little"}}\n'
                printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"told \\u001b[2J"}}\n'
                say='"result":{}' ;;
            *'"tools/list"'*) say='"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}' ;;
            *'"tools/call"'*) say='"result":{"content":[{"type":"text","text":"done"}]}' ;;
            *) say='"error":{"code":-32601,"message":"no"}' ;;
        esac
        [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$say"
    done
"#;

fn logging() -> Value {
    json!({ "command": "sh", "args": ["-c", LOGGING], "protocol_era": "legacy" })
}

/// A command that goes on, and its output line by line.
struct Going {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Going {
    fn start(home: &Home, words: &[&str]) -> Going {
        let mut child = home.command(words).spawn().expect("starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let err = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        Going { child, out, err }
    }

    fn object(&mut self) -> Value {
        let line = self.out.next().expect("goes on").expect("reads");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn report(&mut self) -> Value {
        let line = self.err.next().expect("goes on").expect("reads");
        serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line}"))["reload"]
            .clone()
    }

    /// Reads events until this one has come of this server.
    fn until(&mut self, server: &str, event: &str, state: Option<&str>) {
        loop {
            let object = self.object();
            let is_state = state.is_none_or(|state| object["state"] == state);
            if object["server"] == server && object["event"] == event && is_state {
                return;
            }
        }
    }

    fn signal(&self, signal: libc::c_int) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a pid");
        // SAFETY: kill takes plain numbers and touches no memory of ours.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Ends it by Ctrl-C, within a second.
    fn interrupt(self, home: &Home) -> Run {
        self.signal(libc::SIGINT);
        let run = finish(self.child, Instant::now()).exits(130);
        assert!(run.took < Duration::from_secs(1), "{run:?}");
        home.assert_nothing_left();
        run
    }
}

fn one(pids: Vec<i32>) -> i32 {
    assert_eq!(pids.len(), 1, "{pids:?}");
    pids[0]
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_changed_configuration_is_followed_and_what_did_not_change_does_not_flap() {
    let write = |home: &Home, servers: Value| {
        // As editors do it: a new file in the place of the old one.
        let next = home.write("next", &json!({ "mcpServers": servers }).to_string());
        std::fs::rename(next, home.path().join("servers.json")).expect("moves");
    };
    let home = Home::with(json!({
        "kept": builtin(&["time"]), "changed": builtin(&["memory"]), "removed": builtin(&["files", "."]),
    }));
    let mut events = Going::start(&home, &["events", "--json"]);
    let mut waiting = vec!["kept", "changed", "removed"];
    while !waiting.is_empty() {
        let event = events.object();
        // The last thing that a start brings.
        if event["event"] == "list-fetched" {
            waiting.retain(|name| event["server"] != *name);
        }
    }
    let pid = |part: &str| one(home.pids(part));
    let (kept, changed) = (pid("builtin time"), pid("builtin memory"));

    let mut other = builtin(&["memory"]);
    other["env"] = json!({ "K": common::SECRET });
    write(&home, json!({ "kept": builtin(&["time"]), "changed": other, "added": builtin(&["files", "."]) }));
    let report = events.report();
    assert_eq!(
        report,
        json!({ "outcome": "applied", "added": ["added"], "replaced": ["changed"], "removed": ["removed"], "problems": [], "settings_wait": false })
    );
    let mut waiting = vec!["changed", "added"];
    while !waiting.is_empty() {
        let event = events.object();
        assert_ne!(event["server"], "kept", "{event}");
        if event["state"] == "connected" {
            waiting.retain(|name| event["server"] != *name);
        }
    }
    wait_until("the old ones go", || {
        home.pids("builtin memory").len() == 1 && home.pids("builtin files").len() == 1
    });
    assert_eq!(pid("builtin time"), kept);
    assert_ne!(pid("builtin memory"), changed);

    // A fault keeps everything, and says where it is and what to do.
    home.write("servers.json", "{\"mcpServers\": {\n\"kept\": {\"command\": \"x\",\n");
    let report = events.report();
    assert_eq!(report["outcome"], "kept");
    assert_eq!(report["problems"][0]["code"], "file-invalid");
    assert!(report["problems"][0]["line"].as_u64() >= Some(2), "{report}");
    assert!(report["problems"][0]["hint"].as_str().is_some_and(|hint| hint.contains("correct it there")));
    assert_eq!(pid("builtin time"), kept);

    events.signal(libc::SIGHUP);
    assert_eq!(events.report()["outcome"], "kept", "SIGHUP reads it again");
    write(&home, json!({ "kept": builtin(&["time"]) }));
    assert_eq!(events.report()["removed"], json!(["added", "changed"]));
    events.signal(libc::SIGHUP);
    assert_eq!(events.report()["outcome"], "same");
    assert_eq!(pid("builtin time"), kept);
    events.interrupt(&home);
}

#[test]
fn events_end_when_all_are_in_the_state_or_the_time_is_up() {
    let home = Home::with(json!({ "time": builtin(&["time"]), "bad": { "command": "no-such-program" } }));
    let run = home.run(&["events", "time", "--until", "connected"]).exits(0);
    assert!(run.stdout.lines().any(|line| line.ends_with("time  #1  connected")), "{run:?}");
    let run = home.run(&["events", "--until", "connected", "--timeout", "2s", "--json"]).exits(4);
    assert_eq!(run.error()["code"], "timed-out");
    assert!(run.error()["message"].as_str().is_some_and(|text| text.contains("bad (failed)")));
    home.run(&["events", "time", "--timeout", "1s"]).exits(0);
    let run = home.run(&["events", "tiem"]).exits(1);
    assert!(run.stderr.contains("did you mean \"time\"?"), "{run:?}");
}

#[test]
fn a_stream_whose_reader_has_gone_ends_without_another_event() {
    let home = Home::with(json!({ "time": builtin(&["time"]) }));
    for words in [&["events", "--json"][..], &["logs", "time", "-f"], &["status", "--watch", "--json"]] {
        let mut child = home.command(words).spawn().expect("starts");
        wait_until("it starts", || !home.pids("builtin time").is_empty());
        drop(child.stdout.take());
        let run = finish(child, Instant::now());
        assert!(run.stderr.is_empty(), "{run:?}");
        home.assert_nothing_left();
    }
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_server() {
    // Fills any pipe, and then goes on: the child must not be stopped by a full one.
    let flood = "i=0; while [ $i -lt 20000 ]; do echo \"line $i of many, long enough to fill a pipe\" >&2; i=$((i+1)); done; touch \"$HOME/done\"; exec sleep 1000";
    let home = Home::with(json!({ "loud": { "command": "sh", "args": ["-c", flood] } }));
    let mut logs = Going::start(&home, &["logs", "loud", "-f", "--json"]);
    wait_until("the flood ends", || home.path().join("done").exists());
    let mut lost = 0;
    let mut told = 0;
    while told + lost < 20_000 {
        let object = logs.object();
        told += u64::from(object["text"].is_string());
        lost += object["lost"].as_u64().unwrap_or(0);
    }
    assert_eq!(told + lost, 20_000);
    assert!(lost > 0);
    logs.signal(libc::SIGINT);
    finish(logs.child, Instant::now()).exits(130);
    home.assert_nothing_left();
}

#[test]
fn logs_show_stderr_and_messages_and_nothing_that_a_terminal_obeys() {
    let home = Home::with(json!({ "s": logging() }));
    let run = home.run(&["logs", "s", "--level", "warning"]).exits(0);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{run:?}");
    assert!(lines[0].ends_with("  stderr   begun \\x1b[31mred"), "{run:?}");
    assert!(lines[1].contains("  error    ") && !lines[1].contains('\u{1b}'), "{run:?}");
    let seen = std::fs::read_to_string(home.path().join("seen")).expect("reads");
    assert!(seen.contains(r#""level":"warning""#), "{seen}");

    let mut logs = Going::start(&home, &["logs", "s", "-f", "--level", "warning", "--json"]);
    let first = logs.object();
    assert_eq!((&first["source"], &first["text"]), (&json!("stderr"), &json!("begun \u{1b}[31mred")));
    assert_eq!(logs.object()["level"], "error");
    for pid in home.pids("begun") {
        // SAFETY: kill takes plain numbers and touches no memory of ours.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let again = [logs.object(), logs.object()];
    assert_eq!(again[0]["generation"], 2, "the next child's stderr is told too: {again:?}");
    assert_eq!(again[1]["level"], "error", "and the level is set again: {again:?}");
    logs.interrupt(&home);
}

#[test]
fn logs_of_a_server_that_does_not_start_show_why() {
    let home =
        Home::with(json!({ "s": { "command": "sh", "args": ["-c", "echo no such key >&2; exit 3"] } }));
    let run = home.run(&["logs", "s", "--json"]).exits(4);
    let first: Value = serde_json::from_str(run.stdout.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["text"], "no such key");
    assert_eq!(run.error()["server"], "s");
}

#[test]
fn metrics_are_served_on_loopback() {
    let home = Home::with(json!({ "time": builtin(&["time"]) }));
    let mut events = Going::start(&home, &["events", "--json", "--metrics-listen", "0"]);
    let line = events.err.next().expect("a line").expect("reads");
    let address = line
        .strip_prefix("metrics at http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .expect("an address");
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    events.until("time", "list-fetched", None);
    let get = |request: &str| {
        let mut stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("sets");
        stream.write_all(format!("{request} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).expect("asks");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        answer
    };
    let answer = get("GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "callboard_servers{state=\"connected\"} 1",
        "callboard_dials_total{server=\"time\"} 1",
        "callboard_catalog_tools{server=\"time\"} 4",
        "# TYPE callboard_servers gauge",
    ] {
        assert!(answer.lines().any(|one| one == line), "no {line} in {answer}");
    }
    assert!(get("GET /").starts_with("HTTP/1.1 404 "));
    assert!(get("POST /metrics").starts_with("HTTP/1.1 405 "));
    let begun = Instant::now();
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).expect("connects")).collect();
    assert!(get("GET /metrics").starts_with("HTTP/1.1 200 "));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "whoever connects and asks nothing keeps others waiting"
    );
    drop(silent);
    events.interrupt(&home);
    home.run(&["status", "--metrics-listen", "0"]).exits(1);
}

#[test]
fn why_tells_what_is_configured_where_and_what_became_of_it() {
    let home = Home::new();
    home.write(
        ".mcp.json",
        &format!(
            "{{\"mcpServers\": {{\n\n\"s\": {}}}}}",
            json!({ "command": "sh", "args": ["-c", "echo broken >&2; exit 3"] })
        ),
    );
    let folder = home.path().join(".config/callboard");
    std::fs::create_dir_all(&folder).expect("makes");
    let user = json!({ "mcpServers": { "s": builtin(&["time"]), "off": { "command": "x", "disabled": true }, "bad": {} } });
    std::fs::write(folder.join("mcp.json"), user.to_string()).expect("writes");

    let run = home.run(&["why", "s", "--json"]).exits(4);
    let why = run.json();
    assert_eq!((&why["name"], &why["verdict"]), (&json!("s"), &json!("failing")));
    assert_eq!(why["state"]["type"], "failed");
    assert_eq!(
        (&why["config"]["winner"]["line"], &why["config"]["winner"]["scope"]),
        (&json!(3), &json!("project"))
    );
    let loser = &why["config"]["losers"][0];
    assert_eq!(
        (&loser["scope"], &loser["reason"]),
        (&json!("user"), &json!("scope project comes before scope user"))
    );
    assert_eq!(why["policy"]["decision"], "allowed");
    assert_eq!(why["stderr_tail"], "broken\n");
    assert!(why["hint"].is_string());
    let lost: Vec<&Value> = why["timeline"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|step| step["event"] == "link-lost")
        .collect();
    assert!(
        !lost.is_empty() && lost[0]["cause"].as_str().is_some_and(|cause| cause.contains("exit code 3")),
        "{why}"
    );

    for (name, verdict, code) in [("off", "disabled", 0), ("bad", "invalid", 2), ("of", "not-configured", 1)]
    {
        let run = home.run(&["why", name, "--json"]).exits(code);
        assert_eq!(run.json()["verdict"], verdict);
    }
    let run = home.run(&["why", "of"]).exits(1);
    assert!(run.stdout.contains("did you mean \"off\"?"), "{run:?}");
    std::fs::remove_file(home.path().join(".mcp.json")).expect("removes");
    let run = home.run(&["why", "s"]).exits(0);
    assert!(run.stdout.starts_with("s: connected\n"), "{run:?}");
}

#[test]
fn reconnecting_is_a_test_of_the_connection() {
    let home = Home::with(json!({ "a": builtin(&["time"]), "b": { "command": "no-such-program" } }));
    let run = home.run(&["reconnect", "a", "--json"]).exits(0);
    assert_eq!(run.json()["servers"][0]["state"]["type"], "connected");
    home.run(&["reconnect", "b"]).exits(4);
    home.run(&["reconnect", "a", "b", "a"]).exits(8);
    home.run(&["reconnect", "c"]).exits(1);
}

#[test]
fn a_call_hands_the_trace_on() {
    let home = Home::with(json!({ "s": logging() }));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let child = home.command(&["call", "s/t"]).env("TRACEPARENT", trace).spawn().expect("starts");
    finish(child, Instant::now()).exits(0);
    let seen = std::fs::read_to_string(home.path().join("seen")).expect("reads");
    let call = seen.lines().find(|line| line.contains("tools/call")).expect("a call");
    assert!(call.contains(&format!(r#""traceparent":"{trace}""#)), "{call}");
}

#[test]
fn odd_homes_and_closed_streams_are_no_trouble() {
    let home = Home::with(json!({ "time": builtin(&["time"]) }));
    for odd in [Some(""), Some("relative/home"), Some("/nonexistent"), None] {
        let mut command = home.command(&["events", "--until", "connected"]);
        match odd {
            Some(odd) => command.env("HOME", odd),
            None => command.env_remove("HOME"),
        };
        finish(command.spawn().expect("starts"), Instant::now()).exits(0);
    }
    let mut closed = Command::new("sh");
    let line = format!("{} --config servers.json events --until connected <&- 2>&-", common::CALLBOARD);
    closed.args(["-c", &line]).current_dir(home.path()).env("HOME", home.path());
    closed.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = finish(closed.spawn().expect("starts"), Instant::now()).exits(0);
    assert!(run.stdout.contains("connected"), "{run:?}");
    home.assert_nothing_left();
}
