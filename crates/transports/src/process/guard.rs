//! The guard for our own death: one small shell a callboard process that outlives it and ends what it left.
//!
//! The guard knows the groups of all children from lines on its stdin. The pipe breaks when we die, however we
//! die; then the guard ends those groups. It starts with the first child and ends with the last, so a closed
//! board leaves nothing behind. What dies between its start and its registration, some microseconds later, is
//! not seen. A parent-death signal would need no process, but it fires when the *thread* that started the child
//! ends, exists on Linux alone, and reaches no grandchildren.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io::{self, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Reads `+GROUP` and `-GROUP`; at the end of input, SIGTERM, up to a second in steps of 50 ms, SIGKILL. Where
/// `sleep` takes no fractions, a step is a second.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
groups=' '
while IFS= read -r line; do
    group=${line#?}
    case $line in
        +*) groups="$groups$group " ;;
        -*) case $groups in
                *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
            esac ;;
    esac
done
for group in $groups; do kill -TERM "-$group"; done
step=0
while [ "$step" -lt 20 ]; do
    alive=
    for group in $groups; do if kill -0 "-$group"; then alive=1; fi; done
    if [ -z "$alive" ]; then exit 0; fi
    sleep 0.05 || { sleep 1; step=20; }
    step=$((step + 1))
done
for group in $groups; do kill -KILL "-$group"; done
"#;

/// Where the script looks for `sleep`.
const SCRIPT_PATH: &str = "/bin:/usr/bin";

/// One a process, since one guard watches one process, however many boards live in it.
static GUARD: Mutex<Guard> = Mutex::new(Guard { groups: BTreeSet::new(), shell: None });

struct Guard {
    groups: BTreeSet<libc::pid_t>,
    shell: Option<Shell>,
}

struct Shell {
    process: Child,
    input: PipeWriter,
}

/// A group that is ended if we die. Dropping it waits for the end of the guard if it was the last; that
/// takes about a millisecond.
pub(super) struct Registration {
    group: libc::pid_t,
}

/// Puts a group under the guard, which is started if need be. Blocks for the length of a process start. Without
/// a guard the children end at our death only if they notice the end of their input; that is warned of.
pub(super) fn register(group: libc::pid_t) -> Registration {
    let mut guard = GUARD.lock();
    guard.groups.insert(group);
    if let Err(error) = guard.add(group) {
        tracing::warn!(%error, "no guard watches over the children, should this process be killed");
    }
    Registration { group }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let last = GUARD.lock().remove(self.group);
        if let Some(shell) = last {
            shell.end();
        }
    }
}

impl Guard {
    fn add(&mut self, group: libc::pid_t) -> io::Result<()> {
        if let Some(shell) = &mut self.shell {
            if shell.tell('+', group).is_ok() {
                return Ok(());
            }
            // Somebody killed the guard.
            self.drop_shell();
        }
        let mut shell = Shell::start()?;
        for group in &self.groups {
            shell.tell('+', *group)?;
        }
        self.shell = Some(shell);
        Ok(())
    }

    /// Gives back the guard if nothing is left to watch over.
    fn remove(&mut self, group: libc::pid_t) -> Option<Shell> {
        self.groups.remove(&group);
        // Told even if it is to end now: to a guard whose input ends, the groups it knows are orphans.
        if let Some(shell) = &mut self.shell
            && let Err(error) = shell.tell('-', group)
        {
            tracing::debug!(%error, "the guard is gone; the next child starts another");
            self.drop_shell();
        }
        if self.groups.is_empty() { self.shell.take() } else { None }
    }

    fn drop_shell(&mut self) {
        if let Some(shell) = self.shell.take() {
            shell.end();
        }
    }
}

impl Shell {
    fn start() -> io::Result<Shell> {
        let (output, input) = io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "callboard-guard"]).env_clear().env("PATH", SCRIPT_PATH).current_dir("/");
        // A group of its own keeps it out of the way of Ctrl-C and of signals to our group.
        command.stdin(output).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Shell { process: command.spawn()?, input })
    }

    fn tell(&mut self, sign: char, group: libc::pid_t) -> io::Result<()> {
        self.input.write_all(format!("{sign}{group}\n").as_bytes())
    }

    /// Ends the guard, which knows of no group that lives, and reaps it.
    fn end(self) {
        let Shell { mut process, input } = self;
        drop(input);
        if let Err(error) = process.wait() {
            tracing::debug!(%error, "the guard was reaped by somebody else");
        }
    }
}
