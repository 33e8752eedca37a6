//! Rules for Rust sources: length, stubs, the head of a `lib.rs`, paths that a crate must not name.

use super::Finding;
use super::edges::Room;

const LINES_WARN: usize = 500;
const LINES_MAX: usize = 700;
/// The words that a crate's root must have.
const KNOWS_NOTHING: &str = "This crate knows nothing about";
/// What stands for work that is owed. Put together here so that this file does not name them.
const OWED: [&str; 4] =
    [concat!("to", "do!"), concat!("unim", "plemented!"), concat!("FIX", "ME"), concat!("#[ig", "nore")];

/// Everything that is wrong with one file of Rust.
pub(super) fn check(place: &str, text: &str, room: Option<&Room>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(length(place, text));
    findings.extend(owed(place, text));
    // The bench is a workspace of its own, without rooms.
    if let Some(room) = room {
        findings.extend(head(place, text));
        findings.extend(named(place, text, room));
    }
    findings
}

fn is_test(place: &str) -> bool {
    place.split('/').any(|folder| folder == "tests") && !place.starts_with("tests/src/")
}

fn length(place: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    match lines {
        _ if is_test(place) => None,
        0..=LINES_WARN => None,
        501..=LINES_MAX => Some(Finding::warns(place, format!("{lines} lines; {LINES_MAX} are the limit"))),
        _ => Some(Finding::fails(place, format!("{lines} lines are more than {LINES_MAX}"))),
    }
}

fn owed(place: &str, text: &str) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    let owing = lines
        .flat_map(|(at, line)| OWED.iter().filter(|word| line.contains(**word)).map(move |word| (at, word)));
    owing
        .map(|(at, word)| {
            Finding::fails(format!("{place}:{}", at + 1), format!("{word} stands for work that is owed"))
        })
        .collect()
}

fn head(place: &str, text: &str) -> Option<Finding> {
    let docs = text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n");
    let is_bare = place.ends_with("src/lib.rs") && !docs.contains(KNOWS_NOTHING);
    is_bare.then(|| Finding::fails(place, format!("its head does not say \"{KNOWS_NOTHING} …\"")))
}

fn named(place: &str, text: &str, room: &Room) -> Vec<Finding> {
    // The programs of a crate are not the crate: they read and write for it.
    if is_test(place) || place.contains("/src/bin/") || room.never_named.is_empty() {
        return Vec::new();
    }
    let code = code_of(text);
    let paths: Vec<String> = ["std", "tokio"].iter().flat_map(|root| paths_from(&code, root)).collect();
    let banned = room.never_named.iter().filter(|banned| paths.iter().any(|path| is_within(path, banned)));
    banned.map(|banned| Finding::fails(place, format!("must not name {banned}"))).collect()
}

