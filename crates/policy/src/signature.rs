//! What makes two entries the same server, whatever their names (behaviour profile D1, D2).

use crate::spec::{HttpSpec, InProcessSpec, ServerSpec, StdioSpec, TransportSpec};
use sha2::{Digest, Sha256};

/// Headers that say who is calling (config-formats §5.2); others do not make another server.
pub const CREDENTIAL_HEADERS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-api-key"];

/// The fingerprint of what is dialed: command, arguments, sorted environment and working directory of a
/// child, address and credential headers of a remote server. Hexadecimal SHA-256.
///
/// It is made of secrets among other things: a key for memories and comparisons, not for output.
pub fn fingerprint(spec: &ServerSpec) -> String {
    let mut fields = Fields(Sha256::new());
    match &spec.transport {
        TransportSpec::Stdio(stdio) => add_stdio(&mut fields, stdio),
        TransportSpec::Http(http) => add_http(&mut fields, http),
        TransportSpec::InProcess(InProcessSpec { key }) => {
            fields.add("sdk");
            fields.add(key);
        }
    }
    fields.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashes texts with their lengths, so that `["ab", "c"]` and `["a", "bc"]` differ.
struct Fields(Sha256);

impl Fields {
    fn add(&mut self, text: &str) {
        self.count(text.len());
        self.0.update(text);
    }

    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }
}

fn add_stdio(fields: &mut Fields, stdio: &StdioSpec) {
    fields.add("stdio");
    fields.add(&stdio.command);
    fields.count(stdio.args.len());
    stdio.args.iter().for_each(|arg| fields.add(arg));
    fields.count(stdio.env.len());
    for (name, value) in &stdio.env {
        fields.add(name);
        fields.add(value.expose());
    }
    fields.count(usize::from(stdio.cwd.is_some()));
    fields.add(stdio.cwd.as_deref().unwrap_or_default());
}

fn add_http(fields: &mut Fields, http: &HttpSpec) {
    fields.add("remote");
    fields.add(&normal_url(&http.url));
    let mut credentials: Vec<(String, &str)> = http
        .headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.expose()))
        .filter(|(name, _)| CREDENTIAL_HEADERS.contains(&name.as_str()))
        .collect();
    // An editor's token is its credential.
    let token = http.ide.as_ref().and_then(|ide| ide.auth_token.as_ref());
    credentials.extend(token.map(|token| ("authToken".to_owned(), token.expose())));
    credentials.sort();
    fields.count(credentials.len());
    for (name, value) in credentials {
        fields.add(&name);
        fields.add(value);
    }
}

/// Scheme and host in lower case, without default port and fragment. The fragment of a socket's address is the path
/// behind the socket.
fn normal_url(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else { return text.to_owned() };
    if url.scheme() != "unix" {
        url.set_fragment(None);
    }
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use callboard_protocol::Secret;

    fn stdio(edit: impl FnOnce(&mut StdioSpec)) -> String {
        let mut stdio =
            StdioSpec { command: "demo".into(), args: vec!["ab".into(), "c".into()], ..StdioSpec::default() };
        edit(&mut stdio);
        fingerprint(&ServerSpec::new("a", TransportSpec::Stdio(stdio)))
    }

    fn http(url: &str, headers: &[(&str, &str)]) -> String {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), Secret::new(*value))).collect();
        let http = HttpSpec { url: url.into(), headers, ..HttpSpec::default() };
        fingerprint(&ServerSpec::new("b", TransportSpec::Http(http)))
    }

    #[test]
    fn everything_that_is_started_counts() {
        let env = |value: &str| stdio(|s| drop(s.env.insert("K".into(), Secret::new(value))));
        let all = [
            stdio(|_| ()),
            stdio(|s| s.args = vec!["a".into(), "bc".into()]),
            stdio(|s| s.args = vec!["ab".into()]),
            stdio(|s| s.cwd = Some(String::new())),
            stdio(|s| s.command = "other".into()),
            env(""),
            env("v"),
        ];
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
        assert!(all.iter().all(|hex| hex.len() == 64));
    }

    #[test]
    fn an_address_counts_in_its_normal_form_and_with_its_credentials() {
        let plain = http("https://h.example/mcp", &[]);
        for same in ["HTTPS://H.example:443/mcp", "https://h.example/mcp#top"] {
            assert_eq!(http(same, &[]), plain, "{same}");
        }
        assert_eq!(http("https://h.example/mcp", &[("X-Team", "demo")]), plain);
        for other in ["http://h.example/mcp", "https://h.example/MCP", "https://h.example/mcp?a=1"] {
            assert_ne!(http(other, &[]), plain, "{other}");
        }
        let bearer = http("https://h.example/mcp", &[("Authorization", "Bearer 1")]);
        assert_ne!(bearer, plain);
        assert_ne!(bearer, http("https://h.example/mcp", &[("Authorization", "Bearer 2")]));
        assert_eq!(bearer, http("https://h.example/mcp", &[("authorization", "Bearer 1")]));
    }

    #[test]
    fn the_name_does_not_count() {
        let (one, two) = (ServerSpec::stdio("a", "x", [""; 0]), ServerSpec::stdio("b", "x", [""; 0]));
        assert_eq!(fingerprint(&one), fingerprint(&two));
    }
}
