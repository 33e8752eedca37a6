//! What is drawn on a terminal, and that it is given back.
#![cfg(unix)]

mod common;

use common::{Home, builtin, finish, hanging};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const COLUMNS: u16 = 60;
const ROWS: u16 = 8;
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";

/// Our end of a terminal and the program's end.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointers are to locals that live through the call, or null where that is allowed.
    let opened = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    assert_eq!(opened, 0, "a terminal");
    // A program that holds our end itself would never see the terminal close.
    for end in [ours, theirs] {
        // SAFETY: the descriptor is open, and the call takes plain numbers.
        assert_eq!(unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
    }
    // SAFETY: both were just opened and belong to nobody else.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// A command on a terminal, and all that it has drawn so far.
struct Drawn {
    child: Child,
    text: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Drawn {
    fn start(home: &Home, words: &[&str]) -> Drawn {
        let (mut ours, theirs) = terminal();
        let mut command = home.command(words);
        command.env("TERM", "xterm");
        command.stdin(theirs.try_clone().expect("copies")).stdout(theirs).stderr(Stdio::piped());
        let child = command.spawn().expect("starts");
        drop(command);
        let text: Arc<Mutex<String>> = Arc::default();
        let drawn = text.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of a terminal is an error.
            while let Ok(n @ 1..) = ours.read(&mut bytes) {
                drawn.lock().expect("not poisoned").push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Drawn { child, text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        self.text.lock().expect("not poisoned").clone()
    }

    /// The last whole picture, line by line, without colours.
    fn picture(&self) -> Vec<String> {
        let text = self.text();
        let frame = text.rsplit("\u{1b}[?2026h\u{1b}[H").find(|frame| frame.contains("\u{1b}[?2026l"));
        let frame = frame.unwrap_or_default().split("\u{1b}[J").next().unwrap_or_default().to_owned();
        let mut plain = String::new();
        let mut rest = frame.as_str();
        while let Some((before, after)) = rest.split_once("\u{1b}[") {
            plain.push_str(before);
            rest = after.find(|c: char| c.is_ascii_alphabetic()).map_or("", |end| &after[end + 1..]);
        }
        plain.push_str(rest);
        // The terminal makes a line feed into both, whether or not both were sent.
        plain.split('\n').map(|line| line.trim_end_matches('\r').to_owned()).collect()
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&[String]) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.picture()) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {:?}", self.picture());
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn end(mut self, home: &Home) -> String {
        let reader = self.reader.take().expect("it ends once");
        let pid = libc::pid_t::try_from(self.child.id()).expect("a pid");
        let sent = Instant::now();
        // SAFETY: kill takes plain numbers and touches no memory of ours.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status.code();
            }
            assert!(sent.elapsed() < Duration::from_secs(20), "it goes on");
            std::thread::park_timeout(Duration::from_millis(5));
        };
        assert_eq!(code, Some(130));
        home.assert_nothing_left();
        reader.join().expect("reads to the end");
        self.text()
    }
}

impl Drop for Drawn {
    /// A test that fails leaves nothing either.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_watch_is_drawn_within_the_terminal_which_is_given_back() {
    let mut servers = json!({ "time": builtin(&["time"]), "bad": { "command": "no-such-program" } });
    for n in 0..9 {
        servers[format!("spare-{n}")] = json!({ "command": "x", "disabled": true });
    }
    let home = Home::with(servers);
    let drawn = Drawn::start(&home, &["status", "--watch"]);
    drawn.wait_for("both have settled", |lines| {
        lines.first().is_some_and(|line| line.starts_with("11 servers: 1 connected, 1 not"))
            && lines.iter().any(|line| line.starts_with("bad") && line.contains("failed"))
    });
    let lines = drawn.picture();
    assert!(lines.len() <= usize::from(ROWS), "{lines:?}");
    assert!(lines.iter().all(|line| line.chars().count() <= usize::from(COLUMNS)), "{lines:?}");
    assert!(lines[3].starts_with("bad"), "what is ill comes first where not all have room: {lines:?}");
    assert!(lines[4].starts_with("time"), "and what is off last: {lines:?}");
    assert!(lines.last().is_some_and(|line| line.contains("more lines")), "{lines:?}");
    let text = drawn.end(&home);
    assert_eq!(text.matches(ENTER).count(), 1);
    let after = text.rsplit_once(LEAVE).expect("is given back").1;
    assert!(after.contains("11 servers: 1 connected") && !after.contains("\u{1b}[?2026h"), "{after:?}");
}

#[test]
fn ctrl_c_before_anything_has_settled_gives_the_terminal_back() {
    let home = Home::with(json!({ "hang": hanging() }));
    let drawn = Drawn::start(&home, &["status", "--watch"]);
    drawn.wait_for("it is shown", |lines| lines.iter().any(|line| line.starts_with("hang")));
    let text = drawn.end(&home);
    assert!(text.contains(LEAVE), "{text:?}");
}

#[test]
fn a_terminal_that_is_closed_ends_what_was_drawn_on_it() {
    let home = Home::with(json!({ "time": builtin(&["time"]) }));
    for words in [&["status", "--watch"][..], &["events"]] {
        let (mut ours, theirs) = terminal();
        let mut command = home.command(words);
        command.stdout(theirs).stderr(Stdio::piped());
        let child = command.spawn().expect("starts");
        drop(command);
        let mut bytes = [0; 4096];
        assert!(ours.read(&mut bytes).expect("something is shown") > 0);
        drop(ours);
        let run = finish(child, Instant::now());
        assert!(!run.stderr.contains("panicked"), "{run:?}");
        home.assert_nothing_left();
    }
}
