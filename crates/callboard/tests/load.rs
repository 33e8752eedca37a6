//! Loading from real folders: which files count, what entries mean, what is said about bad ones.

use callboard::load::{LoadOptions, Loaded, Problem, Warning, describe, load};
use callboard_policy::{EraPin, IdePlatform, RemoteKind, Scope, ServerSpec, TransportSpec, admit};
use callboard_protocol::{Era, Secret};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A user's home with a repository in it.
struct Home {
    folder: TempDir,
    options: LoadOptions,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().expect("makes a folder");
        let home = folder.path().to_owned();
        fs::create_dir_all(home.join("repo/.git")).expect("makes a repository");
        fs::create_dir_all(home.join("repo/packages/web")).expect("makes a package");
        let env =
            [("HOME", "/home/u"), ("DEMO_DIR", "/data"), ("DEMO_TOKEN", "planted-${HOME}"), ("EMPTY", "")];
        let options = LoadOptions {
            cwd: home.join("repo"),
            home: Some(home),
            env: env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            config_files: Vec::new(),
        };
        Home { folder, options }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn with(self, path: &str, text: &str) -> Home {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("has a folder")).expect("makes the folder");
        fs::write(path, text).expect("writes");
        self
    }

    fn at(mut self, cwd: &str) -> Home {
        self.options.cwd = self.path(cwd);
        self
    }

    fn load(&self) -> Loaded {
        load(&self.options)
    }

    /// A text with this home's folder as `~`.
    fn short(&self, text: impl ToString) -> String {
        text.to_string().replace(&self.folder.path().display().to_string(), "~")
    }

    fn problems(&self, loaded: &Loaded) -> Vec<String> {
        loaded.problems.iter().map(|problem| self.short(problem)).collect()
    }

    fn warnings(&self, loaded: &Loaded) -> Vec<String> {
        loaded.warnings.iter().map(|warning| self.short(warning)).collect()
    }
}

const USER: &str = ".config/callboard/mcp.json";
const USER_TOML: &str = ".config/callboard/callboard.toml";
const PROJECT: &str = "repo/.mcp.json";

