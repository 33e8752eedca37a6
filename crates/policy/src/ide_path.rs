//! Paths of Windows and of its Linux subsystem (WSL), translated into each other as texts.
//!
//! An editor on Windows and a process inside the subsystem see the same files under two names: drives stand under
//! `/mnt`, and the files of a distribution stand under `\\wsl.localhost\NAME` (once `\\wsl$\NAME`).

use url::Url;

/// The hosts under which Windows shows the files of distributions, the one that is written first.
const HOSTS: [&str; 2] = ["wsl.localhost", "wsl$"];

/// A Linux path as Windows names it. `distro` is the distribution that this process runs in; without it only
/// drives have a name there. None for what is no absolute path, or cannot be named.
///
/// ```
/// use callboard_policy::ide_path::to_windows;
///
/// assert_eq!(to_windows("/mnt/c/Work/x", None).as_deref(), Some(r"C:\Work\x"));
/// assert_eq!(to_windows("/srv/x", Some("Debian")).as_deref(), Some(r"\\wsl.localhost\Debian\srv\x"));
/// ```
pub fn to_windows(path: &str, distro: Option<&str>) -> Option<String> {
    // Windows takes a backslash for a separator: such a name means another file there.
    let inside = path.strip_prefix('/').filter(|_| !path.contains('\\'))?;
    let backslashed = |text: &str| text.replace('/', "\\");
    if let Some((drive, rest)) = mounted_drive(path) {
        let rest = if rest.is_empty() { "/" } else { rest };
        return Some(format!("{}:{}", drive.to_ascii_uppercase(), backslashed(rest)));
    }
    Some(format!("\\\\{}\\{}\\{}", HOSTS[0], distro?, backslashed(inside)))
}

/// A Windows path as this process names it inside `distro`. None for relative paths, for other machines and for
/// other distributions, whose files cannot be reached.
///
/// ```
/// use callboard_policy::ide_path::to_linux;
///
/// assert_eq!(to_linux(r"C:\Work\x", None).as_deref(), Some("/mnt/c/Work/x"));
/// assert_eq!(to_linux(r"\\wsl$\Debian\srv\x", Some("Debian")).as_deref(), Some("/srv/x"));
/// assert_eq!(to_linux(r"\\wsl$\Other\srv\x", Some("Debian")), None);
/// ```
pub fn to_linux(path: &str, distro: Option<&str>) -> Option<String> {
    let slashed = path.replace('\\', "/");
    // The verbatim spellings `\\?\C:\…` and `\\?\UNC\host\…`.
    let (plain, is_unc) = match slashed.strip_prefix("//?/") {
        Some(verbatim) => match verbatim.get(..4).filter(|start| start.eq_ignore_ascii_case("UNC/")) {
            Some(_) => (&verbatim[4..], true),
            None => (verbatim, false),
        },
        None => match slashed.strip_prefix("//") {
            Some(share) => (share, true),
            None => (slashed.as_str(), false),
        },
    };
    if is_unc {
        let (host, rest) = plain.split_once('/')?;
        let (name, inside) = rest.split_once('/').unwrap_or((rest, ""));
        let is_ours = HOSTS.iter().any(|known| host.eq_ignore_ascii_case(known))
            && distro.is_some_and(|distro| name.eq_ignore_ascii_case(distro));
        return is_ours.then(|| format!("/{inside}"));
    }
    let (drive, rest) = drive(plain)?;
    Some(format!("/mnt/{}{rest}", drive.to_ascii_lowercase()))
}

/// A `file:` address of this process as an editor on Windows writes it. None where [`to_windows`] has no name, and
/// for other schemes. The address of a Windows path stays as it is.
pub fn uri_to_windows(uri: &str, distro: Option<&str>) -> Option<String> {
    let parsed = Url::parse(uri).ok().filter(|parsed| parsed.scheme() == "file")?;
    let path = decoded(parsed.path())?;
    if parsed.has_host() || drive(path.get(1..).unwrap_or_default()).is_some() {
        return Some(uri.to_owned());
    }
    let windows = to_windows(&path, distro)?;
    let (host, path) = match windows.strip_prefix("\\\\").and_then(|share| share.split_once('\\')) {
        Some((host, inside)) => (host, inside.to_owned()),
        None => ("", windows),
    };
    let mut address = Url::parse(&format!("file://{host}/")).ok()?;
    address.set_path(&encoded(&path.replace('\\', "/")));
    Some(address.into())
}

/// A `file:` address of an editor on Windows as this process writes it. None where [`to_linux`] has no name, and
/// for other schemes.
pub fn uri_to_linux(uri: &str, distro: Option<&str>) -> Option<String> {
    let parsed = Url::parse(uri).ok().filter(|parsed| parsed.scheme() == "file")?;
    let path = decoded(parsed.path())?;
    let windows = match parsed.host_str().map(decoded) {
        Some(host) => format!("//{}{path}", host?),
        None => path.strip_prefix('/')?.to_owned(),
    };
    let mut address = Url::parse("file:///").ok()?;
    address.set_path(&encoded(&to_linux(&windows, distro)?));
    Some(address.into())
}

/// The letter and the rest of a path below `/mnt`, where drives are in lower case.
fn mounted_drive(path: &str) -> Option<(char, &str)> {
    let mut rest = path.strip_prefix("/mnt/")?.chars();
    let letter = rest.next().filter(char::is_ascii_lowercase)?;
    let rest = rest.as_str();
    (rest.is_empty() || rest.starts_with('/')).then_some((letter, rest))
}