fn is_within(path: &str, banned: &str) -> bool {
    path.strip_prefix(banned).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The code without line comments, and without the tests at its end.
fn code_of(text: &str) -> String {
    let until_tests = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = until_tests.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Every path in the code that starts with `root::`, groups in braces taken apart.
fn paths_from(code: &str, root: &str) -> Vec<String> {
    let start = format!("{root}::");
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(&start) {
        let before = code[..at].chars().next_back();
        if !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            take_apart(root, &code[at + start.len()..], &mut paths);
        }
    }
    paths
}

/// Adds the paths below `stem` that the text starts with, and gives what follows them.
fn take_apart<'a>(stem: &str, text: &'a str, paths: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches([' ', '\n', '\t', ',']);
            match rest.chars().next() {
                None => return rest,
                Some('}') => return &rest[1..],
                Some(_) => {
                    let after = take_apart(stem, rest, paths);
                    // Something that is no use tree: give it up rather than stand still.
                    rest = if after.len() < rest.len() { after } else { return after };
                }
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let path = if name == "self" || name.is_empty() { stem.to_owned() } else { format!("{stem}::{name}") };
    if let Some(rest) = rest.strip_prefix("::") {
        return take_apart(&path, rest, paths);
    }
    paths.push(path);
    match rest.strip_prefix(" as ") {
        Some(alias) => alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Weight, edges};
    use super::*;
    use std::path::Path;

    fn messages(findings: impl IntoIterator<Item = Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn long_files_warn_and_then_fail() {
        let weight =
            |place: &str, lines: usize| length(place, &"x\n".repeat(lines)).map(|finding| finding.weight);
        assert_eq!(weight("crates/core/src/a.rs", 500), None);
        assert_eq!(weight("crates/core/src/a.rs", 501), Some(Weight::Warns));
        assert_eq!(weight("crates/core/src/a.rs", 701), Some(Weight::Fails));
        assert_eq!(weight("tests/src/bin/a.rs", 701), Some(Weight::Fails));
        assert_eq!(weight("crates/core/tests/a.rs", 701), None);
    }

    #[test]
    fn each_word_for_owed_work_is_found() {
        for word in OWED {
            assert_eq!(owed("a.rs", &format!("fn a() {{\n    {word}\n}}")).len(), 1, "{word}");
        }
        assert_eq!(owed("a.rs", &format!("\n{}", OWED[0]))[0].place, "a.rs:2");
        assert!(owed("a.rs", "fn a() {}").is_empty());
    }

    #[test]
    fn a_crate_says_what_it_does_not_know() {
        let good = format!("//! Purpose.\n//!\n//! {KNOWS_NOTHING}\n//! - files.\n\nmod a;\n");
        assert_eq!(head("crates/core/src/lib.rs", &good), None);
        assert!(head("crates/core/src/lib.rs", "//! Purpose.\n").is_some());
        assert!(head("crates/core/src/lib.rs", &format!("mod a;\n// {KNOWS_NOTHING}")).is_some());
        assert_eq!(head("crates/core/src/a.rs", ""), None);
    }

    #[test]
    fn use_trees_are_taken_apart() {
        let paths = |code: &str| paths_from(code, "tokio");
        assert_eq!(paths("use tokio::net::TcpStream;"), ["tokio::net::TcpStream"]);
        assert_eq!(
            paths("use tokio::{io::{AsyncRead, self}, fs as files, sync::*};"),
            ["tokio::io::AsyncRead", "tokio::io", "tokio::fs", "tokio::sync::*"]
        );
        assert_eq!(
            paths("use mytokio::net; x = tokio::process::Command::new()"),
            ["tokio::process::Command::new"]
        );
        assert_eq!(paths("tokio::{"), [""; 0]);
        assert_eq!(paths("tokio::{!a}"), ["tokio"]);
    }

    #[test]
    fn a_crate_does_not_name_what_it_must_not_know() {
        let room = |package: &str| {
            let name = format!(
                r#"{{"packages":[{{"name":"{package}","manifest_path":"/a/Cargo.toml","dependencies":[]}}]}}"#
            );
            edges::room_of(&edges::workspace(&name).expect("reads"), Path::new("/a/src/b.rs"))
                .expect("has a room")
        };
        for (package, code, want) in [
            ("callboard-core", "use tokio::{sync::Mutex, net::TcpStream};", Some("must not name tokio::net")),
            (
                "callboard-core",
                "let child = tokio::process::Command::new(x);",
                Some("must not name tokio::process"),
            ),
            ("callboard-core", "use tokio::fs;", Some("must not name tokio::fs")),
            ("callboard-core", "use tokio::time::Instant; // tokio::fs is not for us", None),
            (
                "callboard-policy",
                "use std::{collections::BTreeMap, fs::File};",
                Some("must not name std::fs"),
            ),
            (
                "callboard-policy",
                "let now = std::time::Instant::now();",
                Some("must not name std::time::Instant"),
            ),
            ("callboard-testkit", "use std::process::Command;", Some("must not name std::process")),
            ("callboard-policy", "fn a() {}\n#[cfg(test)]\nmod tests { use std::fs; }", None),
            ("callboard-protocol", "let home = std::env::var(x);", Some("must not name std::env")),
            ("callboard-transports", "use tokio::net::TcpStream;", None),
        ] {
            let said = messages(named("crates/x/src/b.rs", code, room(package)));
            assert_eq!(said, Vec::from_iter(want), "{package}: {code}");
        }
    }
}
