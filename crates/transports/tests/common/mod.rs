//! What the tests with real processes share.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use callboard_core::port::{
    CloseReason, DialRequest, Generation, InFrame, Link, SendHalf, ServerSpec, StderrFeed, TransportSpec,
};
use callboard_core::settings::Settings;
use callboard_protocol::Frame;
use callboard_transports::dial_stdio;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, interval, timeout};

/// More than anything here may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A name that no other server of any test has.
pub fn unique(name: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

pub fn request(spec: ServerSpec, settings: Settings) -> DialRequest {
    let server = callboard_policy::admit([spec]).admitted.pop().expect("admitted");
    DialRequest {
        server,
        generation: Generation(1),
        deadline: Instant::now() + PATIENCE,
        settings: Arc::new(settings),
        authenticator: None,
        stderr: StderrFeed::default(),
    }
}

/// A shell script as a server.
pub fn script(name: &str, script: &str) -> ServerSpec {
    ServerSpec::stdio(name, "sh", ["-c", script])
}

pub async fn dial(spec: ServerSpec, settings: Settings) -> Result<Link, CloseReason> {
    let request = request(spec, settings);
    let TransportSpec::Stdio(stdio) = &request.server.spec().transport else { panic!("no stdio spec") };
    dial_stdio(&request, stdio).await
}

/// Dials a script that must start.
pub async fn dial_script(name: &str, text: &str, settings: Settings) -> Link {
    dial(script(name, text), settings).await.expect("starts")
}

pub async fn next(link: &mut Link) -> Result<InFrame, CloseReason> {
    timeout(PATIENCE, poll_fn(|cx| link.receive.poll_receive(cx))).await.expect("something comes in")
}

/// The method of the next notification, whatever junk is before it.
pub async fn next_method(link: &mut Link) -> String {
    loop {
        match next(link).await.expect("lives") {
            InFrame::Frame(Frame::Notification(notification)) => return notification.method,
            InFrame::Malformed(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Reads to the end and returns why it came.
pub async fn end(link: &mut Link) -> CloseReason {
    loop {
        if let Err(reason) = next(link).await {
            return reason;
        }
    }
}

pub fn send(link: &Link, frame: &str) -> Result<(), CloseReason> {
    let SendHalf::Duplex(send) = &link.send else { panic!("not duplex") };
    send.send(frame.as_bytes())
}

pub async fn close(link: Link) -> Duration {
    let start = Instant::now();
    timeout(PATIENCE, link.closer.close()).await.expect("closes");
    start.elapsed()
}

/// The living processes that were started for the server of this name, and all they started.
pub fn processes_of(name: &str) -> BTreeSet<u32> {
    let mark = format!("CALLBOARD_SERVER_NAME={name}");
    let is_marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    process_ids().filter(is_marked).collect()
}

/// The children of a process, zombies included, and their command lines.
pub fn children_of(parent: u32) -> Vec<(u32, String)> {
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split_whitespace().nth(1).and_then(|field| field.parse().ok()) == Some(parent)
    };
    let with_command = |pid: u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (pid, String::from_utf8_lossy(&command).into_owned())
    };
    process_ids().filter(is_child).map(with_command).collect()
}

fn process_ids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Asks until it is so. For what nobody reports: the state of the process table.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut ticks = interval(Duration::from_millis(5));
    let asked = timeout(PATIENCE, async {
        while !is_so() {
            ticks.tick().await;
        }
    });
    assert!(asked.await.is_ok(), "never came true: {what}");
}

pub fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}
