//! The last line of defence: values that configuration holds as secrets are taken out of messages of others
//! (a child's stderr, a server's error page) before they are printed.

use callboard::load::describe::spec_json;
use callboard::{ServerSpec, TransportSpec};
use callboard_protocol::secret::MASK;
use parking_lot::RwLock;
use serde_json::Value;

/// Shorter values are no secrets: masking `1` or `true` would only spoil texts.
const SECRET_CHARS_MIN: usize = 6;

/// Knows every secret value of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    values: RwLock<Vec<Hidden>>,
}

struct Hidden(String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(MASK)
    }
}

impl Scrubber {
    /// Learns the values of environments, headers and URLs.
    pub(crate) fn learn(&self, spec: &ServerSpec) {
        match &spec.transport {
            TransportSpec::Stdio(stdio) => {
                stdio.env.values().for_each(|value| self.add(value.expose()));
                self.learn_args(&stdio.args, &spec_json(spec)["transport"]["args"]);
            }
            TransportSpec::Http(http) => {
                for (_, value) in &http.headers {
                    self.add(value.expose());
                    // `Bearer x`: a server may echo the token alone.
                    value.expose().split_whitespace().for_each(|word| self.add(word));
                }
                if let Ok(url) = url::Url::parse(&http.url) {
                    self.add(url.password().unwrap_or_default());
                    url.query_pairs().for_each(|(_, value)| self.add(&value));
                }
            }
            TransportSpec::InProcess(_) => {}
        }
        // A value that holds another one must go first.
        self.values.write().sort_by_key(|value| std::cmp::Reverse(value.0.len()));
    }

    /// What was masked in an argument is a secret everywhere.
    fn learn_args(&self, args: &[String], masked: &Value) {
        for (arg, masked) in args.iter().zip(masked.as_array().into_iter().flatten()) {
            let Some((before, after)) = masked.as_str().and_then(|masked| masked.split_once(MASK)) else {
                continue;
            };
            let hidden = arg.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            if arg != masked {
                self.add(hidden.unwrap_or(arg));
            }
        }
    }

    fn add(&self, value: &str) {
        let mut values = self.values.write();
        let known = values.iter().any(|hidden| hidden.0 == value);
        if value.chars().count() >= SECRET_CHARS_MIN && value != "Bearer" && !known {
            values.push(Hidden(value.to_owned()));
        }
    }

    /// The text without the secrets.
    pub(crate) fn clean(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for value in &*self.values.read() {
            if clean.contains(&value.0) {
                clean = clean.replace(&value.0, MASK);
            }
        }
        clean
    }

    /// Cleans every text in a JSON value.
    pub(crate) fn clean_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.clean(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_json(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.clean_json(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use callboard_protocol::Secret;

    #[test]
    fn secrets_are_taken_out_wherever_they_stand() {
        let scrubber = Scrubber::default();
        let mut spec = ServerSpec::http("h", "https://joe:passw0rd@h.example/?key=k3yk3yk3y");
        if let TransportSpec::Http(http) = &mut spec.transport {
            http.headers.push(("Authorization".into(), Secret::new("Bearer tok-en-1")));
        }
        scrubber.learn(&spec);
        let clean = scrubber.clean("tok-en-1 k3yk3yk3y passw0rd: Bearer tok-en-1 is bad");
        assert_eq!(clean, "*** *** ***: *** is bad");
        assert!(!format!("{scrubber:?}").contains("tok-en-1"));
    }
}