/// One entry called `a` in the user's file.
fn one(entry: &str) -> Result<(ServerSpec, Vec<&'static str>), (&'static str, String)> {
    let home =
        Home::new().with(USER, &format!(r#"{{"mcpServers": {{"a": {entry}, "b": {{"command": "good"}}}}}}"#));
    let loaded = home.load();
    assert_eq!(
        loaded.entries.last().map(|spec| spec.name.as_str()),
        Some("b"),
        "the neighbour of {entry} lives"
    );
    match (loaded.entries.len(), loaded.problems.as_slice()) {
        (2, []) => {
            let codes = loaded.warnings.iter().map(|warning: &Warning| warning.code).collect();
            Ok((loaded.entries[0].clone(), codes))
        }
        (1, [problem]) => {
            let Problem { entry: name, code, message, hint, line, .. } = problem;
            assert_eq!((name.as_deref(), line, hint.is_empty()), (Some("a"), &Some(1), false), "{problem:?}");
            Err((code, message.clone()))
        }
        _ => panic!("{entry}: {loaded:?}"),
    }
}

/// What an entry is dialed as, with its secrets in the open.
fn dialed(spec: &ServerSpec) -> Value {
    let open = |value: &Secret| value.expose().to_owned();
    match &spec.transport {
        TransportSpec::Stdio(stdio) => {
            let mut shown = json!([stdio.command, stdio.args]);
            let env: serde_json::Map<_, _> =
                stdio.env.iter().map(|(k, v)| (k.clone(), open(v).into())).collect();
            if !env.is_empty() {
                shown.as_array_mut().expect("a list").push(env.into());
            }
            shown
        }
        TransportSpec::Http(http) => {
            let kind = if http.kind == RemoteKind::Probe { "probe" } else { http.kind.as_str() };
            let mut shown = json!([kind, http.url]);
            let pairs: Vec<_> = http.headers.iter().map(|(k, v)| format!("{k}: {}", open(v))).collect();
            if !pairs.is_empty() {
                shown.as_array_mut().expect("a list").push(json!(pairs));
            }
            shown
        }
        TransportSpec::InProcess(_) => panic!("no file holds one"),
    }
}

#[test]
fn an_entry_means_what_its_spelling_says() {
    for (entry, expected, warnings) in [
        (r#"{"command": "x"}"#, json!(["x", []]), vec![]),
        (r#"{"type": "stdio", "command": "x", "args": ["1", ""]}"#, json!(["x", ["1", ""]]), vec![]),
        (r#"{"type": "local", "command": ["x", "1"], "args": ["2"]}"#, json!(["x", ["1", "2"]]), vec![]),
        (r#"{"cmd": "x", "envs": {"B": "", "A": "1"}}"#, json!(["x", [], {"A": "1", "B": ""}]), vec![]),
        (r#"{"command": "x", "environment": {"A": "1"}, "url": null}"#, json!(["x", [], {"A": "1"}]), vec![]),
        (r#"{"url": "https://h/mcp"}"#, json!(["probe", "https://h/mcp"]), vec![]),
        (r#"{"type": "remote", "url": "https://h/mcp"}"#, json!(["probe", "https://h/mcp"]), vec![]),
        (r#"{"type": "http", "url": "https://h"}"#, json!(["http", "https://h"]), vec![]),
        (r#"{"type": "streamable-http", "serverUrl": "http://h"}"#, json!(["http", "http://h"]), vec![]),
        (r#"{"type": "streamableHttp", "httpUrl": "http://h"}"#, json!(["http", "http://h"]), vec![]),
        (r#"{"transport": "streamable_http", "uri": "http://h"}"#, json!(["http", "http://h"]), vec![]),
        (r#"{"transport": "http", "baseUrl": "http://h"}"#, json!(["http", "http://h"]), vec![]),
        (
            r#"{"type": "sse", "url": "http://h/sse"}"#,
            json!(["sse", "http://h/sse"]),
            vec!["deprecated-transport"],
        ),
        (r#"{"type": "ws", "url": "wss://h"}"#, json!(["ws", "wss://h"]), vec![]),
        (r#"{"type": "websocket", "url": "ws://h"}"#, json!(["ws", "ws://h"]), vec![]),
        (r#"{"url": "ws://h"}"#, json!(["ws", "ws://h"]), vec![]),
        (
            r#"{"url": "http://h", "headers": {"X-B": "2", "X-A": "1"}}"#,
            json!(["probe", "http://h", ["X-B: 2", "X-A: 1"]]),
            vec![],
        ),
        (r#"{"command": "x", "argz": ["1"]}"#, json!(["x", []]), vec!["unknown-key"]),
        (r#"{"command": "x", "timeout": 5}"#, json!(["x", []]), vec!["timeout-unit-unknown"]),
        (r#"{"command": "x", "headers": {}}"#, json!(["x", []]), vec!["key-not-in-dialect"]),
        (r#"{"url": "http://h", "args": []}"#, json!(["probe", "http://h"]), vec!["key-not-in-dialect"]),
        (
            r#"{"url": "http://h", "uri": "http://i"}"#,
            json!(["probe", "http://h"]),
            vec!["key-not-in-dialect"],
        ),
        (r#"{"command": "x", "disabledTools": ["t"]}"#, json!(["x", []]), vec!["key-not-in-dialect"]),
        (r#"{"command": "x", "tools": ["*"], "description": "d", "x-note": 1}"#, json!(["x", []]), vec![]),
        (r#"{"command": "x ", "args": [" 1"]}"#, json!(["x ", [" 1"]]), vec!["surrounding-space"; 2]),
        (r#"{"command": "x", "command": "y"}"#, json!(["y", []]), vec!["duplicate-key"]),
    ] {
        let (spec, codes) = one(entry).unwrap_or_else(|problem| panic!("{entry}: {problem:?}"));
        assert_eq!((dialed(&spec), codes), (expected, warnings), "{entry}");
        assert_eq!((spec.scope, spec.source.dialect.as_str()), (Scope::User, "generic"));
    }
}

#[test]
fn references_are_expanded_once_and_everywhere() {
    for (entry, expected) in [
        (
            r#"{"command": "${DEMO_DIR}/x", "args": ["${NO:-${HOME}/.demo}:/mnt", "pa$$word", "$HOME"]}"#,
            json!(["/data/x", ["/home/u/.demo:/mnt", "pa$$word", "$HOME"]]),
        ),
        (
            r#"{"command": "x", "env": {"T": "${DEMO_TOKEN}", "E": "${EMPTY}"}}"#,
            json!(["x", [], {"T": "planted-${HOME}", "E": ""}]),
        ),
        (
            r#"{"url": "${BASE:-https://h}/mcp", "headers": {"Authorization": "Bearer ${env:DEMO_TOKEN}"}}"#,
            json!(["probe", "https://h/mcp", ["Authorization: Bearer planted-${HOME}"]]),
        ),
        // Words of the format are no values.
        (r#"{"command": ["${DEMO_DIR}", "${DEMO_DIR}"]}"#, json!(["/data", ["/data"]])),
    ] {
        let (spec, codes) = one(entry).unwrap_or_else(|problem| panic!("{entry}: {problem:?}"));
        assert_eq!((dialed(&spec), codes), (expected, vec![]), "{entry}");
    }
    let (spec, codes) = one(r#"{"command": "x", "args": ["${input:k}"]}"#).expect("loads");
    assert_eq!((dialed(&spec), codes), (json!(["x", ["${input:k}"]]), vec!["unset-variable"]));
}

#[test]
fn a_bad_entry_says_what_is_wrong() {
    for (entry, code, message) in [
        ("7", "not-an-object", "the entry is a number, not an object"),
        (r#"{"args": ["x"]}"#, "missing-command-or-url", "the entry has neither command nor url"),
        (
            r#"{"connection": {"type": "http", "url": "http://h"}}"#,
            "missing-command-or-url",
            "the entry has neither command nor url, only connection",
        ),
        (r#"{"command": " "}"#, "missing-command-or-url", "the entry has neither command nor url"),
        (r#"{"command": []}"#, "missing-command-or-url", "the entry has neither command nor url"),
        (r#"{"type": "stdio"}"#, "missing-command-or-url", "the type is stdio and there is no command"),
        (r#"{"type": "http"}"#, "missing-url", "the type is http and there is no url"),
        (r#"{"type": "sse", "command": "x"}"#, "missing-url", "the type is sse and there is no url"),
        (r#"{"command": "x", "url": "http://h"}"#, "mixed-transports", "the entry has both command and url"),
        (
            r#"{"type": "carrier-pigeon", "url": "x"}"#,
            "unknown-transport",
            r#"there is no transport "carrier-pigeon""#,
        ),
        (
            r#"{"type": "sdk", "url": "http://h"}"#,
            "transport-not-in-dialect",
            "a server of type sdk runs just now, so no file of the user scope can name it",
        ),
        (r#"{"type": 1, "url": "http://h"}"#, "wrong-type", "type is a number, not text"),
        (r#"{"command": "x", "args": "-x"}"#, "wrong-type", "args is text, not a list of texts"),
        (r#"{"command": "x", "args": ["1", 2]}"#, "wrong-type", "args[1] is a number, not text"),
        (r#"{"command": "x", "env": ["A=1"]}"#, "wrong-type", "env is a list, not an object of texts"),
        (r#"{"command": "x", "env": {"P": 1}}"#, "wrong-type", "env.P is a number, not text"),
        (r#"{"command": "x", "disabled": "yes"}"#, "wrong-type", "disabled is text, not true or false"),
        (
            r#"{"command": "x", "in_flight_max": 0}"#,
            "wrong-type",
            "in_flight_max is another number, not a whole number of at least 1",
        ),
        (
            r#"{"command": "x", "call_timeout_ms": "1s"}"#,
            "wrong-type",
            "call_timeout_ms is text, not a whole number of at least 1",
        ),
        (
            r#"{"command": "x", "protocol_era": "2026"}"#,
            "wrong-type",
            "protocol_era is another word, not auto, legacy or modern",
        ),
        (
            r#"{"url": "localhost:1/mcp"}"#,
            "bad-url",
            "url is not an address that begins with http://, https:// or unix:///",
        ),
        (
            r#"{"type": "ws", "serverUrl": "http://h"}"#,
            "bad-url",
            "serverUrl is not an address that begins with ws:// or wss://",
        ),
        (
            r#"{"url": "http://h", "headers": {"X-K": "k-${NO_SUCH}"}}"#,
            "unset-variable",
            "headers.X-K needs the variable NO_SUCH, which is not set",
        ),
        (
            r#"{"command": "x", "env": {"K": "${secret:k}"}}"#,
            "needs-value",
            "env.K needs the secret k, and there is no store of secrets",
        ),
    ] {
        assert_eq!(one(entry).expect_err(entry), (code, message.to_owned()), "{entry}");
    }
}

#[test]
fn names_keep_their_case_and_one_is_taken() {
    let home = Home::new().with(USER, r#"{"callboard": {"command": "x"}, "MyServer": {"command": "x"}}"#);
    let home =
        home.with(USER_TOML, "[servers.\"Dotted.Name\"]\ncommand = 'x'\n[servers.UPPER]\nurl = 'http://h'");
    let loaded = home.load();
    let names: Vec<&str> = loaded.entries.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["Dotted.Name", "UPPER", "MyServer"]);
    assert_eq!(home.problems(&loaded), [format!("~/{USER}:1: server callboard: the name is reserved")]);
    assert_eq!(loaded.warnings[0].code, "name-charset");
}

#[test]
fn options_of_one_server() {
    let (spec, codes) = one(
        r#"{"command": "x", "connect_timeout_ms": 1, "call_timeout_ms": 2, "in_flight_max": 3, "required": true,
            "trusted": true, "always_load": true, "protocol_era": "modern", "cwd": "sub", "disabled": true}"#,
    )
    .expect("loads");
    let options = spec.options;
    assert_eq!(
        (options.connect_timeout_ms, options.call_timeout_ms, options.in_flight_max),
        (Some(1), Some(2), Some(3))
    );
    assert!(options.required && options.trusted && options.always_load && !spec.enabled);
    assert_eq!((options.protocol_era, codes), (EraPin::Pinned(Era::Modern), vec![]));
    let TransportSpec::Stdio(stdio) = spec.transport else { panic!("a child") };
    let cwd = stdio.cwd.expect("has one");
    assert!(Path::new(&cwd).is_absolute() && cwd.ends_with(".config/callboard/sub"), "{cwd}");
}

#[test]
fn off_wins() {
    for (entry, enabled, warnings) in [
        (r#"{"command": "x", "disabled": false}"#, true, vec![]),
        (r#"{"command": "x", "enabled": false}"#, false, vec![]),
        (r#"{"command": "x", "enabled": true, "disabled": true}"#, false, vec!["both-enabled-and-disabled"]),
    ] {
        let (spec, codes) = one(entry).expect(entry);
        assert_eq!((spec.enabled, codes), (enabled, warnings), "{entry}");
    }
}

fn named(name: &str, command: &str) -> String {
    format!(r#"{{"mcpServers": {{"{name}": {{"command": "{command}"}}}}}}"#)
}

/// What may be dialed, as `name=command`.
fn winners(loaded: Loaded) -> Vec<String> {
    let command = |spec: &ServerSpec| dialed(spec)[0].as_str().unwrap_or_default().to_owned();
    admit(loaded.entries).admitted.iter().map(|a| format!("{}={}", a.name(), command(a.spec()))).collect()
}

#[test]
fn the_nearest_project_file_wins_up_to_the_repository_root() {
    let home = Home::new()
        .with(".mcp.json", &named("above", "never"))
        .with(
            PROJECT,
            r#"{"mcpServers": {"a": {"command": "root", "args": ["1"]}, "r": {"command": "root"}}}"#,
        )
        .with("repo/packages/web/.mcp.json", &named("a", "web"));
    assert_eq!(winners(home.load()), ["a=root", "r=root"]);
    let home = home.at("repo/packages/../packages/web");
    let loaded = home.load();
    let looked: Vec<String> = loaded
        .places
        .iter()
        .map(|p| format!("{} {} {}", home.short(p.path.display()), p.scope.as_str(), p.found))
        .collect();
    assert_eq!(
        looked,
        [
            "~/repo/packages/web/.mcp.json project true",
            "~/repo/packages/.mcp.json project false",
            "~/repo/.mcp.json project true",
            "~/.config/callboard/callboard.toml user false",
            "~/.config/callboard/mcp.json user false",
        ]
    );
    assert_eq!(home.short(loaded.project_folder.display()), "~/repo");
    assert_eq!(winners(loaded), ["a=web", "r=root"]);
}

#[test]
fn outside_of_a_repository_the_working_directory_alone_counts() {
    let home = Home::new()
        .with("free/.mcp.json", &named("far", "x"))
        .with("free/sub/.mcp.json", &named("near", "x"));
    let loaded = home.at("free/sub").load();
    assert_eq!(winners(loaded), ["near=x"]);
}

#[test]
fn a_file_marks_a_root_like_a_folder() {
    let home = Home::new().with(PROJECT, &named("far", "x")).with("repo/packages/.git", "gitdir: x");
    assert_eq!(winners(home.at("repo/packages/web").load()), [""; 0]);
}

#[test]
fn project_before_user_and_the_users_toml_before_json() {
    let home = Home::new()
        .with(PROJECT, &named("a", "project"))
        .with(USER_TOML, "[servers.a]\ncommand = 'toml'\n[servers.b]\ncommand = 'toml'")
        .with(USER, r#"{"a": {"command": "json"}, "b": {"command": "json"}, "c": {"command": "json"}}"#);
    assert_eq!(winners(home.load()), ["a=project", "b=toml", "c=json"]);
}

#[test]
fn the_users_folder_moves_with_its_variable() {
    let mut home =
        Home::new().with("elsewhere/callboard/mcp.json", &named("x", "x")).with(USER, &named("y", "y"));
    let elsewhere = home.path("elsewhere").display().to_string();
    home.options.env.insert("XDG_CONFIG_HOME".into(), elsewhere);
    assert_eq!(winners(home.load()), ["x=x"]);
    home.options.env.insert("XDG_CONFIG_HOME".into(), "relative".into());
    assert_eq!(winners(home.load()), ["y=y"]);
    home.options.home = None;
    assert_eq!(winners(home.load()), [""; 0]);
}

#[test]
fn named_files_replace_discovery() {
    let mut home = Home::new()
        .with(PROJECT, &named("project", "x"))
        .with(USER_TOML, "connect.timeout_ms = 1")
        .with("one.json", &named("a", "one"))
        .with(
            "two.toml",
            "connect.timeout_ms = 2\n[servers.a]\ncommand = 'two'\n[servers.b]\ncommand = 'two'",
        );
    home.options.config_files = vec!["../one.json".into(), home.path("two.toml")];
    let loaded = home.load();
    assert!(loaded.entries.iter().all(|spec| spec.scope == Scope::Dynamic));
    assert_eq!(loaded.settings.connect_timeout, Duration::from_millis(2));
    assert_eq!(loaded.problems, []);
    assert_eq!(winners(loaded), ["a=one", "b=two"]);
}

#[test]
fn a_named_file_that_is_missing_is_a_problem_and_the_others_count() {
    let mut home = Home::new().with("one.json", &named("a", "one"));
    home.options.config_files = vec![home.path("none.json"), home.path("repo"), home.path("one.json")];
    let loaded = home.load();
    assert_eq!(
        home.problems(&loaded),
        [
            "~/none.json: the file does not exist",
            "~/repo: the file cannot be read: Is a directory (os error 21)"
        ]
    );
    assert_eq!(winners(loaded), ["a=one"]);
}

#[test]
fn a_file_that_does_not_parse_hides_no_other() {
    let home = Home::new()
        .with(PROJECT, "{\n  \"mcpServers\": {\"a\": {\"env\": {\"K\": \"planted\"}}},, }")
        .with(USER_TOML, "[servers.a]\ncommand = planted")
        .with(USER, &named("b", "good"));
    let loaded = home.load();
    let problems = home.problems(&loaded);
    assert_eq!(problems.len(), 2);
    assert!(
        problems[0].starts_with("~/repo/.mcp.json:2: the file is not valid JSON: line 2, column 50: "),
        "{problems:?}"
    );
    assert!(
        problems[1].starts_with("~/.config/callboard/callboard.toml:2: the file is not valid TOML: line 2, ")
    );
    assert!(!format!("{loaded:?}").contains("planted"));
    assert_eq!(winners(loaded), ["b=good"]);
}

#[test]
fn a_bad_entry_keeps_its_name_from_what_it_would_have_replaced() {
    let home = Home::new().with(PROJECT, r#"{"mcpServers": {"a": {}, "b": {"command": "project"}}}"#).with(
        USER,
        r#"{"mcpServers": {"a": {"command": "user"}, "b": {"type": "pigeon"}, "c": {"command": "user"}}}"#,
    );
    let loaded = home.load();
    assert_eq!(
        home.problems(&loaded),
        ["~/repo/.mcp.json:1: server a: the entry has neither command nor url"]
    );
    assert_eq!(
        home.warnings(&loaded),
        [
            "~/.config/callboard/mcp.json:1: server a: left out, because the entry of this name in \
             ~/repo/.mcp.json comes first and is refused",
            "~/.config/callboard/mcp.json:1: server b: there is no transport \"pigeon\"",
        ]
    );
    assert_eq!(winners(loaded), ["b=project", "c=user"]);
}

#[test]
fn six_bad_entries_leave_three_good_ones() {
    let text = r#"{
      "mcpServers": {
        "good": { "command": "demo-good" },
        "nothing": { "args": ["x"] },
        "no-url": { "type": "http" },
        "pigeon": { "type": "carrier-pigeon", "url": "https://pigeon.example.test/mcp" },
        "number": 7,
        "string-args": { "command": "demo", "args": "--not a list" },
        "env-list": { "command": "demo", "env": ["A=1"] },
        "off": { "command": "demo-off", "disabled": true },
        "last": { "type": "http", "url": "https://last.example.test/mcp" }
      }
    }"#;
    let loaded = Home::new().with(PROJECT, text).load();
    let bad: Vec<(Option<&str>, &str, Option<usize>)> =
        loaded.problems.iter().map(|p| (p.entry.as_deref(), p.code, p.line)).collect();
    assert_eq!(
        bad,
        [
            (Some("nothing"), "missing-command-or-url", Some(4)),
            (Some("no-url"), "missing-url", Some(5)),
            (Some("pigeon"), "unknown-transport", Some(6)),
            (Some("number"), "not-an-object", Some(7)),
            (Some("string-args"), "wrong-type", Some(8)),
            (Some("env-list"), "wrong-type", Some(9)),
        ]
    );
    assert!(loaded.entries.iter().all(|spec| spec.scope == Scope::Project));
    let admission = admit(loaded.entries);
    assert_eq!((admission.admitted.len(), admission.disabled.len()), (2, 1));
}

#[test]
fn a_list_names_its_entries_inside() {
    let text = r#"[{"name": "a", "command": "x"}, {"command": "y"}, {"name": "a", "command": "z"}, 3]"#;
    let loaded = Home::new().with(USER, text).load();
    let codes: Vec<&str> = loaded.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["missing-name", "duplicate-name", "not-an-object"]);
    assert_eq!(winners(loaded), ["a=x"]);
}

#[test]
fn a_file_without_servers_says_so() {
    for (text, expected) in [
        (
            r#"{"mcpServer": {"a": {"command": "x"}}}"#,
            vec!["the file holds no servers; did you mean mcpServers?"],
        ),
        (r#"{"theme": "dark"}"#, vec!["the file holds no servers"]),
        (r#"{"mcpServers": {}}"#, vec![]),
        ("{}", vec![]),
    ] {
        let loaded = Home::new().with(USER, text).load();
        let messages: Vec<&str> = loaded.warnings.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!((messages, loaded.problems), (expected, vec![]), "{text}");
    }
}

#[test]
fn settings_come_from_the_users_file_and_from_variables() {
    let mut home = Home::new()
        .with(USER_TOML, "[connect]\ntimeout_ms = 1000\nlocal_max = 'x'\n[servers.a]\ncommand = 'a'")
        .with(PROJECT, &named("b", "b"));
    home.options.env.insert("CALLBOARD_REQUEST_TIMEOUT_MS".into(), "7".into());
    home.options.env.insert("CALLBOARD_PROBE_TIMEOUT_MS".into(), "7s".into());
    let loaded = home.load();
    assert_eq!(loaded.settings.connect_timeout, Duration::from_millis(1_000));
    assert_eq!(loaded.settings.request_timeout, Duration::from_millis(7));
    assert_eq!(loaded.settings.probe_timeout, Duration::from_millis(3_000));
    assert_eq!(home.short(&loaded.setting_origins["connect.timeout_ms"]), format!("~/{USER_TOML}:2"));
    assert_eq!(
        home.problems(&loaded),
        [
            format!(r#"~/{USER_TOML}:3: connect.local_max: "x" is not a whole number"#),
            r#"CALLBOARD_PROBE_TIMEOUT_MS: probe.timeout_ms: "7s" is not a whole number of milliseconds"#
                .to_owned(),
        ]
    );
    assert_eq!(winners(loaded), ["a=a", "b=b"]);
}

#[test]
fn no_output_shows_a_secret() {
    let home = Home::new().with(
        USER,
        r#"{"mcpServers": {
            "a": {"command": "x", "env": {"K": "planted-1"}, "args": ["${DEMO_TOKEN}", "--key", "planted-2"]},
            "b": {"url": "http://joe:planted-3@h/?k=planted-4", "headers": {"X": "planted-5"}},
            "c": {"url": "planted-6", "env": {"K": "planted-7"}},
            "d": {"command": "x", "env": {"K": ["planted-8"]}},
            "e": {"command": "x", "args": ["${input:planted}", "${a b:-planted-9}"]}
        }}"#,
    );
    let loaded = home.load();
    let mut shown = format!("{loaded:?}");
    loaded.entries.iter().for_each(|spec| shown += &describe::spec_json(spec).to_string());
    loaded.problems.iter().for_each(|problem| shown += &describe::problem_json(problem).to_string());
    loaded.warnings.iter().for_each(|warning| shown += &describe::warning_json(warning).to_string());
    for number in 1..=8 {
        assert!(!shown.contains(&format!("planted-{number}")), "{number}: {shown}");
    }
    assert!(!shown.contains("planted-$"), "{shown}");
    assert_eq!((loaded.entries.len(), loaded.problems.len()), (3, 2));
}

#[test]
fn editors_and_servers_of_the_host_come_from_the_dynamic_scope_alone() {
    let text = r#"{"mcpServers": {
        "editor": {"type": "ws-ide", "url": "ws://127.0.0.1:1", "ideName": "Demo", "ideRunningInWindows": true,
            "authToken": "${TOKEN}"},
        "older": {"type": "sse-ide", "url": "http://127.0.0.1:1/sse"},
        "own": {"type": "sdk", "name": "key"},
        "plain": {"type": "ws", "url": "ws://h", "authToken": "t"}
    }}"#;
    let home = Home::new().with("ide.json", text).with(USER, text);
    let refused = home.load();
    let names: Vec<&str> = refused.entries.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["plain"]);
    assert_eq!(refused.problems.len(), 3);
    for (problem, (name, kind)) in
        refused.problems.iter().zip([("editor", "ws-ide"), ("older", "sse-ide"), ("own", "sdk")])
    {
        assert_eq!(problem.entry.as_deref(), Some(name));
        assert!(problem.file.as_ref().is_some_and(|file| file.ends_with("mcp.json")), "{problem:?}");
        assert!(problem.message.contains(kind) && problem.message.contains("user scope"), "{problem}");
        assert!(problem.hint.contains("--config"), "{problem:?}");
    }

    let mut options = home.options.clone();
    options.config_files = vec![home.path("ide.json")];
    options.env.insert("TOKEN".into(), "planted".into());
    options.env.insert("WSL_DISTRO_NAME".into(), "Debian".into());
    let loaded = load(&options);
    assert_eq!((loaded.entries.len(), loaded.problems.as_slice()), (4, [].as_slice()));
    let TransportSpec::Http(editor) = &loaded.entries[0].transport else { panic!("{:?}", loaded.entries[0]) };
    let ide = editor.ide.as_ref().expect("an editor");
    assert_eq!((ide.name.as_str(), ide.auth_token.as_ref().map(Secret::expose)), ("Demo", Some("planted")));
    assert_eq!(ide.platform, IdePlatform::Windows { distro: Some("Debian".into()) });
    let TransportSpec::InProcess(own) = &loaded.entries[2].transport else {
        panic!("{:?}", loaded.entries[2])
    };
    assert_eq!(own.key, "key");
    assert!(!format!("{:?}{}", loaded.entries, describe::spec_json(&loaded.entries[0])).contains("planted"));
    let ignored: Vec<&str> = loaded
        .warnings
        .iter()
        .filter(|w| w.code == "key-not-in-dialect")
        .map(|w| w.message.as_str())
        .collect();
    assert_eq!(ignored, ["authToken does not apply to a remote server and is ignored"]);
}
