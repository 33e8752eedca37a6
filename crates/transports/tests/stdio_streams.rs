//! What goes over the pipes of a child: frames, junk, floods, and what a child is started with.
#![cfg(target_os = "linux")]

mod common;

use callboard_core::port::{CloseReason, InFrame, ServerSpec, TransportSpec};
use callboard_core::settings::Settings;
use callboard_protocol::Secret;
use common::*;
use std::time::Duration;

#[tokio::test]
async fn frames_go_out_and_come_back() {
    let spec = ServerSpec::stdio(unique("echo"), "cat", [""; 0]);
    let mut link = dial(spec, Settings::default()).await.expect("starts");
    for method in ["a", "b", "c"] {
        send(&link, &format!("{{\"method\":\"{method}\"}}")).expect("sent");
        assert_eq!(next_method(&mut link).await, method);
    }
    close(link).await;
}

#[tokio::test]
async fn f309_a_stray_line_is_skipped() {
    let text =
        r#"echo starting; echo; echo '{"method":"a"}'; echo '{"id":7,"x":NaN}'; echo '{"method":"b"}'"#;
    let mut link = dial_script(&unique("stray"), text, Settings::default()).await;
    assert_eq!(next_method(&mut link).await, "a");
    assert!(matches!(next(&mut link).await, Ok(InFrame::Malformed(malformed)) if malformed.id == Some(7)));
    assert_eq!(next_method(&mut link).await, "b");
    close(link).await;
}

