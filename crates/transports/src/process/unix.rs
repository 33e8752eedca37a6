//! Process groups on Unix.
//!
//! A child leads a group of its own, made by `posix_spawn` itself, and a task on the IO runtime supervises it:
//! it reaps the leader, carries out the order to end, and returns when the *group* is empty. A descendant that
//! leaves the group (`setsid`) is out of reach.

use super::guard::{self, Registration};
use super::{Child, Graces, Order, Plan, ProcessHandle, killed, next_order};
use callboard_core::port::ExitInfo;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

/// Our end of the child's stdin.
pub(crate) type Stdin = pipe::Sender;
/// Our end of the child's stdout.
pub(crate) type Stdout = pipe::Receiver;
/// Our end of the child's stderr.
pub(crate) type Stderr = pipe::Receiver;

/// How long descendants may outlive the leader before SIGTERM: those that saw the same end of input are on
/// their way out.
const ORPHAN_GRACE: Duration = Duration::from_millis(100);

/// How long to wait for the kernel to clear away a killed group. Longer only for processes stuck in the kernel.
const KILL_WAIT_MAX: Duration = Duration::from_secs(2);

/// Nothing reports that a group has become empty, so it is asked for, first after this time…
const EMPTY_POLL_MIN: Duration = Duration::from_millis(1);

/// …and doubling up to this.
const EMPTY_POLL_MAX: Duration = Duration::from_millis(32);

/// Starts a child in a group of its own. Blocks for the length of a process start; needs the context of the
/// IO runtime, whose task supervises the child from now on.
pub(crate) fn start(plan: Plan) -> io::Result<Child> {
    let (child_stdin, stdin) = io::pipe()?;
    let (stdout, child_stdout) = io::pipe()?;
    let (stderr, child_stderr) = io::pipe()?;
    let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?;
    let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
    let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?;
    let registration = guard::announce(&child_stdin)?;
    let leader = {
        let mut command = tokio::process::Command::new(plan.program);
        command.arg0(plan.name).args(plan.args).env_clear().envs(plan.env).current_dir(plan.cwd);
        command.stdin(Stdio::from(child_stdin)).stdout(Stdio::from(child_stdout));
        command.stderr(Stdio::from(child_stderr)).process_group(0);
        command.spawn()?
    };
    let process_id = leader.id().ok_or_else(|| io::Error::other("the child has no process id"))?;
    let id = libc::pid_t::try_from(process_id).map_err(io::Error::other)?;
    let registration = registration.started(id);
    let (exit_sender, exit) = oneshot::channel();
    let (orders, order_receiver) = watch::channel(Order::Live);
    let group = Group {
        id,
        leader,
        is_leader_gone: false,
        exit: Some(exit_sender),
        registration: Some(registration),
        is_gone: false,
    };
    let supervisor = tokio::spawn(group.supervise(order_receiver));
    let handle = ProcessHandle { orders, supervisor };
    Ok(Child { stdin, stdout, stderr, process_id, exit, handle })
}

/// Can this file be run, as far as its mode tells?
pub(crate) fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// A process group and its leader. Dropped before it is gone, as when its runtime shuts down, it is killed.
struct Group {
    /// The id of the group and of its leader.
    id: libc::pid_t,
    leader: tokio::process::Child,
    is_leader_gone: bool,
    exit: Option<oneshot::Sender<ExitInfo>>,
    registration: Option<Registration>,
    is_gone: bool,
}

impl Group {
    async fn supervise(mut self, mut orders: watch::Receiver<Order>) {
        let order = tokio::select! {
            biased;
            order = next_order(&mut orders) => order,
            () = self.leader_gone() => next_order(&mut orders).await,
        };
        match order {
            Order::Close(graces) => tokio::select! {
                biased;
                () = killed(&mut orders) => self.kill().await,
                () = self.close(graces) => {}
            },
            Order::Kill | Order::Live => self.kill().await,
        }
        self.is_gone = true;
        if let Some(registration) = self.registration.take() {
            // Blocks until the guard is gone, if this was the last group. Fails only with the runtime.
            let _ = tokio::task::spawn_blocking(move || drop(registration)).await;
        }
    }

