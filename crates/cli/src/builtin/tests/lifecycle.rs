//! Opening, eras, errors, cancelling and ending, which are the same for all servers.

use serde_json::{Value, json};

use super::super::{Builtin, run};
use super::peer::{ERAS, LEGACY, Manner, Peer, server};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[test]
fn wrong_words_are_told_before_anything_runs() {
    for (name, args, expected) in [
        ("clock", vec![], "there is no built-in server clock; there are time, memory and files DIR"),
        ("time", vec!["x"], "the built-in server time takes no arguments"),
        ("files", vec![], "the built-in server files takes one directory: files DIR"),
    ] {
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        assert_eq!(run(name, &args).expect_err("must fail"), expected);
    }
    let missing = run("files", &["/does/not/exist".to_owned()]).expect_err("must fail");
    assert!(missing.starts_with("cannot serve the directory /does/not/exist"), "{missing}");
}

#[tokio::test]
async fn every_legacy_revision_opens_and_lists() {
    for (revision, has_annotations, has_output) in [
        ("2024-11-05", false, false),
        ("2025-03-26", true, false),
        ("2025-06-18", true, true),
        ("2025-11-25", true, true),
    ] {
        let mut peer = Peer::connect(&server("time"), Manner::Legacy(revision)).await;
        let result = peer.result("tools/list", json!({})).await;
        let tool = &result["tools"][0];
        assert_eq!(tool["name"], "now");
        assert_eq!(tool["annotations"]["readOnlyHint"] == true, has_annotations, "{revision}");
        assert_eq!(tool["outputSchema"].is_object(), has_output, "{revision}");
        assert_eq!(tool["title"].is_string(), has_output, "{revision}");
        assert!(result["resultType"].is_null() && result["ttlMs"].is_null() && result["_meta"].is_null());
        let called = peer.result("tools/call", json!({ "name": "now" })).await;
        assert_eq!(called["structuredContent"].is_object(), has_output, "{revision}");
        assert_eq!(peer.result("ping", json!({})).await, json!({}));
        assert_eq!(peer.code("server/discover", json!({})).await, -32602);
        assert_eq!(peer.code("subscriptions/listen", json!({ "notifications": {} })).await, -32601);
        assert!(peer.close().await.is_empty());
    }
}

