//! The `memory` server.

use serde_json::{Value, json};

use super::peer::{ERAS, LEGACY, Manner, Peer, server};

#[tokio::test]
async fn notes_are_kept_found_and_forgotten() {
    for manner in ERAS {
        let mut peer = Peer::connect(&server("memory"), manner).await;
        let kept = peer.call("remember", json!({ "key": "a b", "text": "Tea, not coffee" })).await;
        assert_eq!(kept, json!({ "key": "a b", "replaced": false, "notes": 1 }));
        let again = peer.call("remember", json!({ "key": "a b", "text": "Coffee after all" })).await;
        assert_eq!(again["replaced"], true);
        let recalled = peer.call("recall", json!({ "key": "a b" })).await;
        assert_eq!(recalled["text"], "Coffee after all");
        assert_eq!(recalled["uri"], "memory://note/a%20b");
        let found = peer.call("search", json!({ "query": "COFFEE" })).await;
        assert_eq!(found["matches"][0]["key"], "a b");
        peer.call("forget", json!({ "key": "a b" })).await;
        assert!(peer.call_error("recall", json!({ "key": "a b" })).await.contains("there is no note a b"));
        let too_long = json!({ "key": "k", "text": "x".repeat(16 * 1024 + 1) });
        assert!(peer.call_error("remember", too_long).await.contains("longer than 16384 bytes"));
        assert!(peer.call_error("remember", json!({ "key": "", "text": "" })).await.contains("a key has"));
    }
}

#[tokio::test]
async fn forget_is_a_tool_while_there_are_notes() {
    let mut peer = Peer::connect(&server("memory"), LEGACY).await;
    assert_eq!(peer.tool_names().await, ["remember", "recall", "search"]);
    assert_eq!(peer.code("tools/call", json!({ "name": "forget" })).await, -32602);
    peer.call("remember", json!({ "key": "a", "text": "1" })).await;
    let told = ["notifications/tools/list_changed", "notifications/resources/list_changed"];
    assert_eq!(peer.take_notes(), told);
    assert_eq!(peer.tool_names().await, ["remember", "recall", "forget", "search"]);
    peer.call("remember", json!({ "key": "b", "text": "2" })).await;
    assert_eq!(peer.take_notes(), ["notifications/resources/list_changed"]);
    peer.call("remember", json!({ "key": "b", "text": "3" })).await;
    assert!(peer.take_notes().is_empty());
    peer.call("forget", json!({ "key": "a" })).await;
    peer.take_notes();
    peer.call("forget", json!({ "key": "b" })).await;
    assert_eq!(peer.take_notes(), told);
}

#[tokio::test]
async fn sessions_of_one_server_share_its_notes() {
    let server = server("memory");
    let mut writer = Peer::connect(&server, Manner::Modern).await;
    let mut reader = Peer::connect(&server, LEGACY).await;
    assert_eq!(reader.tool_names().await.len(), 3);
    writer.call("remember", json!({ "key": "a", "text": "1" })).await;
    assert_eq!(reader.note().await["method"], "notifications/tools/list_changed");
    assert_eq!(reader.call("recall", json!({ "key": "a" })).await["text"], "1");
}

#[tokio::test]
async fn nothing_is_told_before_the_session_is_open() {
    let server = server("memory");
    let mut early = Peer::silent(&server);
    early.result("initialize", json!({ "protocolVersion": "2025-11-25" })).await;
    let mut writer = Peer::connect(&server, LEGACY).await;
    writer.call("remember", json!({ "key": "a", "text": "1" })).await;
    assert_eq!(early.tool_names().await.len(), 4);
    assert!(early.take_notes().is_empty());
}

#[tokio::test]
async fn resources_come_in_pages() {
    for manner in ERAS {
        let mut peer = Peer::connect(&server("memory"), manner).await;
        for number in 0..120 {
            peer.call("remember", json!({ "key": format!("n{number:03}"), "text": "x" })).await;
        }
        let (mut uris, mut cursor, mut pages) = (Vec::<Value>::new(), Value::Null, 0);
        loop {
            let page = peer.result("resources/list", json!({ "cursor": cursor })).await;
            let resources = page["resources"].as_array().expect("resources");
            uris.extend(resources.iter().map(|resource| resource["uri"].clone()));
            pages += 1;
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
            // The item that a cursor names may go meanwhile.
            peer.call("forget", json!({ "key": format!("n{:03}", pages * 50 - 1) })).await;
        }
        assert_eq!((uris.len(), pages), (120, 3));
        assert_eq!(peer.code("resources/list", json!({ "cursor": "" })).await, -32602);
    }
}

