//! Cutting text where a reader would.

use unicode_segmentation::GraphemeCursor;

/// The first `chars_max` characters of `text`, and whether anything was left out.
///
/// The cut never splits what a reader sees as one character: it moves back over combining marks, joined
/// emoji and the like.
pub fn cut(text: &str, chars_max: usize) -> (&str, bool) {
    if text.len() <= chars_max {
        return (text, false);
    }
    let Some((at, _)) = text.char_indices().nth(chars_max) else { return (text, false) };
    (&text[..boundary_before(text, at)], true)
}

/// The last place at or before byte `at` where a character, as a reader sees it, ends.
fn boundary_before(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(true) => at,
        _ => match cursor.prev_boundary(text, 0) {
            Ok(Some(before)) if before > 0 => before,
            // One single endless character: a split of it beats showing nothing.
            _ => at,
        },
    }
}

/// The last `bytes_max` bytes of `bytes` as text, starting at a character boundary.
pub fn tail(bytes: &[u8], bytes_max: usize) -> String {
    let mut from = bytes.len().saturating_sub(bytes_max);
    while from < bytes.len() && bytes[from] & 0xC0 == 0x80 {
        from += 1;
    }
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cuts_between_what_a_reader_sees() {
        assert_eq!(cut("abc", 3), ("abc", false));
        assert_eq!(cut("abcd", 3), ("abc", true));
        assert_eq!(cut("日本語", 2), ("日本", true));
        assert_eq!(cut("ae\u{301}x", 2), ("a", true));
        assert_eq!(cut("a👩‍👩‍👧b", 3), ("a", true));
        assert_eq!(cut("", 0), ("", false));
    }

    proptest! {
        #[test]
        fn a_cut_is_a_prefix_within_the_limit(text in any::<String>(), max in 0usize..50) {
            let (head, cut_off) = cut(&text, max);
            prop_assert!(text.starts_with(head));
            prop_assert!(head.chars().count() <= max);
            prop_assert_eq!(cut_off, head.len() < text.len());
        }
    }
}
