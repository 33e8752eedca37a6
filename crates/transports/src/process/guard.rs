//! The guard for our own death: one small shell a callboard process that outlives it and ends what it left.
//!
//! The guard knows the groups of all children from lines on its stdin. The pipe breaks when we die, however we
//! die; then the guard ends those groups. It starts before the first child and ends with the last, so a closed
//! board leaves nothing behind. A child has no group that could be told of before it runs, so it is announced
//! by the pipe that becomes its stdin: if we die before its group is known, the guard looks for the process that
//! reads there. Without `/proc` it finds none, and what dies in those microseconds is not seen. A parent-death
//! signal would need no process, but it fires when the *thread* that started the child ends, exists on Linux
//! alone, and reaches no grandchildren.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Reads `+WARD` and `-WARD`, where a ward is a group or, after a `p`, the inode of a pipe. At the end of input,
/// SIGTERM, up to a second in steps of 50 ms, SIGKILL. Where `sleep` takes no fractions, a step is a second.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
wards=' '
while IFS= read -r line; do
    ward=${line#?}
    case $line in
        +*) wards="$wards$ward " ;;
        -*) case $wards in
                *" $ward "*) wards="${wards%%" $ward "*} ${wards#*" $ward "}" ;;
            esac ;;
    esac
done
groups=
pipes=
for ward in $wards; do
    case $ward in
        p*) pipes="$pipes ${ward#p}" ;;
        *) groups="$groups $ward" ;;
    esac
done
if [ -n "$pipes" ]; then
    groups="$groups $(ls -l /proc/[0-9]*/fd/0 | while IFS= read -r line; do
        for pipe in $pipes; do
            case $line in
                *" -> pipe:[$pipe]") line=${line%%/fd/0 *}; echo "${line##*/}" ;;
            esac
        done
    done)"
fi
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

/// Where the script looks for `ls` and `sleep`.
const SCRIPT_PATH: &str = "/bin:/usr/bin";

/// One a process, since one guard watches one process, however many boards live in it.
static GUARD: Mutex<Guard> = Mutex::new(Guard { wards: BTreeSet::new(), shell: None });

struct Guard {
    wards: BTreeSet<Ward>,
    shell: Option<Shell>,
}

/// What the guard is to end if we die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ward {
    /// A process group.
    Group(libc::pid_t),
    /// The group of the process whose stdin is the pipe of this inode.
    ReaderOf(u64),
}

impl fmt::Display for Ward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ward::Group(group) => write!(f, "{group}"),
            Ward::ReaderOf(inode) => write!(f, "p{inode}"),
        }
    }
}

struct Shell {
    process: Child,
    input: PipeWriter,
}

/// What is ended if we die. Dropping it waits for the end of the guard if it was the last; that takes about
/// a millisecond.
pub(super) struct Registration {
    ward: Ward,
}

/// Puts the child that will be given this stdin under the guard, which is started if need be: blocks for the
/// length of a process start then. Without a guard the children end at our death only if they notice the end of
/// their input; that is warned of.
pub(super) fn announce(child_stdin: &PipeReader) -> io::Result<Registration> {
    let pipe = File::from(OwnedFd::from(child_stdin.try_clone()?));
    Ok(register(Ward::ReaderOf(pipe.metadata()?.ino())))
}

fn register(ward: Ward) -> Registration {
    let mut guard = GUARD.lock();
    guard.wards.insert(ward);
    if let Err(error) = guard.add(ward) {
        tracing::warn!(%error, "no guard watches over the children, should this process be killed");
    }
    Registration { ward }
}

impl Registration {
    /// The announced child runs, and leads this group.
    pub(super) fn started(self, group: libc::pid_t) -> Registration {
        // The announcement is dropped after this, so no moment is without either.
        register(Ward::Group(group))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let last = GUARD.lock().remove(self.ward);
        if let Some(shell) = last {
            shell.end();
        }
    }
}

impl Guard {
    fn add(&mut self, ward: Ward) -> io::Result<()> {
        if let Some(shell) = &mut self.shell {
            if shell.tell('+', ward).is_ok() {
                return Ok(());
            }
            // Somebody killed the guard.
            self.drop_shell();
        }
        let mut shell = Shell::start()?;
        for ward in &self.wards {
            shell.tell('+', *ward)?;
        }
        self.shell = Some(shell);
        Ok(())
    }

    /// Gives back the guard if nothing is left to watch over.
    fn remove(&mut self, ward: Ward) -> Option<Shell> {
        self.wards.remove(&ward);
        // Told even if it is to end now: to a guard whose input ends, the wards it knows are orphans.
        if let Some(shell) = &mut self.shell
            && let Err(error) = shell.tell('-', ward)
        {
            tracing::debug!(%error, "the guard is gone; the next child starts another");
            self.drop_shell();
        }
        if self.wards.is_empty() { self.shell.take() } else { None }
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

    fn tell(&mut self, sign: char, ward: Ward) -> io::Result<()> {
        self.input.write_all(format!("{sign}{ward}\n").as_bytes())
    }

    /// Ends the guard, which knows of no ward that lives, and reaps it.
    fn end(self) {
        let Shell { mut process, input } = self;
        drop(input);
        if let Err(error) = process.wait() {
            tracing::debug!(%error, "the guard was reaped by somebody else");
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// As when we die between the start of a child and the line that tells its group.
    #[test]
    fn f304_an_announced_child_is_ended_though_its_group_was_never_told() {
        let deaf = |stdin: Stdio| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "trap '' TERM; sleep 100 & wait; sleep 100"]);
            command.stdin(stdin).process_group(0).spawn().expect("starts")
        };
        let (reader, _writer) = io::pipe().expect("a pipe");
        let inode =
            File::from(OwnedFd::from(reader.try_clone().expect("a copy"))).metadata().expect("asked").ino();
        let mut shell = Shell::start().expect("starts");
        shell.tell('+', Ward::ReaderOf(inode)).expect("told");
        let mut child = deaf(Stdio::from(reader));
        let mut stranger = deaf(Stdio::null());
        shell.end();
        let end = child.wait().expect("reaped");
        let lives = stranger.try_wait().expect("asked").is_none();
        let group = libc::pid_t::try_from(stranger.id()).expect("small");
        // SAFETY: a signal to the group of an own, unreaped child; no memory is involved.
        unsafe { libc::kill(-group, libc::SIGKILL) };
        stranger.wait().expect("reaped");
        assert!(!end.success());
        assert!(lives, "a stranger was ended");
    }
}
