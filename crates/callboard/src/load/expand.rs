//! References to variables inside a value: `${NAME}`, `${env:NAME}` and `${NAME:-default}` (config-formats §3).

use callboard_policy::redact::is_secret_name;
use std::collections::BTreeMap;
use std::ops::Range;

/// Largest value after expansion: a megabyte is more than any command line or header takes.
pub(super) const EXPANDED_BYTES_MAX: usize = 1024 * 1024;
/// Defaults inside defaults; nobody writes more than a few.
const DEFAULT_DEPTH_MAX: usize = 32;

/// A value after expansion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Expanded {
    /// The text.
    pub(super) text: String,
    /// A variable with the name of a secret went into it.
    pub(super) is_secret: bool,
    /// Look like references, are none of this form, and were left as they stand.
    pub(super) literal: Vec<String>,
}

/// Why a value cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExpandError {
    /// The variable is not set and there is no default.
    Unset(String),
    /// `${secret:KEY}`.
    Secret(String),
    /// A limit was hit.
    TooLong,
}

/// Replaces each reference once, from `env`. A variable that is set, even to nothing, counts as set; what comes
/// out of a variable is not looked at again; a bare `$NAME` and `$$` are plain text.
///
/// # Errors
/// On the first variable that is needed and not set. A default that is not needed needs nothing.
pub(super) fn expand(text: &str, env: &BTreeMap<String, String>) -> Result<Expanded, ExpandError> {
    if !text.contains("${") {
        return Ok(Expanded { text: text.to_owned(), ..Expanded::default() });
    }
    let mut expansion = Expansion { text, env, closes: closing_braces(text), out: Expanded::default() };
    expansion.run(0..text.len(), 0)?;
    Ok(expansion.out)
}

struct Expansion<'a> {
    text: &'a str,
    env: &'a BTreeMap<String, String>,
    /// Where the reference that opens at a position closes.
    closes: BTreeMap<usize, usize>,
    out: Expanded,
}

/// What stands between the braces.
enum Inside<'a> {
    Variable { name: &'a str, default: Option<Range<usize>> },
    Secret(&'a str),
    Foreign,
}

impl Expansion<'_> {
    fn run(&mut self, range: Range<usize>, depth: usize) -> Result<(), ExpandError> {
        if depth > DEFAULT_DEPTH_MAX {
            return Err(ExpandError::TooLong);
        }
        let mut at = range.start;
        while let Some(found) = self.text[at..range.end].find("${") {
            let open = at + found;
            self.push(&self.text[at..open])?;
            let Some(&close) = self.closes.get(&open).filter(|close| **close < range.end) else {
                self.literal(&self.text[open..open + 2])?;
                at = open + 2;
                continue;
            };
            at = close + 1;
            match inside(self.text, open + 2..close) {
                Inside::Variable { name, default } => self.variable(name, default, depth)?,
                Inside::Secret(key) => return Err(ExpandError::Secret(key.to_owned())),
                Inside::Foreign => self.literal(&self.text[open..at])?,
            }
        }
        self.push(&self.text[at..range.end])
    }

    fn variable(
        &mut self,
        name: &str,
        default: Option<Range<usize>>,
        depth: usize,
    ) -> Result<(), ExpandError> {
        match (self.env.get(name), default) {
            (Some(value), _) => {
                self.out.is_secret |= is_secret_name(name);
                self.push(value)
            }
            (None, Some(default)) => self.run(default, depth + 1),
            (None, None) => Err(ExpandError::Unset(name.to_owned())),
        }
    }

    fn literal(&mut self, reference: &str) -> Result<(), ExpandError> {
        // What stands behind `:-` may be a secret and is not reported.
        let shown = reference.split(":-").next().unwrap_or_default();
        self.out.literal.push(shown.chars().take(80).collect());
        self.push(reference)
    }

    fn push(&mut self, text: &str) -> Result<(), ExpandError> {
        if self.out.text.len() + text.len() > EXPANDED_BYTES_MAX {
            return Err(ExpandError::TooLong);
        }
        self.out.text.push_str(text);
        Ok(())
    }
}