#[tokio::test]
async fn initialize_answers_with_a_version_that_is_spoken() {
    for asked in ["2026-07-28", "2099-01-01", ""] {
        let mut peer = Peer::silent(&server("memory"));
        let result = peer.result("initialize", json!({ "protocolVersion": asked })).await;
        assert_eq!(result["protocolVersion"], "2025-11-25");
        let capabilities = &result["capabilities"];
        assert_eq!(capabilities["tools"]["listChanged"], true);
        assert_eq!(capabilities["resources"], json!({ "subscribe": true, "listChanged": true }));
        assert!(capabilities["prompts"].is_object() && capabilities["completions"].is_object());
        assert_eq!(result["serverInfo"]["name"], "callboard-memory");
    }
    let mut peer = Peer::silent(&server("memory"));
    assert_eq!(peer.code("initialize", json!({})).await, -32602);
    assert_eq!(peer.code("tools/list", json!({})).await, -32602);
    assert_eq!(peer.result("ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn discovery_names_versions_and_capabilities() {
    let mut peer = Peer::connect(&server("time"), Manner::Modern).await;
    let result = peer.result("server/discover", json!({})).await;
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(result["capabilities"]["tools"]["listChanged"], false);
    assert!(result["capabilities"]["resources"].is_null());
    assert!(result["ttlMs"].is_u64());
    assert_eq!(result["cacheScope"], "private");
    assert_eq!(result["_meta"][SERVER_INFO]["name"], "callboard-time");
    let tools = peer.result("tools/list", json!({})).await;
    assert!(tools["ttlMs"].is_u64() && tools["cacheScope"].is_string());
    let called = peer.result("tools/call", json!({ "name": "now", "arguments": {} })).await;
    assert_eq!(called["resultType"], "complete");
    assert_eq!(called["_meta"][SERVER_INFO]["name"], "callboard-time");
    assert!(called["ttlMs"].is_null());
}

#[tokio::test]
async fn modern_metadata_is_checked_on_every_request() {
    for (meta, code) in [
        (json!({}), -32602),
        (json!({ VERSION: "2026-07-28" }), -32602),
        (json!({ CAPABILITIES: {} }), -32602),
        (json!({ VERSION: "2025-11-25", CAPABILITIES: {} }), -32022),
        (json!({ VERSION: "2099-01-01", CAPABILITIES: {} }), -32022),
    ] {
        for method in ["server/discover", "tools/list"] {
            let mut peer = Peer::silent(&server("time"));
            let answer = peer.ask(method, json!({ "_meta": meta })).await;
            assert_eq!(answer["error"]["code"], code, "{method} {meta}");
            if code == -32022 {
                assert_eq!(answer["error"]["data"]["requested"], meta[VERSION]);
                assert_eq!(answer["error"]["data"]["supported"][0], "2026-07-28");
            }
        }
    }
}

#[tokio::test]
async fn what_the_modern_era_removed_is_not_found() {
    let mut peer = Peer::connect(&server("memory"), Manner::Modern).await;
    for method in
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "x/y"]
    {
        assert_eq!(peer.code(method, json!({})).await, -32601, "{method}");
    }
}

#[tokio::test]
async fn a_session_and_modern_requests_live_side_by_side() {
    let mut peer = Peer::connect(&server("time"), LEGACY).await;
    let meta = json!({ VERSION: "2026-07-28", CAPABILITIES: {} });
    let modern = peer.result("tools/list", json!({ "_meta": meta })).await;
    assert_eq!(modern["resultType"], "complete");
    assert!(peer.result("tools/list", json!({})).await["resultType"].is_null());
}

#[tokio::test]
async fn broken_messages_get_their_codes_and_break_nothing() {
    let mut peer = Peer::connect(&server("time"), LEGACY).await;
    for (line, id, code) in [
        ("{nonsense", Value::Null, -32700),
        ("[]", Value::Null, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Value::Null, -32600),
        (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, json!("a"), -32600),
        (r#"{"jsonrpc":"2.0","id":"b","method":"ping","params":[]}"#, json!("b"), -32602),
        (r#"{"jsonrpc":"2.0","id":"c","method":"no/such"}"#, json!("c"), -32601),
        (r#"{"jsonrpc":"2.0","id":"d","method":"resources/list"}"#, json!("d"), -32601),
        (r#"{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"x"}}"#, json!("e"), -32602),
        (r#"{"jsonrpc":"2.0","id":"f","method":"tools/call","params":{}}"#, json!("f"), -32602),
        (
            r#"{"jsonrpc":"2.0","id":"g","method":"tools/call","params":{"name":"now","arguments":[]}}"#,
            json!("g"),
            -32602,
        ),
        (r#"{"jsonrpc":"2.0","id":"h","method":"tools/list","params":{"cursor":"x"}}"#, json!("h"), -32602),
    ] {
        peer.send_text(line).await;
        let answer = peer.receive().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{line}");
    }
    // Answers, unknown notifications and blank lines get nothing.
    peer.send_text("\n{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}").await;
    peer.notify("notifications/unknown", json!({})).await;
    assert_eq!(peer.result("ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn a_batch_is_answered_as_one_in_the_revision_that_has_them() {
    let mut peer = Peer::connect(&server("time"), Manner::Legacy("2025-03-26")).await;
    peer.send(&json!([
        { "jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": { "name": "now" } },
        { "jsonrpc": "2.0", "method": "notifications/unknown" },
        { "jsonrpc": "2.0", "id": "ping", "method": "ping" },
        { "jsonrpc": "2.0", "id": "gone", "method": "tools/call",
          "params": { "name": "wait", "arguments": { "ms": 600_000 } } },
        { "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "gone" } },
        7,
    ]))
    .await;
    let answers = peer.receive().await;
    let mut ids: Vec<String> =
        answers.as_array().expect("a batch").iter().map(|answer| answer["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["\"call\"", "\"ping\"", "null"]);
    // Notifications alone get no batch back.
    peer.send(&json!([{ "jsonrpc": "2.0", "method": "notifications/unknown" }])).await;
    assert_eq!(peer.result("ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn a_slow_call_blocks_nothing_and_can_be_cancelled() {
    for manner in ERAS {
        let mut peer = Peer::connect(&server("time"), manner).await;
        let wait = json!({ "name": "wait", "arguments": { "ms": 600_000 } });
        let slow = peer.start("tools/call", wait.clone()).await;
        assert_eq!(peer.tool_names().await.len(), 4);
        let again = json!({ "jsonrpc": "2.0", "id": slow, "method": "tools/list" });
        peer.send(&again).await;
        assert_eq!(peer.receive().await["error"]["code"], -32600);
        peer.notify("notifications/cancelled", json!({ "requestId": slow })).await;
        peer.notify("notifications/cancelled", json!({ "requestId": "never sent" })).await;
        // The next answer is that of the next request: a cancelled one gets none.
        assert_eq!(peer.tool_names().await.len(), 4);
        assert!(peer.close().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_ends_running_calls() {
    let mut peer = Peer::connect(&server("time"), LEGACY).await;
    let short = peer.start("tools/call", json!({ "name": "wait", "arguments": { "ms": 50 } })).await;
    peer.start("tools/call", json!({ "name": "wait", "arguments": { "ms": 600_000 } })).await;
    let before = tokio::time::Instant::now();
    let rest = peer.close().await;
    assert!(before.elapsed().as_millis() < 1_000);
    assert_eq!(rest.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [&json!(short)]);
}

#[tokio::test]
async fn a_stream_is_acknowledged_first_and_ended_with_a_result() {
    let mut peer = Peer::connect(&server("memory"), Manner::Modern).await;
    let asked = json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": false,
        "resourceSubscriptions": ["memory://note/a", "https://elsewhere.test/"],
    });
    let stream = peer.start("subscriptions/listen", json!({ "notifications": asked })).await;
    let acknowledged = peer.receive().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], stream);
    let honoured = json!({ "toolsListChanged": true, "resourceSubscriptions": ["memory://note/a"] });
    assert_eq!(acknowledged["params"]["notifications"], honoured);

    peer.call("remember", json!({ "key": "a", "text": "1" })).await;
    let [tools, updated] = [peer.note().await, peer.note().await];
    assert_eq!(tools["method"], "notifications/tools/list_changed");
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "memory://note/a");
    for note in [tools, updated] {
        assert_eq!(note["params"]["_meta"][SUBSCRIPTION], stream);
    }

    let rest = peer.close().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["id"], stream);
    assert_eq!(rest[0]["result"]["resultType"], "complete");
    assert_eq!(rest[0]["result"]["_meta"][SUBSCRIPTION], stream);
}

#[tokio::test]
async fn a_cancelled_stream_hears_nothing_more() {
    let mut peer = Peer::connect(&server("memory"), Manner::Modern).await;
    let asked = json!({ "notifications": { "toolsListChanged": true } });
    let stream = peer.start("subscriptions/listen", asked).await;
    peer.receive().await;
    peer.notify("notifications/cancelled", json!({ "requestId": stream })).await;
    peer.call("remember", json!({ "key": "a", "text": "1" })).await;
    assert!(peer.take_notes().is_empty());
    assert!(peer.close().await.is_empty());
    let mut peer = Peer::connect(&server("memory"), Manner::Modern).await;
    assert_eq!(peer.code("subscriptions/listen", json!({})).await, -32602);
}

#[tokio::test]
async fn logs_come_only_where_they_are_asked_for() {
    let call = json!({ "name": "now", "arguments": { "timezone": "Nowhere" } });
    let mut legacy = Peer::connect(&server("time"), LEGACY).await;
    legacy.result("tools/call", call.clone()).await;
    assert!(legacy.take_notes().is_empty());
    assert_eq!(legacy.code("logging/setLevel", json!({ "level": "loud" })).await, -32602);
    legacy.result("logging/setLevel", json!({ "level": "warning" })).await;
    legacy.result("tools/call", call.clone()).await;
    assert_eq!(legacy.note().await["params"]["level"], "warning");
    assert!(legacy.take_notes().is_empty());

    let mut modern = Peer::connect(&server("time"), Manner::Modern).await;
    modern.result("tools/call", call.clone()).await;
    assert!(modern.take_notes().is_empty());
    let mut logged = call;
    logged["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    modern.result("tools/call", logged).await;
    assert_eq!(modern.take_notes(), ["notifications/message"; 2]);
}

#[tokio::test]
async fn what_the_schemas_promise_is_what_tools_answer() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("a.txt"), "hello").expect("a file");
    let path = directory.path().to_str().expect("a text").to_owned();
    let files = Builtin::named("files", &[path]).expect("a server");
    let calls = [
        (server("time"), "now", json!({})),
        (server("time"), "convert", json!({ "time": "10:00", "from": "UTC", "to": "Asia/Tokyo" })),
        (server("time"), "zones", json!({ "query": "berlin" })),
        (server("time"), "wait", json!({ "ms": 0 })),
        (server("memory"), "remember", json!({ "key": "a", "text": "1" })),
        (server("memory"), "search", json!({ "query": "" })),
        (files.clone(), "list", json!({})),
        (files.clone(), "read", json!({ "path": "a.txt" })),
        (files.clone(), "search", json!({ "query": "HELL" })),
        (files, "stat", json!({ "path": "a.txt" })),
    ];
    for (server, name, arguments) in calls {
        let mut peer = Peer::connect(&server, Manner::Modern).await;
        let tools = peer.result("tools/list", json!({})).await;
        let tools = tools["tools"].as_array().expect("tools");
        let tool = tools.iter().find(|tool| tool["name"] == name).expect("the tool is listed");
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{name}");
        }
        let result = peer.result("tools/call", json!({ "name": name, "arguments": arguments })).await;
        let structured = result["structuredContent"].as_object().expect("structured content");
        let schema = tool["outputSchema"]["properties"].as_object().expect("properties");
        let required = tool["outputSchema"]["required"].as_array().expect("required members");
        for member in required {
            let member = member.as_str().expect("a name");
            assert!(structured.contains_key(member), "{name}: {member}");
        }
        assert!(structured.keys().all(|member| schema.contains_key(member)), "{name}: {structured:?}");
        if name != "read" {
            let text = result["content"][0]["text"].as_str().expect("a mirror");
            assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), result["structuredContent"]);
        }
    }
}
