//! Small readings of raw JSON text: strings, slices, members.

use bytes::Bytes;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The text of a raw JSON string, decoded once into memory of the right size; `None` for anything else.
///
/// Lone surrogates become U+FFFD, since text of a peer must never fail a call.
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.trim().strip_prefix('"')?.strip_suffix('"')?;
    let Some(first) = memchr::memchr(b'\\', inner.as_bytes()) else { return Some(Cow::Borrowed(inner)) };
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    let mut at = first;
    loop {
        out.push_str(&rest[..at]);
        rest = unescape(&rest[at + 1..], &mut out)?;
        match memchr::memchr(b'\\', rest.as_bytes()) {
            Some(next) => at = next,
            None => break,
        }
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// Decodes one escape that follows a backslash and returns what comes after it.
fn unescape<'a>(rest: &'a str, out: &mut String) -> Option<&'a str> {
    let kind = *rest.as_bytes().first()?;
    match kind {
        b'n' => out.push('\n'),
        b't' => out.push('\t'),
        b'r' => out.push('\r'),
        b'b' => out.push('\u{8}'),
        b'f' => out.push('\u{c}'),
        b'"' | b'\\' | b'/' => out.push(char::from(kind)),
        b'u' => return unescape_unicode(rest.get(1..)?, out),
        _ => return None,
    }
    rest.get(1..)
}

fn unescape_unicode<'a>(rest: &'a str, out: &mut String) -> Option<&'a str> {
    let high = u32::from_str_radix(rest.get(..4)?, 16).ok()?;
    let after = rest.get(4..)?;
    if (0xD800..0xDC00).contains(&high)
        && let Some(low) = after.strip_prefix("\\u").and_then(|low| low.get(..4))
        && let Ok(low) = u32::from_str_radix(low, 16)
        && (0xDC00..0xE000).contains(&low)
    {
        let scalar = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        out.push(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
        return after.get(6..);
    }
    out.push(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
    Some(after)
}

/// The part of `whole` that `part` is; `part` must have been read from `whole` without a copy.
pub fn slice_of(whole: &Bytes, part: &str) -> Bytes {
    whole.slice_ref(part.as_bytes())
}

/// The text of bytes that were checked to be JSON before.
pub fn text(raw: &Bytes) -> &str {
    std::str::from_utf8(raw).unwrap_or("null")
}

/// Owned raw JSON of checked text; `null` when the text is not JSON after all.
pub fn boxed(raw: &str) -> Box<RawValue> {
    RawValue::from_string(raw.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// True for the raw text of one whole JSON value. Plain strings, the bulk of most messages, are checked at
/// the speed of memory.
pub fn is_value(raw: &str) -> bool {
    let plain = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    let is_plain = |text: &str| {
        let bytes = text.as_bytes();
        memchr::memchr2(b'\\', b'"', bytes).is_none() && !bytes.iter().fold(false, |any, b| any | (*b < 0x20))
    };
    plain.is_some_and(is_plain) || serde_json::from_str::<&RawValue>(raw).is_ok()
}

/// The first byte that is not white space.
pub fn first_byte(raw: &[u8]) -> Option<u8> {
    raw.iter().copied().find(|b| !b.is_ascii_whitespace())
}

/// True when the raw JSON is an object.
pub fn is_object(raw: &str) -> bool {
    first_byte(raw.as_bytes()) == Some(b'{')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_and_surrogates() {
        for (raw, want) in [
            (r#""plain""#, "plain"),
            (r#""a\n\t\"\\\/b""#, "a\n\t\"\\/b"),
            (r#""\u65e5\ud83c\udf0d""#, "日🌍"),
            (r#""\ud83c""#, "\u{fffd}"),
            (r#""\udf0dx""#, "\u{fffd}x"),
            (r#""\ud83cA""#, "\u{fffd}A"),
        ] {
            assert_eq!(string(raw).as_deref(), Some(want), "{raw}");
        }
        for raw in ["7", "\"", "null", "\"\\", "\"\\q\""] {
            assert_eq!(string(raw), None, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn a_value_is_what_serde_json_takes(raw in r#""?[{}\[\]:,"\\a-z0-9 .\x00-\x1f]{0,12}"?"#) {
            prop_assert_eq!(is_value(&raw), serde_json::from_str::<&RawValue>(&raw).is_ok());
        }

        #[test]
        fn agrees_with_serde_json(text in any::<String>()) {
            let raw = serde_json::to_string(&text).expect("strings serialise");
            let decoded = string(&raw);
            prop_assert_eq!(decoded.as_deref(), Some(text.as_str()));
        }
    }
}
