//! Values that must never be printed.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Text that prints as `***` everywhere; [`Secret::expose`] is the one way to read it.
#[derive(Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the wire only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// A URL fit for people: user info, every query value and the fragment are masked. The fragment of a `unix` address
/// is a path, of which the query is masked alone.
pub fn masked_url(url: &str) -> String {
    let Ok(mut url) = url::Url::parse(url) else { return "(not a URL)".into() };
    if !url.username().is_empty() {
        let _ = url.set_username(MASK);
    }
    if url.password().is_some() {
        let _ = url.set_password(Some(MASK));
    }
    if url.query().is_some() {
        let keys: Vec<String> = url.query_pairs().map(|(key, _)| key.into_owned()).collect();
        let masked: Vec<String> = keys.iter().map(|key| format!("{key}={MASK}")).collect();
        url.set_query(Some(&masked.join("&")));
    }
    match url.fragment() {
        None => {}
        Some(path) if url.scheme() == "unix" => {
            let shown = path.split_once('?').map(|(path, _)| format!("{path}?{MASK}"));
            if let Some(shown) = shown {
                url.set_fragment(Some(&shown));
            }
        }
        Some(_) => url.set_fragment(Some(MASK)),
    }
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_printed() {
        let secret = Secret::new("hunter2");
        let shown = format!("{secret} {secret:?} {}", serde_json::to_string(&secret).expect("serialises"));
        assert!(!shown.contains("hunter2"), "{shown}");
        let url = masked_url("https://joe:hunter2@h.example/p?key=hunter2&b=hunter2#hunter2");
        assert_eq!(url, "https://***:***@h.example/p?key=***&b=***#***");
        assert_eq!(masked_url("http://h/p"), "http://h/p");
        assert_eq!(masked_url("unix:///run/s.sock#/mcp"), "unix:///run/s.sock#/mcp");
        assert_eq!(masked_url("unix:///run/s.sock#/mcp?key=hunter2"), "unix:///run/s.sock#/mcp?***");
    }
}
