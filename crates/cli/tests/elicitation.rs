//! Questions of a server: asked at a terminal, refused with a hint where there is none.
#![cfg(unix)]

mod common;

use common::{Home, finish};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Stdio;
use std::time::Instant;

/// A legacy server in a few lines of shell: its one tool asks for a name and tells what came back.
const ASKER: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"asker","version":"1"}}}\n' "$id";;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}}\n' "$id";;
    *'"tools/call"'*) call=$id; printf '{"jsonrpc":"2.0","id":"question","method":"elicitation/create","params":{"message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Your name"},"part":{"type":"string","enum":["lead","extra"],"default":"extra"}},"required":["name"]}}}\n';;
    *'"question"'*) told=$(printf '%s' "$line" | sed 's/["\\]//g'); printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"told: %s"}]}}\n' "$call" "$told";;
    *'"method":"notifications'*) ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id";;
  esac
done
"#;

fn home() -> Home {
    Home::with(json!({ "asker": { "command": "sh", "args": ["-c", ASKER] } }))
}

#[test]
fn without_a_terminal_a_question_is_refused_with_a_hint() {
    let run = home().run(&["call", "asker/ask"]).exits(0);
    assert!(run.stdout.contains("action:cancel"), "{run:?}");
    assert!(run.stderr.contains("the server asker asks: Who are you?"), "{run:?}");
    assert!(run.stderr.contains("hint: nobody can answer here; run the command at a terminal"), "{run:?}");
}

/// Runs `call asker/ask` at a terminal where this is typed; gives everything that the terminal showed.
fn at_a_terminal(typed: &str) -> String {
    let home = home();
    let (ours, theirs) = terminal();
    let stream = || Stdio::from(theirs.try_clone().expect("a second handle"));
    let mut command = home.command(&["call", "asker/ask"]);
    command.env("TERM", "xterm").stdin(stream()).stdout(stream()).stderr(stream());
    let child = command.spawn().expect("starts");
    drop((command, theirs));
    let mut screen = File::from(ours);
    screen.write_all(typed.as_bytes()).expect("types");
    let mut keyboard = screen.try_clone().expect("a second handle");
    let reader = std::thread::spawn(move || {
        let mut shown = Vec::new();
        // The end of a terminal is an error on Linux (EIO) and an end of file elsewhere.
        let _ = screen.read_to_end(&mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    });
    let run = finish(child, Instant::now());
    let _ = keyboard.flush();
    drop(keyboard);
    let shown = reader.join().expect("reads");
    assert_eq!(run.code, Some(0), "{shown}");
    home.assert_nothing_left();
    shown
}

fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: openpty fills in two descriptors; the three null pointers are allowed and mean "as it is".
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both descriptors were just opened and belong to nobody else.
    unsafe {
        libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC);
        (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

#[test]
fn at_a_terminal_the_form_is_filled_in() {
    let shown = at_a_terminal("\nJo\nlead\ny\n");
    for part in
        ["Who are you?", "Your name (string) *: ", "this field is required", "1. lead", "2. extra", "[extra]"]
    {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert!(
        shown.contains("action:accept") && shown.contains("name:Jo") && shown.contains("part:lead"),
        "{shown}"
    );
}

#[test]
fn a_question_can_be_declined() {
    let shown = at_a_terminal("!decline\n");
    assert!(shown.contains("action:decline"), "{shown}");
    let shown = at_a_terminal("Jo\n\nn\n");
    assert!(shown.contains("action:decline"), "{shown}");
}
