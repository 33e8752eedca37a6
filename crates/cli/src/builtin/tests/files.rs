//! The `files` server.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::Builtin;
use super::peer::{ERAS, LEGACY, Manner, Peer};

/// A directory with files of all kinds, beside one that nobody may see.
fn tree() -> (TempDir, Builtin) {
    let outer = tempfile::tempdir().expect("a directory");
    let write = |path: &str, bytes: &[u8]| {
        let path = outer.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    };
    write("secret.txt", b"needle outside");
    write("served/a.txt", b"first line\nA Needle here\n");
    write("served/b/deep.rs", b"fn needle() {}\n");
    write("served/b/image.png", b"\x89PNG\0\xff");
    write("served/.hidden/c.txt", b"needle hidden");
    write("served/umlaut.txt", "aü".as_bytes());
    let server = server(&outer.path().join("served"));
    (outer, server)
}

fn server(directory: &Path) -> Builtin {
    let directory = directory.to_str().expect("a text").to_owned();
    Builtin::named("files", &[directory]).expect("a server")
}

#[tokio::test]
async fn directories_are_listed() {
    let (_outer, server) = tree();
    for manner in ERAS {
        let mut peer = Peer::connect(&server, manner).await;
        let page = peer.call("list", json!({ "limit": 2 })).await;
        assert_eq!(page["entries"][0], json!({ "name": ".hidden", "kind": "directory", "bytes": null }));
        assert_eq!(page["entries"][1], json!({ "name": "a.txt", "kind": "file", "bytes": 25 }));
        let rest = peer.call("list", json!({ "cursor": page["next_cursor"] })).await;
        assert_eq!(rest["entries"][0]["name"], "b");
        assert_eq!(rest["next_cursor"], Value::Null);
        let below = peer.call("list", json!({ "path": "./b/" })).await;
        assert_eq!((&below["path"], &below["entries"][0]["name"]), (&json!("b"), &json!("deep.rs")));
        assert_eq!(peer.call_error("list", json!({ "path": "a.txt" })).await, "a.txt is not a directory");
    }
}

#[tokio::test]
async fn files_are_read_whole_and_in_parts() {
    let (_outer, server) = tree();
    let mut peer = Peer::connect(&server, LEGACY).await;
    let call = json!({ "name": "read", "arguments": { "path": "a.txt" } });
    let result = peer.result("tools/call", call).await;
    assert_eq!(result["content"], json!([{ "type": "text", "text": "first line\nA Needle here\n" }]));
    assert_eq!(result["structuredContent"]["next_offset"], Value::Null);

    let part = peer.call("read", json!({ "path": "a.txt", "offset": 6, "length": 4 })).await;
    assert_eq!((&part["text"], &part["next_offset"]), (&json!("line"), &json!(10)));
    let cut = peer.call("read", json!({ "path": "umlaut.txt", "length": 2 })).await;
    assert_eq!((&cut["text"], &cut["next_offset"]), (&json!("a"), &json!(1)));
    let past = peer.call("read", json!({ "path": "a.txt", "offset": 99 })).await;
    assert_eq!((&past["text"], &past["next_offset"]), (&json!(""), &Value::Null));

    let call = json!({ "name": "read", "arguments": { "path": "b/image.png" } });
    let binary = peer.result("tools/call", call).await;
    assert_eq!(binary["structuredContent"]["encoding"], "base64");
    assert_eq!(binary["content"][0]["type"], "resource");
    assert_eq!(binary["content"][0]["resource"]["blob"], "iVBORwD/");
    assert_eq!(binary["content"][0]["resource"]["mimeType"], "image/png");
}

