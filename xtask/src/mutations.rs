//! Mutations of the product that the simulated world must catch. Each is a patch on a copy of the tree; the
//! product itself has no switch for any of them.

use crate::shell::{self, Outcome};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seeds of each mutation, at most: the first bad one ends it.
const SEEDS: &str = "1..20";

/// A patch, and the start of the name of the invariant that it must break.
struct Mutation {
    name: String,
    patch: PathBuf,
    caught_by: String,
}

/// Applies one mutation after the other, or the named ones, and runs the simulation on each.
pub(crate) fn run(names: &[&str]) -> Outcome {
    match run_all(names) {
        Ok(note) => Outcome::Passed(note),
        Err(why) => Outcome::Failed(why),
    }
}

fn run_all(names: &[&str]) -> Result<String, String> {
    let folder = shell::target().join("mutations");
    let tree = folder.join("tree");
    copy_tree(&tree)?;
    let mutations = mutations(names)?;
    let clean = simulate(&tree, &folder)?;
    if let Some(broken) = clean {
        return Err(format!("the tree breaks {broken} without any mutation"));
    }
    let mut missed = Vec::new();
    for mutation in &mutations {
        apply(&tree, &mutation.patch, &[])?;
        let broken = simulate(&tree, &folder);
        apply(&tree, &mutation.patch, &["--reverse"])?;
        let name = &mutation.name;
        let (told, is_caught) = match broken? {
            Some(broken) if broken.starts_with(&mutation.caught_by) => {
                (format!("{name}: caught by {broken}"), true)
            }
            Some(broken) => (format!("{name}: breaks {broken}, not {}", mutation.caught_by), false),
            None => (format!("{name}: not caught"), false),
        };
        println!("{told}");
        if !is_caught {
            missed.push(told);
        }
    }
    match missed.is_empty() {
        true => Ok(format!("{} mutations, all caught", mutations.len())),
        false => Err(missed.join("; ")),
    }
}

fn mutations(names: &[&str]) -> Result<Vec<Mutation>, String> {
    let folder = shell::root().join("tests/mutations");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut patches: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    let mut mutations = Vec::new();
    for patch in patches {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !names.is_empty() && !names.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&patch).map_err(|error| format!("{}: {error}", patch.display()))?;
        let caught_by = text.lines().find_map(|line| line.strip_prefix("Caught by: "));
        let caught_by =
            caught_by.ok_or_else(|| format!("{name} does not say what it is caught by"))?.to_owned();
        mutations.push(Mutation { name, patch, caught_by });
    }
    match mutations.is_empty() {
        true => Err("there is no such mutation".into()),
        false => Ok(mutations),
    }
}

/// Copies what git tracks, as it is now. Files that are the same stay, so that little is built anew.
fn copy_tree(tree: &Path) -> Result<(), String> {
    let tracked = shell::program("git").args(["ls-files", "-z"]).output();
    let tracked = tracked.map_err(|error| format!("cannot run git: {error}"))?;
    let tracked = String::from_utf8_lossy(&tracked.stdout).into_owned();
    for path in tracked.split('\0').filter(|path| !path.is_empty()) {
        let (from, to) = (shell::root().join(path), tree.join(path));
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|known| known == bytes) {
            continue;
        }
        let parent = to.parent().unwrap_or(tree);
        let copied = fs::create_dir_all(parent).and_then(|()| fs::write(&to, bytes));
        copied.map_err(|error| format!("{}: {error}", to.display()))?;
    }
    Ok(())
}

fn apply(tree: &Path, patch: &Path, more: &[&str]) -> Result<(), String> {
    let mut command = Command::new("patch");
    command.args(["--quiet", "--strip=1", "--force", "--no-backup-if-mismatch"]).args(more);
    command.arg("--directory").arg(tree).arg("--input").arg(patch);
    let output = command.output().map_err(|error| format!("cannot run patch: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(()).ok_or_else(|| format!("{}: {said}", patch.display()))
}

/// Runs seeds and what is replayed until the first bad one; gives the first invariant that it broke.
fn simulate(tree: &Path, folder: &Path) -> Result<Option<String>, String> {
    let mut cargo = shell::cargo();
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", folder.join("target"));
    cargo.args(["run", "--quiet", "-p", "callboard-testkit", "--bin", "callboard-sim", "--"]);
    cargo.args(["--replay", "tests/seeds.txt", "--seeds", SEEDS, "--quiet", "--first"]);
    let output = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let broken = said.lines().find_map(|line| line.trim().strip_prefix("BROKEN "));
    match (output.status.success(), broken) {
        (true, _) => Ok(None),
        (false, Some(broken)) => Ok(broken.split_whitespace().next().map(str::to_owned)),
        (false, None) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
