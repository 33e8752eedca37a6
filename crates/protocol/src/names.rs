//! Names that models and hosts can use, and the table that leads back from them.
//!
//! `mcp__server__tool`, characters `[A-Za-z0-9_-]`, at most 64 of them. A digest is added only when two
//! names would be equal or one too long, and never depends on the order of arrival. The way back is a table:
//! a name is never split at `__`.

use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

/// Longest name, in characters (behaviour profile §7.3).
pub const NAME_CHARS_MAX: usize = 64;
/// Hexadecimal digits of a digest in a name.
const DIGEST_CHARS: usize = 8;

/// A name made by a [`NameTable`]: safe to show to a model, leads back to one tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QualifiedName(Arc<str>);

impl QualifiedName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tool as its server names it: the host's name of the server and the raw name of the tool.
pub type RawPair<'a> = (&'a str, &'a str);

/// Names of a set of tools, one for each, all distinct.
#[derive(Debug, Default, Clone)]
pub struct NameTable {
    by_name: HashMap<QualifiedName, usize>,
    names: Vec<QualifiedName>,
}

impl NameTable {
    /// Names every pair. The same set of pairs gives the same names in any order; equal pairs share one.
    pub fn new(pairs: &[RawPair<'_>], chars_max: usize) -> NameTable {
        let plain: Vec<String> = pairs.iter().map(|pair| plain_name(*pair)).collect();
        let mut groups: HashMap<&str, Vec<usize>> = HashMap::with_capacity(pairs.len());
        for (index, name) in plain.iter().enumerate() {
            groups.entry(name).or_default().push(index);
        }
        let mut digested: BTreeMap<RawPair<'_>, &str> = BTreeMap::new();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        for (name, members) in &groups {
            let owner = owner_of(pairs, members, name, chars_max);
            for index in members {
                if owner != Some(pairs[*index]) {
                    digested.insert(pairs[*index], name);
                }
            }
            if owner.is_some() && (digested_could_equal(name) || members.len() > 1) {
                taken.insert((*name).to_owned());
            }
        }
        let digested = digest_names(digested, &mut taken, &groups, chars_max);
        let names = pairs.iter().zip(&plain).map(|(pair, plain)| match digested.get(pair) {
            Some(name) => QualifiedName(name.as_str().into()),
            None => QualifiedName(plain.as_str().into()),
        });
        let names: Vec<QualifiedName> = names.collect();
        let by_name = names.iter().enumerate().map(|(index, name)| (name.clone(), index)).collect();
        NameTable { by_name, names }
    }

    /// The name of the pair at this index of the list that the table was made from.
    pub fn name(&self, index: usize) -> Option<&QualifiedName> {
        self.names.get(index)
    }

    /// The index of the pair that a name leads back to.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

impl std::borrow::Borrow<str> for QualifiedName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The pair that keeps the plain name: the only one, or the only one that needed no sanitising.
fn owner_of<'a>(
    pairs: &[RawPair<'a>],
    members: &[usize],
    name: &str,
    chars_max: usize,
) -> Option<RawPair<'a>> {
    if name.len() > chars_max {
        return None;
    }
    let distinct: BTreeSet<RawPair<'a>> = members.iter().map(|index| pairs[*index]).collect();
    if distinct.len() == 1 {
        return distinct.into_iter().next();
    }
    let mut exact = distinct.into_iter().filter(|(server, tool)| format!("mcp__{server}__{tool}") == name);
    match (exact.next(), exact.next()) {
        (Some(owner), None) => Some(owner),
        _ => None,
    }
}

/// Could a digested name be equal to this plain one? Only then must it be remembered as taken.
fn digested_could_equal(plain: &str) -> bool {
    let bytes = plain.as_bytes();
    let Some(at) = bytes.len().checked_sub(DIGEST_CHARS + 1) else { return false };
    bytes[at] == b'_' && bytes[at + 1..].iter().all(u8::is_ascii_hexdigit)
}

