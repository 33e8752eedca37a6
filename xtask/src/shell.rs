//! Running other programs: their output is shown as it comes, and its end is kept.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// How many of a program's last lines are kept.
const TAIL_LINES: usize = 400;

/// What came of a chore.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done and right; with a closing line, or empty.
    Passed(String),
    /// Could not be done here, and why.
    LeftOut(String),
    /// Wrong, and what.
    Failed(String),
}

/// `: text`, or nothing for an empty text.
pub(crate) fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// The end of a program.
pub(crate) struct Ended {
    /// It exited with 0.
    pub(crate) ok: bool,
    /// Its last lines on both streams, as they came.
    pub(crate) tail: VecDeque<String>,
}

impl Ended {
    /// The last line that has one of these words in it.
    pub(crate) fn last_with(&self, words: &[&str]) -> Option<&str> {
        self.tail
            .iter()
            .rev()
            .find(|line| words.iter().any(|word| line.contains(word)))
            .map(|line| line.trim())
    }
}

/// The folder of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout")
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Where a kit keeps what it installs: the folder that `variable` names, else one below `target/kit`.
pub(crate) fn kit(variable: &str, name: &str) -> PathBuf {
    env::var_os(variable).map_or_else(|| target().join("kit").join(name), PathBuf::from)
}

/// The folder of cases and fixtures beside the checkout, when there is one.
pub(crate) fn shared() -> Option<PathBuf> {
    let named = env::var_os("CALLBOARD_SHARED").map(PathBuf::from);
    named.or_else(|| Some(root().parent()?.join("shared"))).filter(|dir| dir.is_dir())
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A program, run in the checkout.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Does `program arguments` run and exit with 0? Nothing is shown.
pub(crate) fn answers(name: &str, arguments: &[&str]) -> bool {
    let quiet = program(name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

/// The first two numbers that `program --version` prints, e.g. (3, 11).
pub(crate) fn version_of(name: &str) -> Option<(u32, u32)> {
    let output = program(name).arg("--version").output().ok().filter(|output| output.status.success())?;
    first_numbers(&String::from_utf8_lossy(&output.stdout))
}

fn first_numbers(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// Runs it, shows what it prints, keeps the end of it.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn run(command: &mut Command) -> Result<Ended, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("cannot start {name}: {error}"))?;
    let tail = Arc::new(Mutex::new(VecDeque::new()));
    let out = child.stdout.take().map(|pipe| show(pipe, tail.clone(), Stream::Out));
    let err = child.stderr.take().map(|pipe| show(pipe, tail.clone(), Stream::Err));
    let status = child.wait().map_err(|error| format!("cannot wait for {name}: {error}"))?;
    for reader in [out, err].into_iter().flatten() {
        let _ = reader.join();
    }
    let tail = std::mem::take(&mut *tail.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Ended { ok: status.success(), tail })
}

#[derive(Clone, Copy)]
enum Stream {
    Out,
    Err,
}

fn show(
    pipe: impl Read + Send + 'static,
    tail: Arc<Mutex<VecDeque<String>>>,
    stream: Stream,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let shown = match stream {
                Stream::Out => std::io::stdout().write_all(&line),
                Stream::Err => std::io::stderr().write_all(&line),
            };
            if shown.is_err() {
                return;
            }
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.len() == TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
    })
}

/// [`run`], as a chore: passed with its last line that holds one of `words`, or failed.
pub(crate) fn chore(command: &mut Command, words: &[&str]) -> Outcome {
    let name = shown(command);
    match run(command) {
        Ok(ended) if ended.ok => Outcome::Passed(ended.last_with(words).unwrap_or_default().to_owned()),
        Ok(ended) => {
            Outcome::Failed(format!("{name}{}", after_colon(ended.last_with(words).unwrap_or_default())))
        }
        Err(why) => Outcome::Failed(why),
    }
}

fn shown(command: &Command) -> String {
    let program =
        Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let arguments = command.get_args().map(OsStr::to_string_lossy);
    [program.into()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Builds binaries of the workspace and gives their folder.
///
/// # Errors
/// When they do not build.
pub(crate) fn build(package: &str, binary: &str, profile: Profile) -> Result<PathBuf, String> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--package", package, "--bin", binary]);
    let folder = match profile {
        Profile::Debug => "debug",
        Profile::Release => {
            command.arg("--release");
            "release"
        }
    };
    let ended = run(&mut command)?;
    let built = target().join(folder).join(binary);
    if ended.ok { Ok(built) } else { Err(format!("{binary} does not build")) }
}

/// How a binary is built.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// For tests.
    Debug,
    /// For measuring.
    Release,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_programs_print() {
        assert_eq!(first_numbers("v20.20.2\n"), Some((20, 20)));
        assert_eq!(first_numbers("Python 3.11.7"), Some((3, 11)));
        assert_eq!(first_numbers("none"), None);
    }

    #[test]
    fn a_chore_passes_by_its_exit_code_and_tells_its_closing_line() {
        let run = |script: &str| chore(program("sh").args(["-c", script]), &["passed"]);
        assert_eq!(run("echo 1 passed; echo bye"), Outcome::Passed("1 passed".into()));
        assert!(
            matches!(run("echo 1 passed >&2; exit 1"), Outcome::Failed(why) if why.ends_with(": 1 passed"))
        );
        assert!(matches!(chore(&mut program("no-such-program-here"), &[]), Outcome::Failed(_)));
    }
}
