//! The members of `_meta` that a host gives to a request, and its trace context (SEP-414).

use crate::call::CallOptions;
use callboard_protocol::meta::TRACEPARENT;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

/// The caller's own members of `_meta`: those in the params, those of the options, and the trace context unless
/// the caller has written one already.
pub(crate) fn meta_members<'a>(own: &str, options: &CallOptions) -> Cow<'a, str> {
    let more = options.meta.as_deref().map_or("", |raw| raw.get().trim());
    let more = more.strip_prefix('{').and_then(|m| m.strip_suffix('}')).unwrap_or("").trim();
    let members = match (own, more) {
        ("", "") => Cow::Borrowed(""),
        (own, "") => Cow::Owned(own.to_owned()),
        ("", more) => Cow::Owned(more.to_owned()),
        (own, more) => Cow::Owned(format!("{own},{more}")),
    };
    match &options.traceparent {
        Some(traceparent) => traced(members, traceparent),
        None => members,
    }
}

fn traced<'a>(members: Cow<'a, str>, traceparent: &str) -> Cow<'a, str> {
    if !is_traceparent(traceparent) {
        tracing::debug!("a trace context that is not of the W3C form is dropped");
        return members;
    }
    if has_own(&members) {
        return members;
    }
    let comma = if members.is_empty() { "" } else { "," };
    Cow::Owned(format!(r#"{members}{comma}"{TRACEPARENT}":"{traceparent}""#))
}

fn has_own(members: &str) -> bool {
    let whole = format!("{{{members}}}");
    let read = serde_json::from_str::<HashMap<Cow<'_, str>, &RawValue>>(&whole);
    read.is_ok_and(|members| members.contains_key(TRACEPARENT))
}

/// `version-trace-parent-flags` in lower-case hexadecimal (W3C Trace Context 1, §3.2): no zero ids, no version
/// `ff`; later versions may have more behind.
fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let is_id = |part: &str, len| hex(part, len) && part.bytes().any(|b| b != b'0');
    let mut parts = text.splitn(5, '-');
    let (Some(version), Some(trace), Some(parent), Some(flags)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let rest_is_right = match (version, parts.next()) {
        (_, None) => true,
        ("00", Some(_)) => false,
        (_, Some(rest)) => rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
    };
    hex(version, 2)
        && version != "ff"
        && is_id(trace, 32)
        && is_id(parent, 16)
        && hex(flags, 2)
        && rest_is_right
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_context_has_the_w3c_form_or_is_dropped() {
        let cases = [
            (GOOD, true),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what.more", false),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-more", true),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", false),
            ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false),
            ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false),
            ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1", false),
            (r#"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","a":"b"#, false),
            ("", false),
        ];
        for (text, is_good) in cases {
            let options = CallOptions { traceparent: Some(text.into()), ..CallOptions::default() };
            let want = if is_good { format!(r#""traceparent":"{text}""#) } else { String::new() };
            assert_eq!(meta_members("", &options), want, "{text}");
        }
    }

    #[test]
    fn the_hosts_own_trace_context_is_not_written_over() {
        let options = |meta: &str| CallOptions {
            traceparent: Some(GOOD.into()),
            meta: Some(RawValue::from_string(meta.into()).expect("JSON")),
            ..CallOptions::default()
        };
        assert_eq!(meta_members("", &options(r#"{"traceparent":"mine"}"#)), r#""traceparent":"mine""#);
        assert_eq!(meta_members("", &options(r#"{"trace\u0070arent":1}"#)), r#""trace\u0070arent":1"#);
        assert_eq!(meta_members(r#""traceparent":2"#, &options("{}")), r#""traceparent":2"#);
        assert_eq!(
            meta_members(r#""a/b":1"#, &options(r#"{"c/d":2}"#)),
            format!(r#""a/b":1,"c/d":2,"traceparent":"{GOOD}""#)
        );
    }
}
