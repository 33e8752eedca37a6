//! The name that was probably meant.

/// Names less alike than this are no suggestion (Jaro-Winkler, 0 to 1).
const LIKENESS_MIN: f64 = 0.75;

/// The candidate most like `typed`, if one is like it at all; upper and lower case are alike.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let scored = candidates.into_iter().map(|name| (likeness(&typed, &name.to_lowercase()), name));
    scored.filter(|(score, _)| *score >= LIKENESS_MIN).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// A name that holds the other as a part is as near as one with a slip in it.
fn likeness(typed: &str, name: &str) -> f64 {
    let part = typed.len() >= 3 && (name.contains(typed) || typed.contains(name) && name.len() >= 3);
    strsim::jaro_winkler(typed, name).max(if part { LIKENESS_MIN } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let names = ["github", "slack", "my-postgres"];
        for (typed, want) in [
            ("gihtub", Some("github")),
            ("Slack", Some("slack")),
            ("postgres", Some("my-postgres")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names), want, "{typed}");
        }
    }
}
