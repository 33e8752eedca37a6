//! What the surroundings say of the way to servers: proxies and certificate authorities (behaviour profile 1.10
//! passes the same variables to children).

use callboard_core::port::{CloseReason, Unreachable};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::{Certificate, Proxy, Url};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest file of certificates that is read, in bytes; the store of a whole system has a quarter of this.
const CERTIFICATES_BYTES_MAX: u64 = 1024 * 1024;
/// Files of one folder of certificates that are read.
const CERTIFICATE_FILES_MAX: usize = 4_096;

/// Proxies and certificate authorities, as texts. The default is a direct way and the authorities of the system.
///
/// | variable | meaning |
/// | --- | --- |
/// | `HTTP_PROXY`, `HTTPS_PROXY` | the proxy for `http` and `ws`, and for `https` and `wss` addresses |
/// | `ALL_PROXY` | the proxy for those that have none of their own |
/// | `NO_PROXY` | hosts without a proxy: names with their subdomains, IP addresses and networks (`10.0.0.0/8`), or `*`, separated by commas |
/// | `SSL_CERT_FILE`, `SSL_CERT_DIR` | certificate authorities, in PEM, *instead of* those of the system |
/// | `NODE_EXTRA_CA_CERTS` | certificate authorities, in PEM, *beside* the others |
///
/// The names in lower case count as well, where the upper case is not set or empty. Proxies are `http://`,
/// `https://`, `socks4://`, `socks4a://`, `socks5://` or `socks5h://` addresses; without a scheme `http://` is meant.
/// Nothing is exempt by itself: `localhost` goes to the proxy too unless `NO_PROXY` names it, as with curl. Where
/// `REQUEST_METHOD` is set, `HTTP_PROXY` in upper case does not count, since there it is a header of whoever asked.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// For `http` and `ws` addresses.
    pub http_proxy: Option<String>,
    /// For `https` and `wss` addresses.
    pub https_proxy: Option<String>,
    /// Hosts without a proxy.
    pub no_proxy: Option<String>,
    /// A file of authorities that replaces those of the system.
    pub authorities_file: Option<PathBuf>,
    /// Folders of authorities that replace those of the system.
    pub authorities_folders: Vec<PathBuf>,
    /// A file of authorities beside the others.
    pub authorities_extra: Option<PathBuf>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses of proxies hold passwords.
        f.debug_struct("Network")
            .field("http_proxy", &self.http_proxy.as_deref().map(shown))
            .field("https_proxy", &self.https_proxy.as_deref().map(shown))
            .field("no_proxy", &self.no_proxy)
            .field("authorities_file", &self.authorities_file)
            .field("authorities_folders", &self.authorities_folders)
            .field("authorities_extra", &self.authorities_extra)
            .finish()
    }
}

impl Network {
    /// What the variables of this process say.
    pub fn of_process() -> Network {
        Network::of_variables(|name| std::env::var(name).ok())
    }

    /// What these variables say.
    ///
    /// ```
    /// use callboard_transports::Network;
    ///
    /// let network = Network::of_variables(|name| (name == "all_proxy").then(|| "http://proxy:3128".into()));
    /// assert_eq!(network.http_proxy, network.https_proxy);
    /// ```
    pub fn of_variables(read: impl Fn(&str) -> Option<String>) -> Network {
        let filled = |name: &str| read(name).filter(|value| !value.trim().is_empty());
        let either = |name: &str| filled(name).or_else(|| filled(&name.to_ascii_lowercase()));
        let is_cgi = read("REQUEST_METHOD").is_some();
        let http_proxy = if is_cgi { filled("http_proxy") } else { either("HTTP_PROXY") };
        let all_proxy = either("ALL_PROXY");
        Network {
            http_proxy: http_proxy.or_else(|| all_proxy.clone()),
            https_proxy: either("HTTPS_PROXY").or(all_proxy),
            no_proxy: either("NO_PROXY"),
            authorities_file: filled("SSL_CERT_FILE").map(PathBuf::from),
            authorities_folders: filled("SSL_CERT_DIR")
                .map(|folders| std::env::split_paths(&folders).collect())
                .unwrap_or_default(),
            authorities_extra: filled("NODE_EXTRA_CA_CERTS").map(PathBuf::from),
        }
    }