/// Digested names in an order that depends on the pairs alone; a name that is taken gets another round.
fn digest_names<'a>(
    pairs: BTreeMap<RawPair<'a>, &str>,
    taken: &mut BTreeSet<String>,
    plain: &HashMap<&str, Vec<usize>>,
    chars_max: usize,
) -> BTreeMap<RawPair<'a>, String> {
    let mut names = BTreeMap::new();
    for (pair, base) in pairs {
        let mut round = 0u32;
        let name = loop {
            let digest = digest(&[pair.0, "\0", pair.1, "\0", &round.to_string()]);
            let room = chars_max.saturating_sub(DIGEST_CHARS + 1);
            let name = format!("{}_{digest}", &base[..base.len().min(room)]);
            if !taken.contains(&name) && !plain.contains_key(name.as_str()) {
                break name;
            }
            round += 1;
        };
        taken.insert(name.clone());
        names.insert(pair, name);
    }
    names
}

fn plain_name((server, tool): RawPair<'_>) -> String {
    let mut name = String::with_capacity(7 + server.len() + tool.len());
    name.push_str("mcp__");
    push_part(&mut name, server);
    name.push_str("__");
    push_part(&mut name, tool);
    name
}

/// Appends the part with every character outside `[A-Za-z0-9_-]` replaced; a part without a letter or digit
/// left becomes a digest of itself.
fn push_part(name: &mut String, part: &str) {
    let from = name.len();
    name.extend(part.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }));
    if !name[from..].bytes().any(|b| b.is_ascii_alphanumeric()) {
        name.truncate(from);
        name.push_str(&digest(&[part]));
    }
}

fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(DIGEST_CHARS / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(pairs: &[RawPair<'_>]) -> Vec<String> {
        let table = NameTable::new(pairs, NAME_CHARS_MAX);
        (0..pairs.len()).map(|index| table.name(index).expect("each has one").to_string()).collect()
    }

    #[test]
    fn plain_names_stay_readable() {
        assert_eq!(
            names(&[("github", "create_pr"), ("g", "list-issues")]),
            ["mcp__github__create_pr", "mcp__g__list-issues"]
        );
    }

    #[test]
    fn the_exact_one_of_a_clash_keeps_the_plain_name() {
        let clash = names(&[("my.server", "search"), ("my_server", "search"), ("my server", "search")]);
        assert_eq!(clash[1], "mcp__my_server__search");
        assert!(clash[0] != clash[2] && clash[0].starts_with("mcp__my_server__search_"));
        let both = names(&[("a_", "b"), ("a", "_b")]);
        assert!(both[0] != both[1] && both.iter().all(|name| name != "mcp__a___b"));
    }

    #[test]
    fn a_plain_name_that_looks_digested_is_left_alone() {
        let long = "x".repeat(70);
        let cut = names(&[("atlas", &long)])[0].clone();
        let rival = cut.strip_prefix("mcp__atlas__").expect("prefix").to_owned();
        let both = names(&[("atlas", &long), ("atlas", &rival)]);
        assert_eq!(both[1], cut);
        assert_ne!(both[0], both[1]);
    }

    #[test]
    fn names_without_letters_get_a_digest() {
        let odd = names(&[("日本語", "検索"), ("!!!", "go")]);
        assert!(odd[0].len() == "mcp____".len() + 16 && odd[1].ends_with("__go"), "{odd:?}");
    }

    proptest! {
        #[test]
        fn distinct_bounded_and_independent_of_order(
            pairs in proptest::collection::btree_set(("[a-c._ ]{1,4}", "[a-c._/-]{0,70}"), 1..12),
        ) {
            let pairs: Vec<RawPair<'_>> = pairs.iter().map(|(s, t)| (s.as_str(), t.as_str())).collect();
            let forward = names(&pairs);
            let reversed: Vec<RawPair<'_>> = pairs.iter().rev().copied().collect();
            let mut backward = names(&reversed);
            backward.reverse();
            prop_assert_eq!(&forward, &backward);
            prop_assert_eq!(forward.iter().collect::<BTreeSet<_>>().len(), pairs.len());
            let table = NameTable::new(&pairs, NAME_CHARS_MAX);
            for (index, name) in forward.iter().enumerate() {
                prop_assert!(name.len() <= NAME_CHARS_MAX && name.starts_with("mcp__"));
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                prop_assert_eq!(table.index_of(name), Some(index));
            }
        }
    }
}
