//! Commands that connect to nothing: arguments, configuration, masking, errors.

mod common;

use common::{Home, SECRET, builtin};
use serde_json::json;

#[test]
fn typing_errors_name_the_nearest_and_exit_1() {
    let home = Home::with(json!({ "github": builtin(&["time"]) }));
    let run = home.run(&["statsu"]).exits(1);
    assert!(run.stderr.contains("'status'"), "{run:?}");
    let run = home.run(&["get", "gihtub"]).exits(1);
    assert_eq!(run.stderr, "error: there is no server \"gihtub\"\n\nhint: did you mean \"github\"?\n");
    let run = home.run(&["call", "gihtub/now", "--json"]).exits(1);
    let error = run.error();
    assert_eq!(
        (&error["code"], &error["hint"]),
        (&json!("unknown-server"), &json!("did you mean \"github/now\"?"))
    );
    assert_eq!(run.stdout, "");
    let run = home.run(&["--json", "list", "--nonsense"]).exits(1);
    assert_eq!(run.error()["code"], "usage");
    let run = home.run(&["--timeout", "soon", "list"]).exits(1);
    assert!(run.stderr.contains("500ms"), "{run:?}");
    let run = home.run(&["builtin", "tiem"]).exits(1);
    assert!(run.stderr.contains("did you mean time?"), "{run:?}");
}

#[test]
fn list_has_the_shape_of_the_contract_and_connects_to_nothing() {
    let mut off = builtin(&["memory"]);
    off["disabled"] = json!(true);
    let marker = "touch started; exec sleep 1000";
    let home = Home::with(
        json!({ "a": { "command": "sh", "args": ["-c", marker] }, "b": off, "bad": { "args": [] } }),
    );
    let document = home.run(&["list", "--json"]).exits(0).json();
    let a = &document["servers"][0];
    assert_eq!((&a["name"], &a["transport"], &a["scope"]), (&json!("a"), &json!("stdio"), &json!("dynamic")));
    assert_eq!(a["state"]["type"], "pending");
    assert_eq!(a["state"]["phase"], "dormant");
    assert!(a["source"]["file"].as_str().is_some_and(|file| file.ends_with("servers.json")));
    assert_eq!(document["servers"][1]["state"], json!({ "type": "disabled", "by": "entry" }));
    assert_eq!(document["problems"][0]["entry"], "bad");
    for key in ["blocked", "suppressed", "pending_approval"] {
        assert_eq!(document[key], json!([]), "{key}");
    }
    let run = home.run(&["list"]).exits(0);
    assert!(run.stdout.contains("enabled") && run.stdout.contains("disabled"), "{run:?}");
    assert!(run.stderr.contains("warning:") && run.stderr.contains("bad"), "{run:?}");
    assert!(!home.path().join("started").exists());
}

#[test]
fn an_empty_configuration_is_said_and_is_no_failure_of_list() {
    let home = Home::new();
    let run = home.run(&["list"]).exits(0);
    assert!(run.stderr.contains("no servers are configured") && run.stdout.is_empty(), "{run:?}");
    let document = home.run(&["list", "--json"]).exits(0).json();
    assert_eq!(document["servers"], json!([]));
    home.run(&["call", "a/b"]).exits(1);
    let document = home.run(&["status", "--json"]).exits(0).json();
    assert_eq!(document["servers"], json!([]));
}