#[tokio::test]
async fn lines_are_found() {
    let (_outer, server) = tree();
    let mut peer = Peer::connect(&server, Manner::Modern).await;
    let found = peer.call("search", json!({ "query": "NEEDLE" })).await;
    let expected = json!([
        { "path": "a.txt", "line": 2, "text": "A Needle here" },
        { "path": "b/deep.rs", "line": 1, "text": "fn needle() {}" },
    ]);
    assert_eq!((&found["matches"], &found["is_complete"]), (&expected, &json!(true)));
    let first = peer.call("search", json!({ "query": "needle", "limit": 1 })).await;
    assert_eq!((first["matches"].as_array().map(Vec::len), &first["is_complete"]), (Some(1), &json!(false)));
    let below = peer.call("search", json!({ "query": "needle", "path": "b" })).await;
    assert_eq!(below["matches"][0]["path"], "b/deep.rs");
    assert!(peer.call_error("search", json!({ "query": "" })).await.contains("query must be"));
}

#[tokio::test]
async fn more_searches_than_the_disk_has_room_for_are_all_answered() {
    let (_outer, server) = tree();
    let mut peer = Peer::connect(&server, LEGACY).await;
    let search = json!({ "name": "search", "arguments": { "query": "needle" } });
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(json!(peer.start("tools/call", search.clone()).await));
    }
    let mut answered = Vec::new();
    for _ in &ids {
        let answer = peer.receive().await;
        assert_eq!(answer["result"]["structuredContent"]["matches"].as_array().map(Vec::len), Some(2));
        answered.push(answer["id"].clone());
    }
    answered.sort_by_key(Value::as_i64);
    assert_eq!(answered, ids);
}