/// The letter and the rest of an absolute path on a drive. `C:x` is relative to a folder that nobody here knows.
fn drive(path: &str) -> Option<(char, &str)> {
    let mut rest = path.chars();
    let letter = rest.next().filter(char::is_ascii_alphabetic)?;
    let rest = rest.as_str().strip_prefix(':')?;
    (rest.is_empty() || rest.starts_with('/')).then_some((letter, rest))
}

/// Text without its percent signs; none when it is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |byte: u8| (byte as char).to_digit(16);
        match tail {
            [high, low, after @ ..] if *first == b'%' && hex(*high).is_some() && hex(*low).is_some() => {
                let value = hex(*high).zip(hex(*low)).map(|(high, low)| high * 16 + low);
                bytes.push(u8::try_from(value?).ok()?);
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Percent signs of a path, which the URL library leaves alone; it encodes the rest.
fn encoded(path: &str) -> String {
    path.replace('%', "%25")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_both_ways() {
        for (windows, linux, distro) in [
            (r"C:\Work\x", "/mnt/c/Work/x", None),
            (r"C:\Work\x", "/mnt/c/Work/x", Some("Debian")),
            (r"D:\", "/mnt/d/", None),
            (r"C:\My Files\100% it's", "/mnt/c/My Files/100% it's", None),
            (r"\\wsl.localhost\Debian\srv\x", "/srv/x", Some("Debian")),
            (r"\\wsl.localhost\Debian\", "/", Some("Debian")),
            // Not the mounts of drives.
            (r"\\wsl.localhost\Debian\mnt\C\x", "/mnt/C/x", Some("Debian")),
            (r"\\wsl.localhost\Debian\mnt\cd", "/mnt/cd", Some("Debian")),
            (r"\\wsl.localhost\Debian\mnt", "/mnt", Some("Debian")),
        ] {
            assert_eq!(to_windows(linux, distro).as_deref(), Some(windows), "{linux}");
            assert_eq!(to_linux(windows, distro).as_deref(), Some(linux), "{windows}");
        }
    }

    #[test]
    fn other_spellings_of_windows() {
        for (windows, linux) in [
            ("c:/Work/x", "/mnt/c/Work/x"),
            (r"z:\a/b\c", "/mnt/z/a/b/c"),
            (r"\\wsl$\Debian\srv\x", "/srv/x"),
            (r"\\WSL$\debian\srv\x", "/srv/x"),
            ("//wsl.localhost/Debian/srv/x", "/srv/x"),
            (r"\\wsl$\Debian", "/"),
            (r"\\?\C:\x", "/mnt/c/x"),
            (r"\\?\UNC\wsl$\Debian\srv", "/srv"),
            ("C:", "/mnt/c"),
        ] {
            assert_eq!(to_linux(windows, Some("Debian")).as_deref(), Some(linux), "{windows}");
        }
        assert_eq!(to_windows("/mnt/c", None).as_deref(), Some(r"C:\"));
    }

    #[test]
    fn what_has_no_name_on_the_other_side() {
        for windows in [r"\\wsl$\Other\srv\x", r"\\server\share\x", "C:x", "x", r"\x", "/srv/x", "", "1:/x"] {
            assert_eq!(to_linux(windows, Some("Debian")), None, "{windows}");
        }
        assert_eq!(to_linux(r"\\wsl$\Debian\srv", None), None, "no distribution of ours is known");
        for linux in ["home/x", "", r"/a\b", r"C:\x"] {
            assert_eq!(to_windows(linux, Some("Debian")), None, "{linux}");
        }
        assert_eq!(to_windows("/srv/x", None), None);
    }

    #[test]
    fn addresses_both_ways() {
        for (linux, windows) in [
            ("file:///mnt/c/Work/x", "file:///C:/Work/x"),
            ("file:///mnt/c/My%20Files/a%23b%25", "file:///C:/My%20Files/a%23b%25"),
            ("file:///srv/x/%C3%A4", "file://wsl.localhost/Debian/srv/x/%C3%A4"),
        ] {
            assert_eq!(uri_to_windows(linux, Some("Debian")).as_deref(), Some(windows), "{linux}");
            assert_eq!(uri_to_linux(windows, Some("Debian")).as_deref(), Some(linux), "{windows}");
        }
        for (windows, linux) in [
            ("file:///c%3A/Work/x", Some("file:///mnt/c/Work/x")),
            ("file://wsl%24/Debian/srv/x", Some("file:///srv/x")),
            ("file://wsl$/Debian/srv/x", Some("file:///srv/x")),
            ("file://wsl.localhost/Other/srv/x", None),
            ("file://server/share", None),
            ("https://h/C:/x", None),
            ("nonsense", None),
        ] {
            assert_eq!(uri_to_linux(windows, Some("Debian")).as_deref(), linux, "{windows}");
        }
        // This process may itself run on Windows.
        for same in ["file:///C:/Work/x", "file:///c%3A/Work/x", "file://server/share/x"] {
            assert_eq!(uri_to_windows(same, None).as_deref(), Some(same));
        }
        assert_eq!(uri_to_windows("file:///srv/x", None), None);
        assert_eq!(uri_to_windows("https://h/", Some("Debian")), None);
    }
}