/// For each `${` the matching brace. Plain braces inside a reference count, so that a default may be JSON.
fn closing_braces(text: &str) -> BTreeMap<usize, usize> {
    let bytes = text.as_bytes();
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut closes = BTreeMap::new();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' if at > 0 && bytes[at - 1] == b'$' => open.push((at - 1, true)),
            b'{' if !open.is_empty() => open.push((at, false)),
            b'}' => {
                if let Some((start, true)) = open.pop() {
                    closes.insert(start, at);
                }
            }
            _ => {}
        }
    }
    closes
}

fn inside(text: &str, range: Range<usize>) -> Inside<'_> {
    let whole = &text[range.clone()];
    if let Some(key) = whole.strip_prefix("secret:") {
        return Inside::Secret(key);
    }
    let start = range.start + if whole.starts_with("env:") { "env:".len() } else { 0 };
    let length = name_length(&text[start..range.end]);
    let name = &text[start..start + length];
    match &text[start + length..range.end] {
        _ if name.is_empty() => Inside::Foreign,
        "" => Inside::Variable { name, default: None },
        rest if rest.starts_with(":-") => {
            Inside::Variable { name, default: Some(start + length + 2..range.end) }
        }
        _ => Inside::Foreign,
    }
}

/// The length of the variable's name at the start of `text`.
fn name_length(text: &str) -> usize {
    match text.bytes().next() {
        Some(first) if first.is_ascii_alphabetic() || first == b'_' => {
            text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn env() -> BTreeMap<String, String> {
        let pairs = [
            ("HOME", "/home/u"),
            ("DEMO_A", "${DEMO_B}"),
            ("DEMO_B", "no"),
            ("EMPTY", ""),
            ("API_TOKEN", "t"),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn check(text: &str, expected: &str) {
        let shown = match expand(text, &env()) {
            Ok(expanded) => expanded.text,
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn each_form() {
        check("", "");
        check("${HOME}/x", "/home/u/x");
        check("${env:HOME}${HOME}", "/home/u/home/u");
        check("${NO:-d}", "d");
        check("${NO:-}", "");
        check("${env:NO:-d}", "d");
        check("${EMPTY:-d}", "");
        check("${NO:-${HOME}/.demo}:/mnt:ro", "/home/u/.demo:/mnt:ro");
        check("${HOME:-${NO}/.demo}:/mnt:ro", "/home/u:/mnt:ro");
        check(r#"${NO:-{"a": {"b": 1}}}!"#, r#"{"a": {"b": 1}}!"#);
        check("${NO:-é${NO:-ü}}ö", "éüö");
        check("${NO}", r#"Unset("NO")"#);
        check("a${NO:-${NO2}}", r#"Unset("NO2")"#);
        check("${secret:KEY}", r#"Secret("KEY")"#);
    }

    #[test]
    fn other_text_stays() {
        for text in
            ["$HOME", "pa$$word", "$5", "{HOME}", "${}", "${1}", "${a b}", "${HOME", "a${", "}${", "%HOME%"]
        {
            check(text, text);
        }
        check("${input:key}", "${input:key}");
        check("${DEMO_A}", "${DEMO_B}");
        check("${${HOME}}", "${${HOME}}");
        check("${a-${HOME}", "${a-/home/u");
    }

    #[test]
    fn what_went_in_is_known() {
        let of = |text: &str| expand(text, &env()).expect("expands");
        assert!(of("x${API_TOKEN}").is_secret && !of("${HOME}").is_secret);
        assert_eq!(of("${input:key} ${HOME").literal, ["${input:key}", "${"]);
    }

    #[test]
    fn limits_hold() {
        let deep = format!("{}x{}", "${NO:-".repeat(100), "}".repeat(100));
        assert_eq!(expand(&deep, &env()), Err(ExpandError::TooLong));
        let big = BTreeMap::from([("B".to_owned(), "b".repeat(EXPANDED_BYTES_MAX / 2 + 1))]);
        assert_eq!(expand("${B}${B}", &big), Err(ExpandError::TooLong));
        assert!(expand(&"${".repeat(200_000), &env()).is_ok());
    }

    proptest! {
        #[test]
        fn nothing_panics_and_text_without_references_stays(text in r"[ax$\{\}:\-é]{0,40}") {
            let expanded = expand(&text, &BTreeMap::from([("a".to_owned(), "x".to_owned())]));
            if !text.contains("${") {
                prop_assert_eq!(expanded.expect("expands").text, text);
            }
        }
    }
}