#[tokio::test]
async fn what_is_there_is_described() {
    let (_outer, server) = tree();
    let mut peer = Peer::connect(&server, LEGACY).await;
    let file = peer.call("stat", json!({ "path": "b/deep.rs" })).await;
    assert_eq!((&file["kind"], &file["bytes"]), (&json!("file"), &json!(15)));
    assert_eq!(file["media_type"], "text/x-rust");
    assert!(file["modified"].as_str().is_some_and(|at| at.ends_with('Z')));
    let root = peer.call("stat", json!({ "path": "" })).await;
    assert_eq!((&root["kind"], &root["bytes"]), (&json!("directory"), &Value::Null));
    assert_eq!(peer.call_error("stat", json!({ "path": "none" })).await, "there is no none");
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_leads_outside() {
    use std::os::unix::fs::symlink;

    let (outer, server) = tree();
    let served = outer.path().join("served");
    symlink(outer.path().join("secret.txt"), served.join("out.txt")).expect("a link");
    symlink(outer.path(), served.join("up")).expect("a link");
    symlink("a.txt", served.join("inside.txt")).expect("a link");
    let secret = outer.path().join("secret.txt");
    let secret = secret.to_str().expect("a text");
    let mut peer = Peer::connect(&server, LEGACY).await;
    for path in ["../secret.txt", "b/../../secret.txt", "out.txt", "up/secret.txt", "/etc/passwd", secret] {
        for tool in ["read", "stat"] {
            let text = peer.call_error(tool, json!({ "path": path })).await;
            assert!(text.contains("is outside of the served directory"), "{tool} {path}: {text}");
        }
    }
    assert!(peer.call_error("list", json!({ "path": "up" })).await.contains("outside"));
    assert!(peer.call_error("search", json!({ "query": "x", "path": "up" })).await.contains("outside"));
    assert!(peer.call_error("read", json!({ "path": "a\0b" })).await.contains("there is no"));
    assert!(peer.call_error("read", json!({ "path": "b" })).await.contains("is a directory"));
    assert_eq!(peer.call("read", json!({ "path": "inside.txt" })).await["bytes"], 25);
    let found = peer.call("search", json!({ "query": "outside" })).await;
    assert_eq!(found["matches"], json!([]));
    for uri in [
        format!("file://{secret}"),
        format!("file://{}/up/secret.txt", served.display()),
        "file:///".to_owned(),
    ] {
        assert_eq!(peer.code("resources/read", json!({ "uri": uri })).await, -32002, "{uri}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_is_never_waited_for() {
    let (outer, server) = tree();
    let pipe = outer.path().join("served/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let mut peer = Peer::connect(&server, LEGACY).await;
    let text = peer.call_error("read", json!({ "path": "pipe" })).await;
    assert_eq!(text, "pipe is not a regular file");
}

#[tokio::test]
async fn resources_are_paged_read_and_completed() {
    let (outer, server) = tree();
    for number in 0..150 {
        fs::write(outer.path().join(format!("served/b/n{number:03}")), "x").expect("a file");
    }
    for (manner, missing) in [(LEGACY, -32002), (Manner::Modern, -32602)] {
        let mut peer = Peer::connect(&server, manner).await;
        let first = peer.result("resources/list", json!({})).await;
        let second = peer.result("resources/list", json!({ "cursor": first["nextCursor"] })).await;
        assert_eq!(second["nextCursor"], Value::Null);
        let names: Vec<&str> = [&first, &second]
            .into_iter()
            .flat_map(|page| page["resources"].as_array().expect("resources"))
            .map(|resource| resource["name"].as_str().expect("a name"))
            .collect();
        assert_eq!((names.len(), names[0], names[153]), (154, "a.txt", "umlaut.txt"));
        assert!(names.is_sorted());

        let uri = first["resources"][0]["uri"].as_str().expect("a URI");
        let text = peer.result("resources/read", json!({ "uri": uri })).await;
        assert_eq!(text["contents"][0]["text"], "first line\nA Needle here\n");
        let image = uri.replace("a.txt", "b/image.png");
        let blob = peer.result("resources/read", json!({ "uri": image })).await;
        assert_eq!(blob["contents"][0]["blob"], "iVBORwD/");
        let none = uri.replace("a.txt", "none");
        assert_eq!(peer.code("resources/read", json!({ "uri": none })).await, missing);

        let templates = peer.result("resources/templates/list", json!({})).await;
        let template = &templates["resourceTemplates"][0]["uriTemplate"];
        assert_eq!(template.as_str().expect("a template"), uri.replace("a.txt", "{+path}"));
        let asked = json!({
            "ref": { "type": "ref/resource", "uri": template },
            "argument": { "name": "path", "value": "b/" },
        });
        let found = peer.result("completion/complete", asked).await;
        assert_eq!(found["completion"]["values"][0], "b/deep.rs");
        assert_eq!(found["completion"]["values"].as_array().map(Vec::len), Some(100));
        assert_eq!(
            (&found["completion"]["total"], &found["completion"]["hasMore"]),
            (&json!(152), &json!(true))
        );
    }
}

#[tokio::test]
async fn a_resource_over_the_limit_is_refused() {
    let (outer, server) = tree();
    fs::write(outer.path().join("served/large"), vec![b'x'; 2 * 1024 * 1024 + 1]).expect("a file");
    let mut peer = Peer::connect(&server, LEGACY).await;
    let stat = peer.call("stat", json!({ "path": "large" })).await;
    assert_eq!(peer.code("resources/read", json!({ "uri": stat["uri"] })).await, -32603);
    let part = peer.call("read", json!({ "path": "large" })).await;
    assert_eq!(part["next_offset"], 64 * 1024);
}

#[tokio::test]
async fn watched_files_are_looked_at_again() {
    let (outer, server) = tree();
    let path = outer.path().join("served/new.txt");
    let mut peer = Peer::connect(&server, LEGACY).await;
    let uri = peer.call("stat", json!({ "path": "a.txt" })).await["uri"].clone();
    let uri = json!({ "uri": uri.as_str().expect("a URI").replace("a.txt", "new.txt") });
    peer.result("resources/subscribe", uri.clone()).await;
    for content in [Some("1"), Some("longer"), None] {
        match content {
            Some(content) => fs::write(&path, content).expect("a file"),
            None => fs::remove_file(&path).expect("the file was there"),
        }
        let note = peer.note().await;
        assert_eq!((&note["method"], &note["params"]), (&json!("notifications/resources/updated"), &uri));
    }
    assert_eq!(peer.code("resources/subscribe", json!({ "uri": "file:///etc/passwd" })).await, -32002);
}
