//! The name that was probably meant.

/// Names less alike than this are no suggestion (Jaro-Winkler, 0 to 1).
const LIKENESS_MIN: f64 = 0.75;

/// The candidate most like `typed`, if one is like it at all; upper and lower case are alike.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let scored = candidates.into_iter().map(|name| (likeness(&typed, &name.to_lowercase()), name));
    scored
        .filter(|(score, _)| *score >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// A name that holds the other as a part, or differs by a slip of a finger or two, is near.
fn likeness(typed: &str, name: &str) -> f64 {
    let chars = typed.chars().count().max(name.chars().count());
    let slips = strsim::osa_distance(typed, name);
    let is_slip = !typed.is_empty() && slips <= (chars / 3).max(1) && slips < chars.min(3);
    let is_part = typed.len() >= 3 && (name.contains(typed) || typed.contains(name) && name.len() >= 3);
    let floor = match (is_slip, is_part) {
        (true, _) => 1.0 - slips as f64 / 20.0,
        (false, true) => LIKENESS_MIN,
        (false, false) => 0.0,
    };
    strsim::jaro_winkler(typed, name).max(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        assert_eq!(nearest("nwo", ["now", "zones", "wait"]), Some("now"));
        let names = ["github", "slack", "my-postgres"];
        for (typed, want) in [
            ("gihtub", Some("github")),
            ("Slack", Some("slack")),
            ("postgres", Some("my-postgres")),
            ("zzz", None),
            ("salck", Some("slack")),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names), want, "{typed}");
        }
    }
}
