//! `sim`: a scenario over the configured servers.

mod common;

use common::{Home, builtin};
use serde_json::{Value, json};

/// The example that people read.
const PAGE: &str = include_str!("../../../docs/simulation.md");

fn example() -> &'static str {
    let start = PAGE.find("```toml\n").expect("an example") + "```toml\n".len();
    let end = start + PAGE[start..].find("```").expect("it ends");
    &PAGE[start..end]
}

fn home() -> Home {
    Home::with(json!({
        "github": { "type": "http", "url": "https://github.example/mcp" },
        "files": builtin(&["files", "."]),
        "chat": { "type": "ws", "url": "wss://chat.example/mcp" },
        "off": { "command": "true", "disabled": true },
    }))
}

fn server<'a>(document: &'a Value, name: &str) -> &'a Value {
    let servers = document["servers"].as_array().expect("servers");
    servers.iter().find(|server| server["name"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

#[test]
fn the_example_of_the_docs_shows_what_becomes_of_the_configured_servers() {
    let home = home();
    home.write("day.toml", example());
    let file = home.path().join("day.toml").display().to_string();
    let run = home.run(&["sim", &file, "--json"]).exits(0);
    let document = run.json();
    assert_eq!((&document["ok"], &document["title"]), (&json!(true), &json!("A bad day")));
    assert_eq!(document["servers"].as_array().map(Vec::len), Some(3), "those switched off do not take part");
    let (github, files, chat) =
        (server(&document, "github"), server(&document, "files"), server(&document, "chat"));
    assert_eq!(
        [&github["transport"], &files["transport"], &chat["transport"]],
        [&json!("http"), &json!("stdio"), &json!("ws")]
    );
    assert!(github["reconnects"].as_u64() > Some(2) && files["outages"].as_u64() > Some(0), "{document}");
    assert_eq!((&chat["outages"], &chat["calls_failed"]), (&json!(0), &json!(0)));
    assert_eq!(home.run(&["sim", &file, "--json"]).exits(0).json()["trace_hash"], document["trace_hash"]);
    let other = home.run(&["sim", &file, "--json", "--seed", "9"]).exits(0).json();
    assert_ne!(other["trace_hash"], document["trace_hash"]);
    assert_eq!(other["seed"], 9);
}

#[test]
fn people_get_a_table_and_pictures() {
    let home = home();
    home.write(
        "day.toml",
        "[[servers]]\nname = 'files'\nfaults = [{ kind = 'down', from_ms = 60000, for_ms = 5000 }]",
    );
    let (file, out) = (home.path().join("day.toml"), home.path().join("a/b"));
    let words =
        ["sim", file.to_str().expect("text"), "--hours", "0.1", "--report", out.to_str().expect("text")];
    let run = home.run(&words).exits(0);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].starts_with("NAME") && lines[0].contains("LONGEST OUTAGE"), "{run:?}");
    assert_eq!(
        lines.iter().filter(|line| line.contains("stdio") || line.contains("http")).count(),
        2,
        "{run:?}"
    );
    assert!(run.stdout.contains("\ndials: ") && run.stdout.contains("every invariant held"), "{run:?}");
    assert!(run.stderr.contains("report.html"), "{run:?}");
    let page = std::fs::read_to_string(out.join("report.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains(">day<") && page.contains("github"));
    let document: Value =
        serde_json::from_slice(&std::fs::read(out.join("report.json")).expect("a document")).expect("JSON");
    assert_eq!(document["format"], "callboard-sim/1");
}

#[test]
fn settings_and_limits_of_the_configuration_hold() {
    let scenario = "duration_ms = 300000\n[[servers]]\nname = 'a'\n\
        faults = [{ kind = 'down', from_ms = 30000, for_ms = 100000 },\n\
        { kind = 'hang', from_ms = 200000, until_ms = 300000, percent = 100, phase = 'call' }]\n";
    let document = |config: &str, scenario: &str| {
        let home = Home::new();
        let (config, scenario) = (home.write("c.toml", config), home.write("s.toml", scenario));
        let words = [
            "--config".as_ref(),
            config.as_os_str(),
            "sim".as_ref(),
            scenario.as_os_str(),
            "--json".as_ref(),
        ];
        home.run(&words).exits(0).json()
    };
    let plain = "[servers.a]\nurl = 'https://a.example/mcp'\n";
    let gap = |document: &Value| document["storm"]["gap_max_ms"].as_u64().expect("a number");
    let usual = gap(&document(plain, scenario));
    let quick = format!(
        "{plain}call_timeout_ms = 4000\n[reconnect]\nbackoff_ms_initial = 100\nbackoff_ms_max = 200\nattempts_max = 500"
    );
    let configured = document(&quick, scenario);
    // An entry's own limit of a connect ends an attempt that hangs.
    let hangs = "duration_ms = 60000\nconnect_all = true\n[[servers]]\nname = 'a'\n\
        faults = [{ kind = 'hang', from_ms = 0, until_ms = 60000, percent = 100, phase = 'handshake' }]\n";
    let trying_ms = |config: &str| {
        document(config, hangs)["servers"][0]["state_ms"]["dialing"].as_u64().expect("a number")
    };
    let hasty = trying_ms(&format!("{plain}connect_timeout_ms = 500\n"));
    assert!((500..10_000).contains(&hasty) && trying_ms(plain) >= 30_000, "{hasty}");
    // From the configuration: gaps of at most 200 ms, and callers that wait four seconds.
    assert!(usual >= 2_000 && gap(&configured) < 2_000, "{usual}, {configured}");
    assert_eq!(configured["outcomes"]["timed-out"]["max_ms"], 4_000, "{configured}");
    // The file counts more.
    let louder = format!(
        "{scenario}[settings]\n'reconnect.backoff_ms_initial' = '5000'\n'reconnect.backoff_ms_max' = '5000'"
    );
    assert!(gap(&document(&quick, &louder)) >= 5_000);
}

#[test]
fn a_bad_scenario_exits_2_and_names_line_key_and_fix() {
    let home = home();
    let check = |text: &str, fact: &str, hint: &str| {
        let file = home.write("s.toml", text).display().to_string();
        let error = home.run(&["sim", &file, "--json"]).exits(2).error();
        assert_eq!(error["code"], "bad-scenario");
        let message = error["message"].as_str().expect("a message");
        assert!(message.starts_with(&format!("{file}{fact}")), "{message}");
        assert!(error["hint"].as_str().expect("a hint").contains(hint), "{error}");
    };
    check("title = 'x'\nduratoin_ms = 5", ":2: duratoin_ms: ", "did you mean duration_ms?");
    check("title = 'x'\n\nseed = 'seven'", ":3: seed: ", "docs/simulation.md");
    check("title = ", ":1: title: ", "docs/simulation.md");
    check("[[servers]]\ncount = 2", ":1: [[servers]]: ", "docs/simulation.md");
    check("[[servers]]\nname = 'files'\ntransport = 'tcp'", ":3: transport: ", "docs/simulation.md");
    let busy = "[[servers]]\nname = 'x'\n[[servers]]\nname = 'files'\n\
                faults = [{ kind = 'busy', from_ms = 0, until_ms = 9, retry_after_s = 1 }]";
    check(busy, ":4: ", "fit together");
    // Told by its place, not by whose name is part of another's.
    let flap = "[[servers]]\nname = 'i'\n\n[[servers]]\nname = 'files'\n\
                faults = [{ kind = 'flap', from_ms = 1, until_ms = 9, every_ms = 3, down_ms = 1 }]";
    check(flap, ":5: ", "fit together");
    check("[[servers]]\nname = 'files'\n[[servers]]\nname = 'files'", ":4: ", "fit together");
    check("[[servers]]\nname = 'files'\nconnect_timeout_ms = 0", ":2: ", "fit together");
    let inline = "servers = [\n  { name = 'files' },\n  { name = 'child', answer_ms = [5, 1] },\n]";
    check(inline, ":3: ", "fit together");
    check("title = 'x'\n[settings]\n'x.y' = '1'", ":3: ", "fit together");
    check("title = 'x'\nduration_ms = 0", ":2: ", "fit together");
    check(
        "[[callers]]\nservers = ['githbu']\nthink_ms = [1, 2]\ntimeout_ms = [1, 2]",
        ":1: ",
        "fit together",
    );
    check("[[actions]]\nat_ms = 1\nserver = 'githbu'\ndo = 'reconnect'", ":1: ", "fit together");
    let run = home.run(&["sim", "nowhere.toml"]).exits(2);
    assert!(run.stderr.contains("nowhere.toml") && run.stderr.contains("\nhint: "), "{run:?}");
    home.run(&["sim", "x", "--hours", "0"]).exits(1);
    let empty = Home::new();
    let file = empty.write("s.toml", "title = 'x'").display().to_string();
    let run = empty.run(&["sim", &file]).exits(2);
    assert!(run.stderr.contains("there is no server"), "{run:?}");
}

#[test]
fn a_name_that_was_mistyped_is_told() {
    let home = home();
    let file =
        home.write("s.toml", "duration_ms = 60000\n[[servers]]\nname = 'githbu'").display().to_string();
    let run = home.run(&["sim", &file]).exits(0);
    assert!(run.stderr.contains("did you mean \"github\"?"), "{run:?}");
}

#[test]
fn what_would_fill_the_memory_is_refused() {
    let home = home();
    let crowd = home.write("crowd.toml", "[[servers]]\nname = 'x'\ncount = 4000000000\n");
    let run = home.run(&["sim", &crowd.display().to_string(), "--json"]).exits(2);
    assert!(run.error()["message"].as_str().is_some_and(|fact| fact.contains("more than 100000")), "{run:?}");
    let endless = home.run(&["sim", "/dev/zero", "--json"]).exits(2);
    assert!(
        endless.error()["message"].as_str().is_some_and(|fact| fact.contains("longer than")),
        "{endless:?}"
    );
}