#[test]
fn config_check_exits_2_and_names_what_is_wrong() {
    let home = Home::with(json!({ "good": builtin(&["time"]), "bad": { "args": [] } }));
    let run = home.run(&["config", "check"]).exits(2);
    assert!(
        run.stdout.contains("bad") && run.stderr.starts_with("error: the configuration has 1 problem"),
        "{run:?}"
    );
    let run = home.run(&["config", "check", "--json"]).exits(2);
    let document = run.json();
    assert_eq!((&document["ok"], &document["problems"][0]["entry"]), (&json!(false), &json!("bad")));
    assert_eq!(document["servers"], 1);
    let other = home.write("other.json", r#"{"mcpServers":{"x":{"command":"true"}}}"#);
    home.run(&["config".as_ref(), "check".as_ref(), other.as_os_str()]).exits(0);
    let broken = home.write("broken.json", "{");
    home.run(&["config".as_ref(), "check".as_ref(), broken.as_os_str()]).exits(2);
    home.run(&["config", "check", "no-such-file.json"]).exits(2);
    home.run(&["get", "bad"]).exits(2);
    for command in ["list", "status", "tools"] {
        let run = home.run(&["--config", "no-such-file.json", command, "--json"]);
        // The file beside it is a good one.
        assert!(run.code == Some(0), "{run:?}");
        let run = Home::new().run(&["--config", "no-such-file.json", command, "--json"]).exits(2);
        assert_eq!(run.error()["code"], "file-missing", "{run:?}");
        assert_eq!(run.json()["problems"].as_array().map(Vec::len), Some(1), "{run:?}");
    }
    for command in ["prompts", "resources"] {
        let run = Home::new().run(&["--config", "no-such-file.json", command, "--json"]).exits(2);
        assert_eq!(run.error()["code"], "file-missing", "{run:?}");
    }
    // The good one works all the same.
    home.run(&["list"]).exits(0);
}

#[test]
fn config_paths_and_show() {
    let home = Home::new();
    home.write(".mcp.json", &json!({ "mcpServers": { "near": builtin(&["time"]) } }).to_string());
    let document = home.run(&["config", "paths", "--json"]).exits(0).json();
    let places = document["places"].as_array().expect("a list");
    assert!(places.iter().any(|place| place["found"] == true && place["scope"] == "project"), "{document}");
    assert!(places.iter().any(|place| place["found"] == false && place["scope"] == "user"), "{document}");
    let document = home.run(&["config", "show", "--json"]).exits(0).json();
    let near = &document["servers"][0];
    assert_eq!(
        (&near["name"], &near["admitted"], &near["scope"]),
        (&json!("near"), &json!(true), &json!("project"))
    );
    assert_eq!(near["entry"]["transport"]["args"], json!(["builtin", "time"]));
    home.run(&["config", "show", "--effective"]).exits(0);
}

#[test]
fn layers_show_the_entries_that_lost() {
    let home = Home::new();
    let first = home.write("1.json", &json!({ "mcpServers": { "a": builtin(&["time"]) } }).to_string());
    let second = home.write("2.json", &json!({ "mcpServers": { "a": builtin(&["memory"]) } }).to_string());
    let words = |flag: &str| {
        let mut words = vec!["config".into(), "show".into(), "--json".into()];
        words.extend(["--config".into(), first.clone().into_os_string()]);
        words.extend(["--config".into(), second.clone().into_os_string(), flag.into()]);
        words
    };
    let document = home.run(&words("--effective")).exits(0).json();
    assert_eq!(document["servers"].as_array().map(Vec::len), Some(1));
    let document = home.run(&words("--layers")).exits(0).json();
    let admitted: Vec<bool> =
        document["servers"].as_array().expect("a list").iter().map(|one| one["admitted"] == true).collect();
    assert_eq!(admitted, [true, false]);
}

#[test]
fn the_variable_does_what_the_flag_does() {
    let home = Home::new();
    let file = home.write("mine.json", &json!({ "mcpServers": { "mine": builtin(&["time"]) } }).to_string());
    let child = home.command(&["list", "--json"]).env("CALLBOARD_CONFIG", file).spawn().expect("starts");
    let document = common::finish(child, std::time::Instant::now()).exits(0).json();
    assert_eq!(document["servers"][0]["name"], "mine");
}

#[test]
fn cwd_acts_as_if_started_there() {
    let home = Home::new();
    let project = home.path().join("project");
    std::fs::create_dir(&project).expect("a folder");
    std::fs::write(
        project.join(".mcp.json"),
        json!({ "mcpServers": { "p": builtin(&["time"]) } }).to_string(),
    )
    .expect("writes");
    let document = home.run(&["list", "--json", "--cwd", "project"]).exits(0).json();
    assert_eq!(document["servers"][0]["name"], "p");
    home.run(&["list", "--cwd", "nowhere"]).exits(1);
}

#[test]
fn version_completion_and_help() {
    let home = Home::new();
    let run = home.run(&["version"]).exits(0);
    assert!(run.stdout.starts_with("callboard ") && run.stdout.contains("2026-07-28"), "{run:?}");
    let document = home.run(&["version", "--json"]).exits(0).json();
    assert_eq!(document["name"], "callboard");
    for shell in ["bash", "zsh", "fish"] {
        let run = home.run(&["completion", shell]).exits(0);
        assert!(run.stdout.contains("callboard") && run.stdout.len() > 1_000, "{shell}");
    }
    home.run(&["--help"]).exits(0);
    home.run(&["call", "--help"]).exits(0);
    home.run(&[""; 0]).exits(1);
}

#[test]
fn nothing_offline_prints_a_secret() {
    let home = Home::with(secrets());
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["config", "show"],
        &["config", "show", "--layers", "--json"],
        &["config", "check"],
        &["config", "check", "--json"],
        &["config", "paths"],
        &["get", "nobody"],
        &["get", "odd"],
    ] {
        let run = home.run(words);
        assert!(!format!("{run:?}").contains(SECRET), "{words:?}: {run:?}");
    }
}

fn secrets() -> serde_json::Value {
    json!({
        "child": { "command": "true", "args": ["--token", SECRET, format!("--key={SECRET}")], "env": { "TOKEN": SECRET } },
        "remote": {
            "url": format!("http://joe:{SECRET}@127.0.0.1:9/mcp?api_key={SECRET}"),
            "headers": { "Authorization": format!("Bearer {SECRET}") },
        },
        "odd": { "command": 7, "env": { "TOKEN": SECRET } },
    })
}

#[test]
fn names_that_a_terminal_would_obey_are_shown_in_words() {
    let home = Home::with(json!({
        "red\u{1b}[31m\u{202e}": builtin(&["time"]),
        "": builtin(&["time"]),
        "good": builtin(&["time"]),
    }));
    for words in [&["list"][..], &["list", "--json"], &["config", "show"], &["config", "check"], &["status"]]
    {
        let run = home.run(words);
        let text = format!("{}{}", run.stdout, run.stderr);
        assert!(text.contains("good") || words == ["config", "check"], "{words:?}: {run:?}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{words:?}: {run:?}");
    }
    let run = home.run(&["config", "check", "--json"]).exits(2);
    assert_eq!(run.json()["problems"][0]["message"], "the name is empty");
    let run = home.run(&["status", "--json"]).exits(0);
    assert_eq!(run.json()["servers"].as_array().map(Vec::len), Some(2), "the others are not hidden");
}

#[test]
fn every_typing_error_says_what_to_do() {
    let home = Home::new();
    for words in
        [&["events", "--until", "up"][..], &["logs", "a", "--level", "loud"], &["sim", "f", "--hours", "1e9"]]
    {
        let run = home.run(words).exits(1);
        assert!(run.stderr.ends_with("hint: `--help` after the command says what may be given\n"), "{run:?}");
    }
}