    /// The proxy that is asked for an address, if it is one that speaks HTTP.
    pub(crate) fn http_proxy_for(&self, url: &Url) -> Option<Intercept> {
        let text = |proxy: &Option<String>| proxy.clone().unwrap_or_default();
        let matcher = Matcher::builder()
            .http(text(&self.http_proxy))
            .https(text(&self.https_proxy))
            .no(text(&self.no_proxy))
            .build();
        let proxy = matcher.intercept(&url.as_str().parse().ok()?)?;
        matches!(proxy.uri().scheme_str(), Some("http" | "https")).then_some(proxy)
    }

    /// Can a request to this address meet a certificate?
    pub(crate) fn needs_authorities(&self, url: &Url) -> bool {
        url.scheme() != "http" || self.http_proxy.is_some()
    }

    /// The proxies as the HTTP client takes them.
    ///
    /// # Errors
    /// [`Unreachable::Proxy`] when one cannot be used: going past it would be a surprise.
    pub(crate) fn proxies(&self) -> Result<Vec<Proxy>, CloseReason> {
        let exempt = || self.no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
        let mut proxies = Vec::new();
        if let Some(proxy) = &self.http_proxy {
            let made = Proxy::http(address(proxy)?).map_err(|_| unusable(proxy))?;
            proxies.push(made.no_proxy(exempt()));
        }
        if let Some(proxy) = &self.https_proxy {
            let made = Proxy::https(address(proxy)?).map_err(|_| unusable(proxy))?;
            proxies.push(made.no_proxy(exempt()));
        }
        Ok(proxies)
    }

    /// The authorities that replace those of the system, if any do.
    ///
    /// # Errors
    /// [`Unreachable::Tls`] when the variables name some and none can be read: no connection could be trusted.
    pub(crate) fn authorities(&self) -> Result<Option<Vec<Certificate>>, CloseReason> {
        if self.authorities_file.is_none() && self.authorities_folders.is_empty() {
            return Ok(None);
        }
        let mut found = Vec::new();
        let mut failures = Vec::new();
        let files = self.authorities_folders.iter().flat_map(|folder| files_of(folder));
        for file in self.authorities_file.iter().cloned().chain(files) {
            match certificates(&file) {
                Ok(certificates) => found.extend(certificates),
                Err(why) => failures.push(why),
            }
        }
        if found.is_empty() {
            let why = failures.first().map_or("their folders hold none", String::as_str);
            let message = format!("SSL_CERT_FILE and SSL_CERT_DIR give no certificate authority: {why}");
            return Err(CloseReason::Unreachable { kind: Unreachable::Tls, message });
        }
        Ok(Some(found))
    }

    /// The authorities beside the others. A file that cannot be read is warned of and passed over, as Node does.
    pub(crate) fn extra_authorities(&self) -> Vec<Certificate> {
        let Some(file) = &self.authorities_extra else { return Vec::new() };
        certificates(file).unwrap_or_else(|why| {
            tracing::warn!(%why, "NODE_EXTRA_CA_CERTS is passed over");
            Vec::new()
        })
    }
}

/// A proxy with its scheme.
fn address(proxy: &str) -> Result<Url, CloseReason> {
    let proxy = proxy.trim();
    let whole = match proxy.contains("://") {
        true => Url::parse(proxy),
        false => Url::parse(&format!("http://{proxy}")),
    };
    let is_known = |url: &Url| {
        matches!(url.scheme(), "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h")
            && url.has_host()
    };
    whole.ok().filter(is_known).ok_or_else(|| unusable(proxy))
}

fn unusable(proxy: &str) -> CloseReason {
    let message = format!(
        "the proxy {} of the environment cannot be used: it is no http, https or socks address",
        shown(proxy)
    );
    CloseReason::Unreachable { kind: Unreachable::Proxy, message }
}

