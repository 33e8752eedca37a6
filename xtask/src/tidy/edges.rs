//! The arrows between crates: who of ours may know whom, and what from outside must stay out of a crate.

use super::Finding;
use crate::shell;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// One crate of the house and its rules.
#[derive(Debug)]
pub(super) struct Room {
    package: &'static str,
    /// Crates of ours that it may depend on.
    may_know: &'static [&'static str],
    /// Crates of ours that its tests may depend on besides.
    tests_may_know: &'static [&'static str],
    /// Crates from outside that it must not depend on.
    never: &'static [&'static str],
    /// Paths that its sources must not name.
    pub(super) never_named: &'static [&'static str],
}

const IO: &[&str] =
    &["std::fs", "std::process", "std::net::TcpStream", "std::net::TcpListener", "std::net::UdpSocket"];
const PURE: &[&str] = &[
    "std::fs",
    "std::process",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::env",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];
const CORE: &[&str] = &[
    "tokio::net",
    "tokio::process",
    "tokio::fs",
    "std::fs",
    "std::process",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
];
const RUNTIMES: &[&str] = &["tokio", "actix", "actix-rt", "reqwest", "hyper", "rand"];
const CLIENTS: &[&str] = &["reqwest", "hyper"];

/// The house. A crate that is not in this table may not exist.
const HOUSE: &[Room] = &[
    Room {
        package: "callboard-protocol",
        may_know: &[],
        tests_may_know: &[],
        never: RUNTIMES,
        never_named: PURE,
    },
    Room {
        package: "callboard-policy",
        may_know: &["callboard-protocol"],
        tests_may_know: &[],
        never: RUNTIMES,
        never_named: PURE,
    },
    Room {
        package: "callboard-core",
        may_know: &["callboard-protocol", "callboard-policy"],
        tests_may_know: &[],
        never: CLIENTS,
        never_named: CORE,
    },
    Room {
        package: "callboard-transports",
        may_know: &["callboard-protocol", "callboard-core"],
        // Only the policy makes an `Admitted`, and a dialer takes nothing else.
        tests_may_know: &["callboard-policy"],
        never: &["actix", "actix-rt"],
        never_named: &[],
    },
    Room {
        package: "callboard-auth",
        may_know: &["callboard-protocol", "callboard-core"],
        tests_may_know: &[],
        never: &[],
        never_named: &[],
    },
    Room {
        package: "callboard-subagent",
        may_know: &["callboard-protocol", "callboard-policy", "callboard-core"],
        tests_may_know: &[],
        never: CLIENTS,
        never_named: &[],
    },
    Room {
        package: "callboard-testkit",
        may_know: &["callboard-protocol", "callboard-policy", "callboard-core", "callboard-subagent"],
        tests_may_know: &[],
        never: CLIENTS,
        never_named: IO,
    },
    Room {
        package: "callboard",
        may_know: &[
            "callboard-protocol",
            "callboard-policy",
            "callboard-core",
            "callboard-transports",
            "callboard-auth",
            "callboard-subagent",
        ],
        tests_may_know: &[],
        never: &[],
        never_named: &[],
    },
    Room {
        package: "callboard-cli",
        may_know: &["callboard", "callboard-protocol", "callboard-testkit"],
        tests_may_know: &[],
        never: &[],
        never_named: &[],
    },
    Room {
        package: "callboard-gateway",
        may_know: &["callboard", "callboard-protocol"],
        tests_may_know: &[],
        never: &[],
        never_named: &[],
    },
    Room {
        package: "callboard-tests",
        may_know: &[
            "callboard",
            "callboard-protocol",
            "callboard-policy",
            "callboard-core",
            "callboard-transports",
            "callboard-auth",
            "callboard-subagent",
            "callboard-testkit",
            "callboard-cli",
            "callboard-gateway",
        ],
        tests_may_know: &[],
        never: &[],
        never_named: &[],
    },
    Room {
        package: "xtask",
        may_know: &["callboard-testkit"],
        tests_may_know: &[],
        never: RUNTIMES,
        never_named: &[],
    },
];

/// A package of the workspace.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    manifest_path: PathBuf,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// `dev`, `build`, or none for what is shipped.
    kind: Option<String>,
    /// The name it is called by in this package, when it is another one.
    pub(super) rename: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// The packages in the answer of `cargo metadata --no-deps`.
pub(super) fn workspace(metadata: &str) -> Result<Vec<Package>, String> {
    let metadata: Metadata =
        serde_json::from_str(metadata).map_err(|error| format!("cargo metadata does not decode: {error}"))?;
    Ok(metadata.packages)
}

/// The rules for the package whose folder holds this file.
pub(super) fn room_of(packages: &[Package], path: &Path) -> Option<&'static Room> {
    room(&package_of(packages, path)?.name)
}

