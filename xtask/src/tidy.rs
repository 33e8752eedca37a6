//! What no compiler checks: the arrows between crates, the length of files, stubs, paths of a machine.

mod edges;
mod sources;
mod text;
mod unused;

use crate::shell::{self, Outcome};
use std::path::{Path, PathBuf};

/// Something that tidy has to say of one place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// A file, or a package.
    place: String,
    /// What is wrong there.
    message: String,
    weight: Weight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Fails,
    Warns,
}

impl Finding {
    fn fails(place: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding { place: place.into(), message: message.into(), weight: Weight::Fails }
    }

    fn warns(place: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding { weight: Weight::Warns, ..Finding::fails(place, message) }
    }
}

/// Looks at the whole checkout.
pub(crate) fn run() -> Outcome {
    match look() {
        Ok(findings) => report(&findings),
        Err(why) => Outcome::Failed(why),
    }
}

fn look() -> Result<Vec<Finding>, String> {
    let packages = edges::workspace(&metadata()?)?;
    let mut findings = edges::check(&packages);
    let mut words = unused::Words::default();
    for path in tracked()? {
        // What is no text is no text of ours either.
        let Ok(text) = std::fs::read_to_string(shell::root().join(&path)) else { continue };
        let place = path.to_string_lossy().into_owned();
        findings.extend(text::check(&place, &text));
        if path.extension().is_some_and(|extension| extension == "rs") {
            findings.extend(sources::check(&place, &text, edges::room_of(&packages, &path)));
            if let Some(package) = edges::package_of(&packages, &path) {
                words.read(&package.name, &text);
            }
        }
    }
    findings.extend(packages.iter().flat_map(|package| words.unused(package)));
    Ok(findings)
}

fn metadata() -> Result<String, String> {
    let output = shell::cargo().args(["metadata", "--format-version", "1", "--no-deps"]).output();
    let output = output.map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Files that git tracks or would track, relative to the checkout; those that are gone from the tree apart.
fn tracked() -> Result<Vec<PathBuf>, String> {
    let mut git = shell::program("git");
    let output = git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(paths.filter(|path| is_file(path)).collect())
}

fn is_file(path: &Path) -> bool {
    shell::root().join(path).is_file()
}

fn report(findings: &[Finding]) -> Outcome {
    for finding in findings {
        let word = match finding.weight {
            Weight::Fails => "error",
            Weight::Warns => "warning",
        };
        println!("{word}: {}: {}", finding.place, finding.message);
    }
    let failing = findings.iter().filter(|finding| finding.weight == Weight::Fails).count();
    match failing {
        0 => Outcome::Passed(format!("{} warnings", findings.len())),
        n => Outcome::Failed(format!("{n} things are not tidy")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_alone_pass_and_one_failure_fails() {
        let warning = Finding::warns("a.rs", "long");
        assert_eq!(report(&[warning]), Outcome::Passed("1 warnings".into()));
        assert!(matches!(report(&[Finding::fails("a.rs", "too long")]), Outcome::Failed(_)));
    }

    #[test]
    fn the_checkout_itself_is_read() {
        let packages = edges::workspace(&metadata().expect("cargo answers")).expect("reads");
        assert!(packages.iter().any(|package| package.name == "callboard-core"));
        assert!(tracked().expect("git answers").contains(&PathBuf::from("Cargo.toml")));
    }
}