fn shown(proxy: &str) -> String {
    match proxy.contains("://") {
        true => callboard_protocol::masked_url(proxy),
        false => callboard_protocol::masked_url(&format!("http://{proxy}")),
    }
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).take(CERTIFICATE_FILES_MAX).collect();
    files.sort();
    files
}

fn certificates(file: &Path) -> Result<Vec<Certificate>, String> {
    let failed = |why: &dyn fmt::Display| format!("{}: {why}", file.display());
    let mut text = Vec::new();
    let opened = File::open(file).map_err(|error| failed(&error))?;
    opened.take(CERTIFICATES_BYTES_MAX).read_to_end(&mut text).map_err(|error| failed(&error))?;
    let found = Certificate::from_pem_bundle(&text).map_err(|_| failed(&"it is no PEM"))?;
    match found.is_empty() {
        true => Err(failed(&"it holds no certificate")),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(variables: &[(&str, &str)]) -> Network {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Network::of_variables(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn variables_in_both_cases() {
        let both =
            network(&[("HTTP_PROXY", "a"), ("http_proxy", "b"), ("HTTPS_PROXY", ""), ("https_proxy", "c")]);
        assert_eq!((both.http_proxy.as_deref(), both.https_proxy.as_deref()), (Some("a"), Some("c")));
        let all = network(&[("ALL_PROXY", "a"), ("https_proxy", "b"), ("no_proxy", "h")]);
        assert_eq!((all.http_proxy.as_deref(), all.https_proxy.as_deref()), (Some("a"), Some("b")));
        assert_eq!(all.no_proxy.as_deref(), Some("h"));
        let cgi = network(&[("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "evil")]);
        assert_eq!(cgi, Network::default());
    }

    #[test]
    fn no_proxy_names_hosts_networks_and_everything() {
        let proxied = |no_proxy: &str, url: &str| {
            let network = network(&[("ALL_PROXY", "http://u:p@proxy:3128"), ("NO_PROXY", no_proxy)]);
            network.http_proxy_for(&Url::parse(url).expect("a URL")).is_some()
        };
        for (no_proxy, url, is_proxied) in [
            ("", "http://localhost:1/", true),
            ("", "http://127.0.0.1:1/", true),
            ("localhost,127.0.0.1", "http://localhost:1/", false),
            ("localhost,127.0.0.1", "https://127.0.0.1:1/", false),
            ("localhost, ::1", "http://[::1]:1/", false),
            (".example.test", "https://a.example.test/", false),
            ("example.test", "https://notexample.test/", true),
            ("10.0.0.0/8", "http://10.1.2.3/", false),
            ("10.0.0.0/8", "http://11.1.2.3/", true),
            ("*", "http://h/", false),
        ] {
            assert_eq!(proxied(no_proxy, url), is_proxied, "{no_proxy} {url}");
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_named_without_its_password() {
        let bad = network(&[("HTTPS_PROXY", "ftp://joe:planted@proxy:1")]);
        let error = bad.proxies().expect_err("refused").to_string();
        assert!(error.contains("ftp://***:***@proxy:1") && !error.contains("planted"), "{error}");
        assert!(!format!("{bad:?}").contains("planted"));
        for good in ["proxy:3128", "http://proxy", "socks5h://proxy:1080", "u:p@proxy:1"] {
            assert_eq!(network(&[("ALL_PROXY", good)]).proxies().expect(good).len(), 2);
        }
    }

    #[test]
    fn authorities_that_are_named_must_be_there() {
        assert!(network(&[]).authorities().expect("the system's").is_none());
        let error = network(&[("SSL_CERT_FILE", "/nowhere/ca.pem")]).authorities().expect_err("refused");
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
        network(&[("SSL_CERT_DIR", "/nowhere")]).authorities().expect_err("refused");
        assert!(network(&[("NODE_EXTRA_CA_CERTS", "/nowhere/ca.pem")]).extra_authorities().is_empty());
    }
}