#[tokio::test]
async fn resources_are_read_and_missing_ones_told_in_the_code_of_the_era() {
    for (manner, code) in [(LEGACY, -32002), (Manner::Modern, -32602)] {
        let mut peer = Peer::connect(&server("memory"), manner).await;
        peer.call("remember", json!({ "key": "a/b", "text": "1" })).await;
        let read = peer.result("resources/read", json!({ "uri": "memory://note/a%2Fb" })).await;
        let expected = json!([{ "uri": "memory://note/a%2Fb", "mimeType": "text/plain", "text": "1" }]);
        assert_eq!(read["contents"], expected);
        for uri in ["memory://note/c", "memory://note/", "memory://note/a/b", "file:///etc/passwd", "x"] {
            assert_eq!(peer.code("resources/read", json!({ "uri": uri })).await, code, "{uri}");
        }
        let templates = peer.result("resources/templates/list", json!({})).await;
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "memory://note/{key}");
    }
}

#[tokio::test]
async fn a_legacy_session_subscribes_to_a_note() {
    let mut peer = Peer::connect(&server("memory"), LEGACY).await;
    let note = json!({ "uri": "memory://note/a" });
    peer.result("resources/subscribe", note.clone()).await;
    assert_eq!(peer.code("resources/subscribe", json!({ "uri": "memory://x" })).await, -32002);
    peer.call("remember", json!({ "key": "a", "text": "1" })).await;
    assert_eq!(peer.take_notes().last().map(String::as_str), Some("notifications/resources/updated"));
    peer.call("remember", json!({ "key": "a", "text": "2" })).await;
    assert_eq!(peer.note().await["params"], note);
    peer.result("resources/unsubscribe", note).await;
    peer.call("remember", json!({ "key": "a", "text": "3" })).await;
    assert!(peer.take_notes().is_empty());
}

#[tokio::test]
async fn prompts_and_completion() {
    for manner in ERAS {
        let mut peer = Peer::connect(&server("memory"), manner).await;
        for key in ["tea", "team", "coffee"] {
            peer.call("remember", json!({ "key": key, "text": format!("about {key}") })).await;
        }
        let prompts = peer.result("prompts/list", json!({})).await;
        assert_eq!(prompts["prompts"][1]["name"], "use_note");
        assert_eq!(prompts["prompts"][1]["arguments"][0]["required"], true);
        let get = json!({ "name": "use_note", "arguments": { "key": "tea" } });
        let prompt = peer.result("prompts/get", get).await;
        let text = prompt["messages"][0]["content"]["text"].as_str().expect("a text");
        assert!(text.ends_with("about tea"), "{text}");
        for wrong in [
            json!({ "name": "none" }),
            json!({ "name": "use_note" }),
            json!({ "name": "use_note", "arguments": { "key": 7 } }),
            json!({ "name": "use_note", "arguments": { "key": "gone" } }),
        ] {
            assert_eq!(peer.code("prompts/get", wrong.clone()).await, -32602, "{wrong}");
        }
        for reference in [
            json!({ "type": "ref/prompt", "name": "use_note" }),
            json!({ "type": "ref/resource", "uri": "memory://note/{key}" }),
        ] {
            let asked = json!({ "ref": reference, "argument": { "name": "key", "value": "te" } });
            let found = peer.result("completion/complete", asked).await;
            let expected = json!({ "values": ["tea", "team"], "total": 2, "hasMore": false });
            assert_eq!(found["completion"], expected);
        }
        let unknown = json!({
            "ref": { "type": "ref/prompt", "name": "none" }, "argument": { "name": "key", "value": "" },
        });
        assert_eq!(peer.code("completion/complete", unknown).await, -32602);
    }
}
