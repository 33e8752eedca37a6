//! The built-in servers as processes: what stdout carries, and how they end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Bound of every wait; far above what a step takes on a loaded machine.
const WAIT_MAX: Duration = Duration::from_secs(30);

struct Server {
    child: Child,
    stdin: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_callboard"))
            .arg("builtin")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdin = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, stdin, lines }
    }

    fn ask(&mut self, request: &str) -> serde_json::Value {
        writeln!(self.stdin, "{request}").expect("the server reads");
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("the server answers");
        serde_json::from_str(&line).expect("JSON on every line")
    }

    /// Closes stdin; how the process ended, and what was left on stdout and stderr.
    fn finish(mut self) -> (ExitStatus, String, String) {
        drop(self.stdin);
        let (sender, ended) = mpsc::channel();
        let id = self.child.id();
        std::thread::spawn(move || {
            let (mut out, mut err) = (String::new(), String::new());
            self.lines.read_to_string(&mut out).expect("text on stdout");
            let mut stderr = self.child.stderr.take().expect("a pipe");
            stderr.read_to_string(&mut err).expect("text on stderr");
            // The receiver is gone only when the test has failed already.
            let _ = sender.send((self.child.wait().expect("a child"), out, err));
        });
        ended.recv_timeout(WAIT_MAX).unwrap_or_else(|_| panic!("process {id} goes on after the end of stdin"))
    }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
const WAIT: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{"ms":600000}}}"#;

#[test]
fn servers_speak_both_eras_and_end_with_stdin() {
    let directory = env!("CARGO_MANIFEST_DIR");
    for args in [vec!["time"], vec!["memory"], vec!["files", directory]] {
        for (request, member) in [(INITIALIZE, "protocolVersion"), (DISCOVER, "supportedVersions")] {
            let mut server = Server::start(&args);
            let answer = server.ask(request);
            assert!(!answer["result"][member].is_null(), "{args:?}: {answer}");
            let (status, out, err) = server.finish();
            assert_eq!((status.code(), out.as_str(), err.as_str()), (Some(0), "", ""), "{args:?}");
        }
    }
}

#[test]
fn a_running_call_does_not_hold_the_process() {
    let mut server = Server::start(&["time"]);
    server.ask(INITIALIZE);
    writeln!(server.stdin, "{WAIT}").expect("the server reads");
    let (status, out, _) = server.finish();
    assert_eq!((status.code(), out.as_str()), (Some(0), ""));
}

#[test]
fn requests_before_the_end_of_stdin_are_answered() {
    let mut server = Server::start(&["time"]);
    let now = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"now"}}"#;
    write!(server.stdin, "{INITIALIZE}\n{now}").expect("the server reads");
    let (status, out, _) = server.finish();
    assert_eq!((status.code(), out.lines().count()), (Some(0), 2), "{out}");
}

#[test]
fn a_stdout_that_nobody_reads_does_not_hold_the_process() {
    let mut server = Server::start(&["time"]);
    server.ask(INITIALIZE);
    let list = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#;
    for _ in 0..40 {
        writeln!(server.stdin, "{list}").expect("the server reads");
    }
    drop(server.stdin);
    let (sender, ended) = mpsc::channel();
    let (mut child, lines) = (server.child, server.lines);
    std::thread::spawn(move || sender.send(child.wait().expect("a child")));
    let status = ended.recv_timeout(WAIT_MAX).expect("the process ends");
    assert_eq!(status.code(), Some(0));
    drop(lines);
}

#[test]
fn a_wrong_name_is_told_on_stderr() {
    let (status, out, err) = Server::start(&["clock"]).finish();
    assert_eq!((status.code(), out.as_str()), (Some(1), ""));
    assert!(err.contains("there is no built-in server clock"), "{err}");
}