#[tokio::test]
async fn a_last_line_needs_no_line_end() {
    let mut link = dial_script(&unique("last"), r#"printf '{"method":"a"}'"#, Settings::default()).await;
    assert_eq!(next_method(&mut link).await, "a");
    assert!(matches!(next(&mut link).await, Err(CloseReason::Ended { .. })));
    close(link).await;
}

#[tokio::test]
async fn f310_an_oversized_line_fails_its_call_and_the_link_lives() {
    let text = r#"printf '{"id":9,"result":"'; head -c 50000000 /dev/zero | tr '\0' a; echo '"}'; echo '{"method":"a"}'; cat"#;
    let settings = settings(|settings| settings.wire_frame_bytes_max = 65_536);
    let mut link = dial_script(&unique("oversized"), text, settings).await;
    assert!(matches!(next(&mut link).await, Ok(InFrame::TooLarge { id: Some(9), limit: 65_536 })));
    assert_eq!(next_method(&mut link).await, "a");
    send(&link, r#"{"method":"b"}"#).expect("sent");
    assert_eq!(next_method(&mut link).await, "b");
    close(link).await;
}

#[tokio::test]
async fn f310_a_flood_on_stderr_blocks_nobody_and_is_forgotten() {
    let text = r#"yes flood | head -c 24000000 >&2; echo last words >&2; echo '{"method":"a"}'; exit 1"#;
    let settings = settings(|settings| settings.stderr_ring_bytes = 10_000);
    let mut link = dial_script(&unique("flood"), text, settings).await;
    assert_eq!(next_method(&mut link).await, "a");
    let reason = end(&mut link).await;
    let tail = reason.stderr_tail().expect("has a tail");
    assert!(tail.len() <= 4096 && tail.ends_with("flood\nlast words\n"), "{tail}");
    assert_eq!(link.diagnostics.stderr_tail(usize::MAX).len(), 10_000);
    close(link).await;
}

#[tokio::test]
async fn stderr_is_drained_before_anybody_receives() {
    let text = r#"head -c 1000000 /dev/zero >&2; exec sleep 100"#;
    let settings = settings(|settings| settings.stdio_close_grace = Duration::ZERO);
    let link = dial_script(&unique("undrained"), text, settings).await;
    eventually("the ring is full", || link.diagnostics.stderr_tail(usize::MAX).len() == 256 * 1024).await;
    close(link).await;
}

/// `cat` stops reading while nobody reads what it writes: one direction alone would wait for ever.
#[tokio::test]
async fn both_directions_are_driven() {
    let spec = ServerSpec::stdio(unique("both"), "cat", [""; 0]);
    let mut link = dial(spec, Settings::default()).await.expect("starts");
    let frame = |number: usize| format!("{{\"method\":\"{number}-{}\"}}", "x".repeat(50_000));
    for number in 0..400 {
        send(&link, &frame(number)).expect("sent or waiting");
    }
    for number in 0..400 {
        assert!(next_method(&mut link).await.starts_with(&format!("{number}-x")));
    }
    close(link).await;
}

#[tokio::test]
async fn a_server_that_does_not_read_bounds_what_waits() {
    let text = r#"while :; do echo '{"method":"a"}'; done"#;
    let settings = settings(|settings| {
        settings.wire_frame_bytes_max = 100_000;
        settings.stdio_close_grace = Duration::ZERO;
    });
    let mut link = dial_script(&unique("unread"), text, settings).await;
    let frame = format!("{{\"method\":\"{}\"}}", "x".repeat(50_000));
    let refused = loop {
        assert_eq!(next_method(&mut link).await, "a");
        if let Err(reason) = send(&link, &frame) {
            break reason.to_string();
        }
    };
    assert!(refused.contains("400000 bytes") && refused.contains("wire.frame_bytes_max"), "{refused}");
    assert_eq!(next_method(&mut link).await, "a");
    close(link).await;
}

#[tokio::test]
async fn after_the_end_a_send_says_why() {
    let mut link = dial_script(&unique("ended"), "echo gone >&2; exit 4", Settings::default()).await;
    let reason = end(&mut link).await.to_string();
    assert!(reason.contains("exit code 4") && reason.contains("gone"), "{reason}");
    assert_eq!(send(&link, "{}").expect_err("refused").to_string(), reason);
    assert_eq!(end(&mut link).await.to_string(), reason, "and it stays so");
    close(link).await;
}

#[tokio::test]
async fn a_child_is_started_with_prefix_directory_and_variables() {
    let name = unique("started");
    let text = r#"printf '{"method":"%s|%s|%s|%s|%s|%s|%s"}\n' "$PWD" "$CALLBOARD" "$CALLBOARD_PROJECT_DIR" "$CALLBOARD_SERVER_NAME" "${EMPTY-unset}" "${CARGO-unset}" "$1"; cat"#;
    let mut spec = ServerSpec::stdio(&name, "-c", [text, "sh", "an argument; $HOME"]);
    let TransportSpec::Stdio(stdio) = &mut spec.transport else { panic!("stdio") };
    stdio.cwd = Some("/usr".into());
    stdio.env = [("EMPTY".to_owned(), Secret::new(""))].into();
    let settings = settings(|settings| settings.stdio_prefix = vec!["env".into(), "sh".into()]);
    let mut link = dial(spec, settings).await.expect("starts");
    assert_eq!(next_method(&mut link).await, format!("/usr|1|/usr|{name}||unset|an argument; $HOME"));
    close(link).await;
}

#[tokio::test]
async fn what_cannot_start_says_what_is_missing() {
    let file = |name: &str, text: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(unique(name));
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        path.to_str().expect("text").to_owned()
    };
    let plain = file("plain", "echo", 0o644);
    let orphan = file("orphan", "#!/nowhere/interpreter\n", 0o755);
    for (command, cwd, missing, expected) in [
        ("callboard-no-such-program", None, "no program \"callboard-no-such-program\" in PATH", true),
        ("/nowhere/program", None, "\"/nowhere/program\" does not exist", true),
        ("sh", Some("/nowhere/folder"), "working directory \"/nowhere/folder\"", false),
        ("sh", Some("/etc/passwd"), "is not a directory", false),
        (plain.as_str(), None, "is not executable", false),
        (orphan.as_str(), None, "the interpreter that", false),
    ] {
        let mut spec = ServerSpec::stdio(unique("missing"), command, [""; 0]);
        let TransportSpec::Stdio(stdio) = &mut spec.transport else { panic!("stdio") };
        stdio.cwd = cwd.map(str::to_owned);
        match dial(spec, Settings::default()).await.map(drop) {
            Err(CloseReason::Spawn { command: named, message, not_found }) => {
                assert!(message.contains(missing), "{command}: {message}");
                assert_eq!((named.as_str(), not_found), (command, expected), "{command}");
            }
            other => panic!("{command}: {other:?}"),
        }
    }
    for path in [plain, orphan] {
        std::fs::remove_file(path).expect("removed");
    }
}
