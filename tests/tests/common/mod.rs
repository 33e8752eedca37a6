//! The built command, servers that carry a tag, and the process table.
//!
//! Whatever a test starts has its tag as one whole word of its command line. By that alone, and by its process id,
//! it is found, judged and, whatever happened to the test, ended.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// More than anything here may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The time between two looks at the process table, which reports nothing by itself.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The built command: `CALLBOARD_BIN`, or the one beside the programs of this package, built if it is not there or
/// older than its sources.
pub fn callboard() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(path) = std::env::var_os("CALLBOARD_BIN") {
            return path.into();
        }
        let path = Path::new(env!("CARGO_BIN_EXE_test-server")).with_file_name("callboard");
        if !is_fresh(&path) {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "-p", "callboard-cli"]).current_dir(env!("CARGO_MANIFEST_DIR"));
            if !cfg!(debug_assertions) {
                cargo.arg("--release");
            }
            if let Some(target) = path.parent().and_then(Path::parent) {
                cargo.env("CARGO_TARGET_DIR", target);
            }
            assert!(cargo.status().expect("cargo starts").success(), "callboard cannot be built");
        }
        path
    })
}

/// Cargo writes beside a program which sources it was built of.
fn is_fresh(program: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let (Some(built), Ok(list)) = (changed(program), std::fs::read_to_string(program.with_extension("d")))
    else {
        return false;
    };
    let sources = list.split_once(": ").map(|(_, sources)| sources).unwrap_or_default();
    sources.split_whitespace().all(|source| changed(Path::new(source)).is_some_and(|time| time <= built))
}

/// A folder, and a tag that no other process of this machine has. Dropped, it ends whatever still has the tag.
pub struct Family {
    pub tag: String,
    folder: tempfile::TempDir,
}

impl Family {
    pub fn new(name: &str) -> Family {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Family {
            tag: format!("callboard-{name}-{}-{count}", std::process::id()),
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The words that start a test server.
    pub fn words(&self, manners: &[&str]) -> Vec<String> {
        let mut words = vec![env!("CARGO_BIN_EXE_test-server").to_owned(), "--tag".into(), self.tag.clone()];
        words.extend(manners.iter().map(|&word| word.to_owned()));
        words
    }

    /// An entry that starts a test server.
    pub fn entry(&self, manners: &[&str]) -> Value {
        let words = self.words(manners);
        json!({ "command": words[0], "args": words[1..] })
    }

    /// An entry of a shell script that sees the words of a test server as `"$@"`.
    pub fn script(&self, text: &str, manners: &[&str]) -> Value {
        let mut args = vec!["-c".to_owned(), text.to_owned(), "sh".into()];
        args.extend(self.words(manners));
        json!({ "command": "sh", "args": args })
    }

    /// Writes the file of servers.
    pub fn write(&self, servers: &BTreeMap<String, Value>) -> PathBuf {
        let path = self.path().join("servers.json");
        std::fs::write(&path, json!({ "mcpServers": servers }).to_string()).expect("writes");
        path
    }

    /// A program with the folder as its home, and its output in files there.
    pub fn command(&self, program: &Path) -> Command {
        let file = |name| std::fs::File::create(self.path().join(name)).expect("a file");
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.path()).current_dir(self.path()).stdin(Stdio::null());
        command.stdout(file("stdout")).stderr(file("stderr"));
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    /// A text in the folder; empty while there is none.
    pub fn text(&self, name: &str) -> String {
        std::fs::read(self.path().join(name))
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The living processes with the tag.
    pub fn living(&self) -> BTreeSet<u32> {
        living(|process| process.words().any(|word| word == self.tag.as_bytes()))
    }

    /// Waits until nothing has the tag, and tells how long that took.
    pub fn gone_within(&self, bound: Duration) -> Result<Duration, String> {
        let begun = Instant::now();
        match until(bound, || self.living().is_empty()) {
            true => Ok(begun.elapsed()),
            false => Err(format!("left after {bound:?}: {:?}", described(&self.living()))),
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // Twice, for what was being started meanwhile.
        for _ in 0..2 {
            for pid in self.living() {
                send(pid, libc::SIGKILL);
            }
        }
    }
}

/// A process as `/proc` shows it.
pub struct Process {
    pub pid: u32,
    command_line: Vec<u8>,
    /// `R`, `S`, `Z`…
    pub state: char,
    pub parent: u32,
}

impl Process {
    fn read(pid: u32) -> Option<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name in parentheses, which may hold anything, come state and parent.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        Some(Process { pid, command_line, state, parent })
    }

    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.command_line.split(|byte| *byte == 0)
    }
}

/// All processes that can be seen.
pub fn processes() -> impl Iterator<Item = Process> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read)
}

/// Processes that live and are like this.
pub fn living(is_wanted: impl Fn(&Process) -> bool) -> BTreeSet<u32> {
    processes()
        .filter(|process| process.state != 'Z' && is_wanted(process))
        .map(|process| process.pid)
        .collect()
}

/// Children of a process that nobody has reaped.
pub fn zombies_of(parent: u32) -> BTreeSet<u32> {
    let is_zombie = |process: &Process| process.state == 'Z' && process.parent == parent;
    processes().filter(is_zombie).map(|process| process.pid).collect()
}

/// What can be said of processes in a failure.
pub fn described(pids: &BTreeSet<u32>) -> Vec<String> {
    let described = pids.iter().filter_map(|pid| Process::read(*pid));
    described
        .map(|process| {
            let words: Vec<_> = process.words().map(String::from_utf8_lossy).collect();
            format!("{} {} parent {}: {}", process.pid, process.state, process.parent, words.join(" "))
        })
        .collect()
}

/// Looks until it is so; false when the time is up.
pub fn until(bound: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begun.elapsed() > bound {
            return false;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// Sends a signal to one process.
pub fn send(pid: u32, signal: libc::c_int) {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return };
    // SAFETY: kill takes plain numbers and touches no memory of ours.
    unsafe { libc::kill(pid, signal) };
}
