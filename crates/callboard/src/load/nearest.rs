//! The known word that a mistyped one most likely means.

/// The known word nearest to `word`, when it is near enough to be meant: a third of its letters may differ,
/// whatever their case.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let allowed = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["command", "args", "headers", "env"];
        for (word, expected) in [
            ("comand", Some("command")),
            ("argz", Some("args")),
            ("Headers", Some("headers")),
            ("evn", Some("env")),
            ("connection", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
