//! What the system says of us and our children. Where there is no `/proc` it says nothing, and what would be
//! judged by it is not.

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What connections that nobody needs any more may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The HTTP client that all boards of a process share has a task of its own, which sees to its idle connections.
pub(crate) const TASKS_KEPT_MAX: usize = 1;

/// One moment.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub(crate) struct Sample {
    pub(crate) rss_kib: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: u64,
    pub(crate) tasks: usize,
    pub(crate) children: usize,
    /// Children that ended and are not reaped.
    #[serde(skip)]
    pub(crate) zombies: Vec<u32>,
    /// Each descriptor and what it is of.
    #[serde(skip)]
    pub(crate) open: BTreeMap<u32, String>,
}

impl Sample {
    pub(crate) fn take() -> Sample {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let open = descriptors();
        let children = children();
        Sample {
            rss_kib: field("VmRSS:").unwrap_or(0),
            descriptors: open.len(),
            threads: field("Threads:").unwrap_or(0),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
            children: children.len(),
            zombies: children.iter().filter(|(_, state)| *state == 'Z').map(|(pid, _)| *pid).collect(),
            open,
        }
    }
}

fn descriptors() -> BTreeMap<u32, String> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        // Gone when the listing itself was what it was for.
        Some((number, std::fs::read_link(entry.path()).ok()?.display().to_string()))
    });
    open.filter(|(_, target)| !target.ends_with("/fd")).collect()
}

/// Our children and their states.
fn children() -> Vec<(u32, char)> {
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children = pids.filter_map(|pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name in parentheses, which may hold anything, come state and parent.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        (fields.next()?.parse::<u32>().ok()? == own).then_some((pid, state))
    });
    children.collect()
}

/// What a process can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Kill,
    Stop,
    Continue,
}

/// Sends a signal to a process of ours: one with the tag in its command line. A process that has ended may have
/// left its number to somebody else.
#[cfg(unix)]
pub(crate) fn signal(pid: u32, signal: Signal, tag: &str) {
    let signal = match signal {
        Signal::Kill => libc::SIGKILL,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    };
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_ours = words.split(|byte| *byte == 0).any(|word| word == tag.as_bytes());
    if let (true, Ok(pid)) = (is_ours, libc::pid_t::try_from(pid)) {
        // SAFETY: kill takes plain numbers and touches no memory of ours.
        unsafe { libc::kill(pid, signal) };
    }
}

/// There are no signals here.
#[cfg(not(unix))]
pub(crate) fn signal(_pid: u32, _signal: Signal, _tag: &str) {}

/// Waits until there is no more than before; gives the moment when it was so, or the last one.
pub(crate) async fn nothing_left(before: &Sample) -> Sample {
    let until = Instant::now() + GONE_WITHIN;
    loop {
        let now = Sample::take();
        let is_gone = now.children == 0
            && now.descriptors <= before.descriptors
            && now.tasks <= before.tasks + TASKS_KEPT_MAX;
        if is_gone || Instant::now() > until {
            return now;
        }
        sleep(LOOK_EVERY).await;
    }
}
