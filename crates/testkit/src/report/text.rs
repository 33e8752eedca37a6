//! Numbers, times and foreign words as text of a page.

use std::fmt::Write;

/// Characters of a foreign word that are shown at most.
const WORD_CHARS_MAX: usize = 400;

/// Text of a page, whatever the words were: marks are escaped, and what would move or turn the text around it is
/// replaced. Long words are cut.
pub(super) fn escaped(words: &str) -> String {
    let mut text = String::with_capacity(words.len().min(WORD_CHARS_MAX));
    for (place, c) in words.chars().enumerate() {
        if place == WORD_CHARS_MAX {
            text.push('…');
            break;
        }
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            c if turns_text(c) => text.push('\u{fffd}'),
            c => text.push(c),
        }
    }
    text
}

/// Controls, marks of the direction of writing, and what no document may hold.
fn turns_text(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || (u32::from(c) & 0xfffe) == 0xfffe
}

/// The start of a word, so that it fits a label.
pub(super) fn shortened(word: &str, chars_max: usize) -> String {
    if word.chars().count() <= chars_max {
        return word.to_owned();
    }
    let start: String = word.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{start}…")
}

/// A place in a picture: one decimal at most, and never anything but a number.
pub(super) fn px(place: f64) -> String {
    let place = if place.is_finite() { place } else { 0.0 };
    let text = format!("{place:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// A count, its thousands apart.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Part of a whole, in percent; nothing of nothing is 0.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let share = part as f64 * 100.0 / whole as f64;
    match share {
        // All and nothing are said of all and nothing alone.
        share if share < 0.05 && part > 0 => "~0 %".to_owned(),
        share if share > 99.95 && part < whole => "~100 %".to_owned(),
        share if part == 0 || part == whole => format!("{share:.0} %"),
        share => format!("{share:.1} %"),
    }
}

/// A length of time in the two largest of its units: `340 ms`, `2.5 s`, `1 min 30 s`, `2 h 5 min`, `1 d 3 h`.
pub fn duration(ms: u64) -> String {
    let (seconds, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 if ms.is_multiple_of(1_000) => format!("{seconds} s"),
        1_000..60_000 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        60_000..3_600_000 => two(minutes, "min", seconds % 60, "s"),
        3_600_000..86_400_000 => two(hours, "h", minutes % 60, "min"),
        _ => two(hours / 24, "d", hours % 24, "h"),
    }
}

fn two(many: u64, unit: &str, few: u64, small: &str) -> String {
    let mut text = format!("{many} {unit}");
    if few > 0 {
        // A String takes everything.
        let _ = write!(text, " {few} {small}");
    }
    text
}

/// A moment, as far as the steps of an axis need it: `0:05`, `1:30:00`, `3d 04:00`, or `12.5 s`.
pub(super) fn moment(ms: u64, step_ms: u64) -> String {
    let (seconds, minutes, hours) = (ms / 1_000 % 60, ms / 60_000 % 60, ms / 3_600_000);
    if step_ms < 1_000 && hours == 0 && minutes == 0 {
        return format!("{}.{} s", seconds, ms % 1_000 / 100);
    }
    let fine = if step_ms < 1_000 { format!(".{}", ms % 1_000 / 100) } else { String::new() };
    match hours {
        0 => format!("{minutes}:{seconds:02}{fine}"),
        1..24 => format!("{hours}:{minutes:02}:{seconds:02}{fine}"),
        _ => format!("{}d {:02}:{minutes:02}", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_people_read() {
        for (ms, text) in [
            (0, "0 ms"),
            (340, "340 ms"),
            (2_000, "2 s"),
            (2_570, "2.5 s"),
            (90_000, "1 min 30 s"),
            (7_500_000, "2 h 5 min"),
            (97_200_000, "1 d 3 h"),
        ] {
            assert_eq!(duration(ms), text);
        }
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(count(number), text);
        }
        for (part, whole, text) in [
            (0, 0, "0 %"),
            (0, 9, "0 %"),
            (9, 9, "100 %"),
            (1, 3, "33.3 %"),
            (1, 90_000, "~0 %"),
            (89_999, 90_000, "~100 %"),
        ] {
            assert_eq!(percent(part, whole), text);
        }
        for (ms, step, text) in [
            (5_000, 1_000, "0:05"),
            (12_500, 500, "12.5 s"),
            (72_500, 500, "1:12.5"),
            (5_400_000, 60_000, "1:30:00"),
            (273_600_000, 3_600_000, "3d 04:00"),
        ] {
            assert_eq!(moment(ms, step), text);
        }
        for (place, text) in [(1.0, "1"), (1.25, "1.2"), (-0.01, "0"), (f64::NAN, "0"), (f64::INFINITY, "0")]
        {
            assert_eq!(px(place), text);
        }
    }

    #[test]
    fn foreign_words_stay_words() {
        assert_eq!(escaped("<b a='x'>&\""), "&lt;b a=&#39;x&#39;&gt;&amp;&quot;");
        assert_eq!(escaped("a\u{202e}b\0c\u{ffff}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(escaped(&"x".repeat(9_999)).chars().count(), WORD_CHARS_MAX + 1);
        assert_eq!((shortened("short", 5), shortened("longer", 5)), ("short".into(), "long…".into()));
    }
}