    /// Reaps the leader, once.
    async fn leader_gone(&mut self) {
        if self.is_leader_gone {
            return;
        }
        let exit = self.leader.wait().await.map_or(ExitInfo::Unknown, exit_info);
        self.is_leader_gone = true;
        if let Some(sender) = self.exit.take() {
            // Nobody asks when the link was dropped.
            let _ = sender.send(exit);
        }
    }

    async fn close(&mut self, graces: Graces) {
        if timeout(graces.close, self.leader_gone()).await.is_ok() && self.empties_within(ORPHAN_GRACE).await
        {
            return;
        }
        self.signal(libc::SIGTERM);
        if !self.empties_within(graces.term).await {
            self.kill().await;
        }
    }

    async fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        if !self.empties_within(KILL_WAIT_MAX).await {
            tracing::warn!(group = self.id, "killed processes are still there");
        }
    }

    async fn empties_within(&mut self, time: Duration) -> bool {
        timeout(time, self.empty()).await.is_ok()
    }

    /// Returns when the leader is reaped and no other process of the group is left.
    async fn empty(&mut self) {
        self.leader_gone().await;
        let mut pause = EMPTY_POLL_MIN;
        while exists(self.id) {
            if pause == EMPTY_POLL_MAX && are_all_zombies(self.id).await {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(EMPTY_POLL_MAX);
        }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: kill takes plain numbers and touches no memory of ours. The group's id is not anybody else's:
        // its leader is not reaped, or members keep it in use, or it became free an instant ago.
        unsafe { libc::kill(-self.id, signal) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.is_gone {
            return;
        }
        self.signal(libc::SIGKILL);
        if self.is_leader_gone {
            return;
        }
        let id = self.id;
        // The runtime is going, and with it whoever else would reap the leader. Without the thread it stays a
        // zombie until our own end, no worse.
        let _ = std::thread::Builder::new().name("callboard-reaper".into()).spawn(move || {
            // SAFETY: waitpid may be given no place for the status; the id is that of an own, unreaped child.
            unsafe { libc::waitpid(id, std::ptr::null_mut(), 0) }
        });
    }
}

fn exit_info(status: ExitStatus) -> ExitInfo {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitInfo::Code(code),
        (None, Some(signal)) => ExitInfo::Signal(signal),
        (None, None) => ExitInfo::Unknown,
    }
}

/// Is any process in this group, zombies included?
fn exists(group: libc::pid_t) -> bool {
    // SAFETY: as in `Group::signal`; the signal 0 is only a question.
    let answer = unsafe { libc::kill(-group, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// True when all that is left of a group waits to be reaped by a parent that is not ours, as under an init
/// process that reaps late or never.
#[cfg(target_os = "linux")]
async fn are_all_zombies(group: libc::pid_t) -> bool {
    let scan = move || {
        let processes = std::fs::read_dir("/proc").ok()?;
        let stats = processes.flatten().filter_map(|entry| std::fs::read(entry.path().join("stat")).ok());
        Some(stats.filter(|stat| is_living_member(stat, group)).count() == 0)
    };
    tokio::task::spawn_blocking(scan).await.ok().flatten().unwrap_or(false)
}

#[cfg(not(target_os = "linux"))]
async fn are_all_zombies(_group: libc::pid_t) -> bool {
    false
}

/// Reads `/proc/PID/stat`: after the name in parentheses come state, parent and group.
#[cfg(target_os = "linux")]
fn is_living_member(stat: &[u8], group: libc::pid_t) -> bool {
    let Some(name_end) = memchr::memrchr(b')', stat) else { return false };
    let rest = String::from_utf8_lossy(&stat[name_end + 1..]);
    let mut fields = rest.split_ascii_whitespace();
    let is_dead = matches!(fields.next(), Some("Z" | "X"));
    fields.nth(1).and_then(|field| field.parse().ok()) == Some(group) && !is_dead
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::is_living_member;

    #[test]
    fn members_that_live_are_told_from_zombies_and_strangers() {
        for (stat, expected) in [
            ("12 (a) b) S 1 7 7 0", true),
            ("12 (sh) Z 1 7 7 0", false),
            ("12 (sh) S 1 8 7 0", false),
            ("12 (sh) S 7 1 7 0", false),
            ("", false),
        ] {
            assert_eq!(is_living_member(stat.as_bytes(), 7), expected, "{stat}");
        }
    }
}
