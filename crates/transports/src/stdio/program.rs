//! Finding the program and the working directory, with words for what is missing.
//!
//! The search is ours because `posix_spawn`, the fast way to start a process, is taken by the standard library
//! only for programs whose path is known when the environment is replaced.

use crate::process::is_executable;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where programs are looked for when the child has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What is missing, and whether it is the program.
type Missing = (String, bool);

/// The absolute working directory: `cwd`, seen from our own, or our own.
pub(super) fn working_directory(cwd: Option<&str>) -> Result<PathBuf, Missing> {
    let own = std::env::current_dir()
        .map_err(|error| (format!("callboard's own working directory is not usable: {error}"), false))?;
    let Some(cwd) = cwd else { return Ok(own) };
    let directory = own.join(cwd);
    match std::fs::metadata(&directory) {
        Ok(meta) if meta.is_dir() => Ok(directory),
        Ok(_) => Err((format!("its working directory {cwd:?} is not a directory"), false)),
        Err(error) => Err((format!("its working directory {cwd:?} is not usable: {error}"), false)),
    }
}

/// The file of a program: a path as seen from the child's working directory, or the first match in `path`.
pub(super) fn find(program: &str, cwd: &Path, path: Option<&OsStr>) -> Result<PathBuf, Missing> {
    if program.is_empty() {
        return Err(("\"command\" is empty".into(), true));
    }
    if program.contains(std::path::is_separator) {
        let file = cwd.join(program);
        return match std::fs::metadata(&file) {
            Ok(_) if is_executable(&file) => Ok(file),
            Ok(_) => Err((format!("{file:?} is not executable"), false)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err((format!("{file:?} does not exist"), true))
            }
            Err(error) => Err((format!("{file:?} is not usable: {error}"), false)),
        };
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    std::env::split_paths(path)
        .map(|folder| cwd.join(folder).join(program))
        .find(|file| is_executable(file))
        .ok_or_else(|| (format!("no program {program:?} in PATH ({})", path.to_string_lossy()), true))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_like_a_shell_finds_them() {
        let root = Path::new("/");
        for (program, cwd, path, expected) in [
            ("sh", root, Some("/nowhere:/bin"), Ok("/bin/sh")),
            ("sh", root, None, Ok("/usr/bin/sh")),
            ("sh", root, Some("bin"), Ok("/bin/sh")),
            ("sh", Path::new("/bin"), Some(""), Ok("/bin/sh")),
            ("bin/sh", root, Some("/nowhere"), Ok("/bin/sh")),
            ("/bin/sh", root, None, Ok("/bin/sh")),
            ("sh", root, Some("/nowhere"), Err("no program \"sh\" in PATH (/nowhere)")),
            ("./sh", root, Some("/bin"), Err("\"/./sh\" does not exist")),
            ("/etc/passwd", root, None, Err("\"/etc/passwd\" is not executable")),
            ("", root, None, Err("\"command\" is empty")),
        ] {
            let found = find(program, cwd, path.map(OsStr::new)).map_err(|(message, _)| message);
            assert_eq!(found, expected.map(PathBuf::from).map_err(str::to_owned), "{program:?} in {path:?}");
        }
    }

    #[test]
    fn a_missing_working_directory_is_named() {
        let missing = working_directory(Some("/nowhere/at/all")).expect_err("missing");
        assert!(missing.0.contains("working directory \"/nowhere/at/all\""), "{missing:?}");
        assert_eq!(working_directory(Some("/")), Ok(PathBuf::from("/")));
    }
}
