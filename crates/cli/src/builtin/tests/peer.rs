//! A client for tests: it sends what it is told to and shows everything that comes back.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use super::super::{Builtin, serve};

/// Bound of every wait; far above what any step takes.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// How a peer speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Legacy(&'static str),
    Modern,
}

/// One client of a server that runs beside it.
pub(super) struct Peer {
    write: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    session: JoinHandle<()>,
    manner: Manner,
    id_last: i64,
    /// Notifications that came while an answer was waited for.
    notes: VecDeque<Value>,
}

impl Peer {
    /// Connects without a word.
    pub(super) fn silent(server: &Builtin) -> Self {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(far);
        let session = tokio::spawn(serve(server.clone(), read, write));
        let (read, write) = tokio::io::split(near);
        let lines = BufReader::new(read).lines();
        Self { write, lines, session, manner: Manner::Legacy(""), id_last: 0, notes: VecDeque::new() }
    }

    /// Connects, and opens a session where the manner has one.
    pub(super) async fn connect(server: &Builtin, manner: Manner) -> Self {
        let mut peer = Self::silent(server);
        peer.manner = manner;
        if let Manner::Legacy(revision) = manner {
            let params = json!({
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            });
            let answer = peer.ask("initialize", params).await;
            assert_eq!(answer["result"]["protocolVersion"], revision);
            peer.notify("notifications/initialized", json!({})).await;
        }
        peer
    }

    pub(super) async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    pub(super) async fn send_text(&mut self, line: &str) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.expect("the server reads");
    }

    /// The next message, whatever it is.
    pub(super) async fn receive(&mut self) -> Value {
        self.receive_or_end().await.expect("the server goes on")
    }

    async fn receive_or_end(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(WAIT_MAX, self.lines.next_line()).await.expect("an answer in time");
        line.expect("the pipe holds").map(|line| serde_json::from_str(&line).expect("JSON on every line"))
    }

    /// Sends a request; its id.
    pub(super) async fn start(&mut self, method: &str, mut params: Value) -> i64 {
        self.id_last += 1;
        if self.manner == Manner::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let id = self.id_last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// The answer to a request; notifications before it are kept for [`Peer::note`].
    pub(super) async fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.receive().await;
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "{message}");
                return message;
            }
            self.notes.push_back(message);
        }
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params).await;
        self.answer(id).await
    }

    /// The result of a request that must have one.
    pub(super) async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code of a request that must fail.
    pub(super) async fn code(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params).await;
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method} must fail: {answer}"))
    }

    /// The structured content of a call that must work.
    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_eq!(result["isError"], false, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// The text of a call that must be an error of the tool.
    pub(super) async fn call_error(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.result("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    pub(super) async fn tool_names(&mut self) -> Vec<String> {
        let result = self.result("tools/list", json!({})).await;
        let tools = result["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// The next notification.
    pub(super) async fn note(&mut self) -> Value {
        match self.notes.pop_front() {
            Some(note) => note,
            None => self.receive().await,
        }
    }

    /// All notifications that came so far, by method.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        let notes = self.notes.drain(..);
        notes.map(|note| note["method"].as_str().expect("a method").to_owned()).collect()
    }

    /// Closes the sending side; what still comes until the server has closed its own.
    pub(super) async fn close(mut self) -> Vec<Value> {
        self.write.shutdown().await.expect("the pipe holds");
        let mut rest = Vec::from(std::mem::take(&mut self.notes));
        while let Some(message) = self.receive_or_end().await {
            rest.push(message);
        }
        let ended = tokio::time::timeout(WAIT_MAX, self.session).await.expect("the session ends");
        ended.expect("the session does not crash");
        rest
    }
}

pub(super) const LEGACY: Manner = Manner::Legacy("2025-11-25");

/// One manner of each era.
pub(super) const ERAS: [Manner; 2] = [LEGACY, Manner::Modern];

/// The server of that name that takes no arguments.
pub(super) fn server(name: &str) -> Builtin {
    Builtin::named(name, &[]).expect("a built-in server")
}
