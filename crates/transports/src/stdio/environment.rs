//! The environment of a child: not ours, but what a program needs to run (behaviour profile 1.10, 1.12).

use callboard_core::port::StdioSpec;
use callboard_core::settings::{EnvInherit, Settings};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The base set, inherited when set: where programs and files are, who and where the user is, how to reach the
/// network and whom to trust there. Nothing in it is a secret by custom, but a proxy may carry a password,
/// without which it is of no use.
const BASE: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_RUNTIME_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// What programs on Windows do not start without.
#[cfg(windows)]
const ESSENTIAL: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];
#[cfg(not(windows))]
const ESSENTIAL: &[&str] = &[];

/// The whole environment of a child, or what is wrong with the entry's. Later ones win: what is inherited, what
/// callboard adds, what the entry sets, empty values included.
pub(super) fn of_child(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    spec: &StdioSpec,
    server: &str,
    cwd: &Path,
    settings: &Settings,
) -> Result<BTreeMap<OsString, OsString>, (String, bool)> {
    let is_inherited = |name: &OsStr| match settings.stdio_env_inherit {
        EnvInherit::All => true,
        EnvInherit::Base => is_base(name),
    };
    let mut env: BTreeMap<OsString, OsString> =
        ours.into_iter().filter(|(name, _)| is_inherited(name)).collect();
    if settings.stdio_unbuffered_hint {
        env.entry("PYTHONUNBUFFERED".into()).or_insert_with(|| "1".into());
    }
    env.insert("CALLBOARD".into(), "1".into());
    env.insert("CALLBOARD_PROJECT_DIR".into(), cwd.into());
    // A zero byte cannot be passed on; a name that holds one is not worth a failure.
    env.insert("CALLBOARD_SERVER_NAME".into(), server.replace('\0', "").into());
    for (name, value) in &spec.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.expose().contains('\0') {
            return Err((format!("\"env\" holds {name:?}, which no environment can hold"), false));
        }
        env.insert(name.into(), value.expose().into());
    }
    Ok(env)
}

fn is_base(name: &OsStr) -> bool {
    let is_listed =
        |list: &[&str], is_same: fn(&str, &OsStr) -> bool| list.iter().any(|one| is_same(one, name));
    let exact: fn(&str, &OsStr) -> bool = |one, name| name == one;
    let any_case: fn(&str, &OsStr) -> bool = |one, name| name.eq_ignore_ascii_case(one);
    is_listed(BASE, if cfg!(windows) { any_case } else { exact })
        || is_listed(ESSENTIAL, any_case)
        || name.as_encoded_bytes().starts_with(b"LC_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use callboard_protocol::Secret;

    fn env(ours: &[(&str, &str)], entry: &[(&str, &str)], settings: &Settings) -> Result<String, String> {
        let ours = ours.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let entry = entry.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value)));
        let spec = StdioSpec { env: entry.collect(), ..StdioSpec::default() };
        let env = of_child(ours, &spec, "s", Path::new("/w"), settings).map_err(|(message, _)| message)?;
        let show = |(name, value): (&OsString, &OsString)| format!("{}={}", name.display(), value.display());
        Ok(env.iter().map(show).collect::<Vec<_>>().join(" "))
    }

    const ADDED: &str = "CALLBOARD=1 CALLBOARD_PROJECT_DIR=/w CALLBOARD_SERVER_NAME=s";

    #[test]
    fn a_child_gets_the_base_set_our_marks_and_its_own() {
        let base = Settings { stdio_unbuffered_hint: false, ..Settings::default() };
        let all = Settings { stdio_env_inherit: EnvInherit::All, ..base.clone() };
        let hint = Settings::default();
        let ours =
            &[("PATH", "/bin"), ("LC_ALL", "C"), ("AWS_SECRET_ACCESS_KEY", "x"), ("https_proxy", "p")][..];
        for (ours, entry, settings, expected) in [
            (ours, &[][..], &base, format!("{ADDED} LC_ALL=C PATH=/bin https_proxy=p")),
            (ours, &[], &all, format!("AWS_SECRET_ACCESS_KEY=x {ADDED} LC_ALL=C PATH=/bin https_proxy=p")),
            (&[("PATH", "/bin")], &[("PATH", ""), ("A", "")], &base, format!("A= {ADDED} PATH=")),
            (&[], &[], &hint, format!("{ADDED} PYTHONUNBUFFERED=1")),
            (&[], &[("PYTHONUNBUFFERED", "")], &hint, format!("{ADDED} PYTHONUNBUFFERED=")),
            (&[("CALLBOARD", "0")], &[], &all, ADDED.to_owned()),
            (&[], &[("CALLBOARD", "2")], &base, ADDED.replace("CALLBOARD=1", "CALLBOARD=2")),
        ] {
            assert_eq!(env(ours, entry, settings), Ok(expected), "{ours:?} {entry:?}");
        }
    }

    #[test]
    fn an_impossible_variable_is_named_without_its_value() {
        for (name, value) in [("", "v"), ("A=B", "v"), ("A\0", "v"), ("A", "sec\0ret")] {
            let message = env(&[], &[(name, value)], &Settings::default()).expect_err("refused");
            assert!(message.contains(&format!("{name:?}")) && !message.contains("sec"), "{message}");
        }
    }
}