/// The package whose folder holds this file.
pub(super) fn package_of<'a>(packages: &'a [Package], path: &Path) -> Option<&'a Package> {
    let path = shell::root().join(path);
    let holds =
        |package: &&Package| package.manifest_path.parent().is_some_and(|folder| path.starts_with(folder));
    packages.iter().filter(holds).max_by_key(|package| package.manifest_path.as_os_str().len())
}

fn room(package: &str) -> Option<&'static Room> {
    HOUSE.iter().find(|room| room.package == package)
}

/// Every edge that the house does not have.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let Some(rules) = room(&package.name) else {
        let message = "this crate has no place in the table of xtask/src/tidy/edges.rs".to_owned();
        return vec![Finding::fails(&package.name, message)];
    };
    let wrong = package.dependencies.iter().filter_map(|dependency| wrong_edge(rules, dependency));
    wrong.map(|message| Finding::fails(&package.name, message)).collect()
}

fn wrong_edge(rules: &Room, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    let is_ours = name == "callboard" || name.starts_with("callboard-") || name == "xtask";
    let is_shipped = dependency.kind.as_deref() != Some("dev");
    let is_known = rules.may_know.contains(&name) || !is_shipped && rules.tests_may_know.contains(&name);
    if is_ours && !is_known {
        return Some(format!("may not depend on {name}"));
    }
    // Tests of a crate may use what the crate itself must not.
    (is_shipped && rules.never.contains(&name)).then(|| format!("must never depend on {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a package with these dependencies (`name`, or `name/kind`).
    fn said(package: &str, dependencies: &[&str]) -> Vec<String> {
        let dependencies = dependencies.iter().map(|text| {
            let (name, kind) = text.split_once('/').map_or((*text, None), |(name, kind)| (name, Some(kind)));
            Dependency { name: name.to_owned(), kind: kind.map(str::to_owned), rename: None }
        });
        let package = Package {
            name: package.to_owned(),
            manifest_path: PathBuf::new(),
            dependencies: dependencies.collect(),
        };
        check(&[package]).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn arrows_of_the_house_pass() {
        assert!(
            said("callboard-core", &["callboard-policy", "callboard-protocol", "tokio", "serde"]).is_empty()
        );
        assert!(said("callboard-cli", &["callboard", "callboard-protocol", "clap"]).is_empty());
        assert!(said("callboard-policy", &["callboard-protocol", "tokio/dev"]).is_empty());
        assert!(said("callboard-transports", &["callboard-core", "callboard-policy/dev"]).is_empty());
    }

    #[test]
    fn every_other_arrow_fails() {
        for (package, dependency, want) in [
            ("callboard-protocol", "callboard-core", "may not depend on callboard-core"),
            ("callboard-protocol", "tokio", "must never depend on tokio"),
            ("callboard-protocol", "reqwest", "must never depend on reqwest"),
            ("callboard-policy", "callboard-core/dev", "may not depend on callboard-core"),
            ("callboard-policy", "actix", "must never depend on actix"),
            ("callboard-policy", "tokio/build", "must never depend on tokio"),
            ("callboard-core", "callboard-transports", "may not depend on callboard-transports"),
            ("callboard-transports", "callboard-policy", "may not depend on callboard-policy"),
            ("callboard-transports", "callboard-policy/build", "may not depend on callboard-policy"),
            ("callboard-transports", "callboard-auth", "may not depend on callboard-auth"),
            ("callboard-auth", "callboard-subagent", "may not depend on callboard-subagent"),
            ("callboard", "callboard-testkit", "may not depend on callboard-testkit"),
            ("callboard-cli", "callboard-core", "may not depend on callboard-core"),
            ("callboard-gateway", "callboard-cli", "may not depend on callboard-cli"),
            ("xtask", "callboard", "may not depend on callboard"),
        ] {
            assert_eq!(said(package, &["serde", dependency]), [want], "{package} -> {dependency}");
        }
    }

    #[test]
    fn a_crate_without_a_place_fails() {
        assert_eq!(said("callboard-extras", &[]).len(), 1);
    }

    #[test]
    fn a_file_belongs_to_the_innermost_package() {
        let packages = ["crates/core", "crates/core/inner"].map(|folder| Package {
            name: if folder.ends_with("inner") { "callboard-policy" } else { "callboard-core" }.to_owned(),
            manifest_path: shell::root().join(folder).join("Cargo.toml"),
            dependencies: Vec::new(),
        });
        let of = |path: &str| room_of(&packages, Path::new(path)).map(|room| room.package);
        assert_eq!(of("crates/core/src/lib.rs"), Some("callboard-core"));
        assert_eq!(of("crates/core/inner/src/lib.rs"), Some("callboard-policy"));
        assert_eq!(of("bench/micro/src/main.rs"), None);
    }
}
