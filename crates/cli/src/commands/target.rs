//! Which server and which of its items a word means: `SERVER/ITEM`, `SERVER.ITEM`, `mcp__server__tool`.

use crate::config::Config;
use crate::output::{CliError, Exit, nearest};

/// How names for models begin (behaviour profile §7).
const QUALIFIED_PREFIX: &str = "mcp__";

/// What a word means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// An item of one server.
    Item {
        /// The server.
        server: String,
        /// The item's raw name.
        item: String,
    },
    /// A name for models; only the catalog leads back from it.
    Qualified(String),
}

/// Reads the word; `noun` says what is asked for.
pub(super) fn resolve(config: &Config, word: &str, noun: &str) -> Result<Target, CliError> {
    let names: Vec<&str> = config.entries().into_iter().map(|entry| entry.name.as_str()).collect();
    if let Some((server, item)) = split(word, &names) {
        return Ok(Target::Item { server: server.to_owned(), item: item.to_owned() });
    }
    if word.starts_with(QUALIFIED_PREFIX) {
        return Ok(Target::Qualified(word.to_owned()));
    }
    match word.split_once('/').or_else(|| word.split_once('.')) {
        // Says what is wrong with the server's name.
        Some((server, item)) => {
            let near = nearest(server, names.iter().copied()).map(str::to_owned);
            let error = config.entry(server).map(|_| ()).err().unwrap_or_else(|| unnamed(word, noun));
            match near {
                Some(near) => Err(error.hint(format!("did you mean \"{near}/{item}\"?"))),
                None => Err(error),
            }
        }
        None if names.contains(&word) => Err(unnamed(word, noun)
            .hint(format!("write {word}/{}; `callboard {noun}s {word}` lists them", noun.to_uppercase()))),
        None => Err(unnamed(word, noun).or_hint(|| {
            Some(format!("write SERVER/{}; `callboard {noun}s` lists them", noun.to_uppercase()))
        })),
    }
}

fn unnamed(word: &str, noun: &str) -> CliError {
    CliError::usage(format!("{word:?} names no server and {noun}"))
}

/// The longest server name that the word begins with, and what follows; `/` goes before `.`.
fn split<'a>(word: &'a str, names: &[&str]) -> Option<(&'a str, &'a str)> {
    ['/', '.'].into_iter().find_map(|separator| {
        let mut splits = word.rmatch_indices(separator).map(|(at, _)| (&word[..at], &word[at + 1..]));
        splits.find(|(server, item)| names.contains(server) && !item.is_empty())
    })
}

/// The servers that a name for models may belong to: nearly always one.
pub(super) fn candidates<'a>(names: &[&'a str], qualified: &str) -> Vec<&'a str> {
    let fits = |name: &&&str| {
        let safe: String = name.chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
        qualified
            .strip_prefix(QUALIFIED_PREFIX)
            .and_then(|rest| rest.strip_prefix(&*safe))
            .is_some_and(|rest| rest.starts_with("__"))
    };
    let found: Vec<&str> = names.iter().filter(fits).copied().collect();
    // A long name was cut and carries a digest: only all names together lead back from it.
    if found.is_empty() { names.to_vec() } else { found }
}

fn is_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// There is no such item; names the nearest.
pub(super) fn no_such_item<'a>(
    server: &str,
    noun: &str,
    item: &str,
    all: impl Iterator<Item = &'a str> + Clone,
) -> CliError {
    let code = if noun == "tool" { "unknown-tool" } else { "unknown-item" };
    let error =
        CliError::new(Exit::Tool, code, format!("server {server} has no {noun} {item:?}")).server(server);
    match nearest(item, all) {
        Some(near) => error.hint(format!("did you mean \"{server}/{near}\"?")),
        None => error.hint(format!("`callboard {noun}s {server}` lists what it has")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_split_at_the_longest_server_name() {
        let names = ["a", "a.b", "x-y"];
        for (word, want) in [
            ("a/t", Some(("a", "t"))),
            ("a.t", Some(("a", "t"))),
            ("a.b.t", Some(("a.b", "t"))),
            ("a.b/t.u", Some(("a.b", "t.u"))),
            ("a/ns/t", Some(("a", "ns/t"))),
            ("x-y.t/u", Some(("x-y", "t/u"))),
            ("a/", None),
            ("b/t", None),
        ] {
            assert_eq!(split(word, &names), want, "{word}");
        }
    }

    #[test]
    fn few_servers_can_own_a_qualified_name() {
        let names = ["git", "git_hub", "my.server", "time"];
        assert_eq!(candidates(&names, "mcp__git__log"), ["git"]);
        assert_eq!(candidates(&names, "mcp__my_server__x"), ["my.server"]);
        assert_eq!(candidates(&names, "mcp__long_0badcafe"), names);
    }
}
