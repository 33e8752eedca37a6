//! Which parts of a command line are secrets, as far as their form shows it.

use crate::spec::StdioSpec;
use callboard_protocol::secret::{MASK, masked_url};

/// A shared value shorter than this is not looked for in arguments: masking each `1` would hide everything.
const SHARED_SECRET_CHARS_MIN: usize = 8;
/// What follows a known prefix must be at least so long to be a credential.
const CREDENTIAL_CHARS_MIN: usize = 16;

/// Words that name a secret when they are a word of the name.
const SECRET_WORDS: [&str; 18] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "dsn",
    "jwt",
    "key",
    "pass",
    "passphrase",
    "pat",
    "pin",
    "pw",
    "pwd",
    "secrets",
    "sig",
    "signature",
];
/// Endings that name a secret, so that `MYTOKEN` is one and `max-tokens` is not.
const SECRET_ENDINGS: [&str; 6] = ["token", "secret", "password", "passwd", "apikey", "accesskey"];
/// How credentials of well-known services begin.
const CREDENTIAL_PREFIXES: [&str; 15] = [
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "npm_",
    "hf_",
    "AIza",
    "eyJ",
];
/// Flags whose value is `NAME=value` or `Name: value` with a value that is masked whatever its name.
const PAIR_FLAGS: [&str; 4] = ["-e", "--env", "-H", "--header"];
/// Flags whose value is `user:password`.
const USER_FLAGS: [&str; 2] = ["-u", "--user"];

/// True for the name of a variable, flag, header or key whose value is most likely a secret.
pub fn is_secret_name(name: &str) -> bool {
    words(name).iter().any(|word| {
        SECRET_WORDS.contains(&word.as_str()) || SECRET_ENDINGS.iter().any(|ending| word.ends_with(ending))
    })
}

/// The arguments of a child, fit for people: values of secret-looking flags, assignments and headers, addresses
/// with credentials, known forms of tokens, values of the entry's own environment, and what
/// [`StdioSpec::args_secret`] names are masked.
pub fn masked_args(stdio: &StdioSpec) -> Vec<String> {
    let mut before: Option<&str> = None;
    let mut masked = Vec::with_capacity(stdio.args.len());
    for (index, arg) in stdio.args.iter().enumerate() {
        let text = match before {
            _ if stdio.args_secret.contains(&index) => mask_value(arg),
            Some(flag) if PAIR_FLAGS.contains(&flag) => mask_value(arg),
            Some(flag) if USER_FLAGS.contains(&flag) || is_secret_flag(flag, arg) => MASK.to_owned(),
            _ => masked_text(arg),
        };
        masked.push(without_shared(text, stdio));
        before = Some(arg);
    }
    masked
}

/// One text of a command line, fit for people. Knows the form alone; [`masked_args`] knows the neighbours too.
pub fn masked_text(text: &str) -> String {
    if let Some((name, value)) = text.split_once('=').filter(|(name, _)| is_plain_name(name)) {
        return match is_secret_name(name) {
            true => format!("{name}={MASK}"),
            false => format!("{name}={}", masked_words(value)),
        };
    }
    masked_words(text)
}

/// True when `flag` takes the next argument and names a secret.
fn is_secret_flag(flag: &str, next: &str) -> bool {
    flag.starts_with('-') && !flag.contains('=') && !next.starts_with("--") && is_secret_name(flag)
}

/// `NAME=value` and `Name: value` keep their name; anything else goes as a whole.
fn mask_value(text: &str) -> String {
    for separator in ["=", ": ", ":"] {
        if let Some((name, _)) = text.split_once(separator).filter(|(name, _)| is_plain_name(name)) {
            return format!("{name}{separator}{MASK}");
        }
    }
    MASK.to_owned()
}

fn is_plain_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Lower-case words of a name: parted at anything but letters and digits, and before a capital.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() || (after_lower && letter.is_ascii_uppercase()) {
            words.push(String::new());
        }
        after_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if letter.is_ascii_alphanumeric() {
            words.last_mut().expect("starts with one word and only grows").push(letter.to_ascii_lowercase());
        }
    }
    // `api_key` and `access-key` are one word for the endings.
    let joined = words.concat();
    words.push(joined);
    words
}

/// Masks assignments, addresses and known tokens anywhere inside a longer text, such as a shell script.
fn masked_words(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ':' | ',')) {
        let (word, tail) = rest.split_at(at);
        if tail.starts_with("://") {
            let end = tail.find(is_url_end).unwrap_or(tail.len());
            shown.push_str(&shown_url(&rest[..at + end]));
            rest = &tail[end..];
            continue;
        }
        shown.push_str(&shown_word(word));
        let separator = tail.chars().next().map_or(0, char::len_utf8);
        shown.push_str(&tail[..separator]);
        rest = &tail[separator..];
        if let Some(end) = secret_value_end(&shown, rest) {
            shown.push_str(MASK);
            rest = &rest[end..];
        }
    }
    shown.push_str(&shown_word(rest));
    shown
}

/// Where the value ends that follows `before`, when `before` ends in a secret name and its separator. The
/// blanks and the opening quote of the value are masked with it.
fn secret_value_end(before: &str, rest: &str) -> Option<usize> {
    let separator = before.chars().last().filter(|c| matches!(c, '=' | ':'))?;
    let name = before[..before.len() - 1].trim_end_matches(['"', '\'', ' ']);
    let start = name.len() - name.bytes().rev().take_while(|byte| is_name_byte(*byte)).count();
    if !is_secret_name(&name[start..]) {
        return None;
    }
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    let value = &rest[blanks..];
    let end = match value.chars().next()? {
        quote @ ('"' | '\'') => 1 + value[1..].find(quote).map_or(value.len() - 1, |at| at + 1),
        _ if separator == ':' => value.find(['"', '\'', '\n']).unwrap_or(value.len()),
        _ => value
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ';'))
            .unwrap_or(value.len()),
    };
    Some(blanks + end).filter(|_| end > 0)
}

fn is_url_end(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '"' | '\'')
}

/// An address as it stands, unless it carries something that is masked.
fn shown_url(text: &str) -> String {
    match url::Url::parse(text) {
        Ok(url)
            if url.query().is_some()
                || url.fragment().is_some()
                || !url.username().is_empty()
                || url.password().is_some() =>
        {
            masked_url(text)
        }
        Ok(_) => text.to_owned(),
        Err(_) if text.contains('@') => MASK.to_owned(),
        Err(_) => text.to_owned(),
    }
}

fn shown_word(word: &str) -> String {
    let is_credential = CREDENTIAL_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
        && word.len() >= CREDENTIAL_CHARS_MIN;
    if is_credential { MASK.to_owned() } else { word.to_owned() }
}

/// Masks what the entry's environment holds as a secret and the command line repeats.
fn without_shared(text: String, stdio: &StdioSpec) -> String {
    let shared =
        stdio.env.values().map(|value| value.expose()).filter(|v| v.len() >= SHARED_SECRET_CHARS_MIN);
    shared.fold(text, |text, secret| text.replace(secret, MASK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use callboard_protocol::Secret;
    use std::collections::BTreeSet;

    #[test]
    fn names_of_secrets() {
        for name in
            ["API_KEY", "apiKey", "--api-key", "GITHUB_TOKEN", "MYTOKEN", "Authorization", "X-Api-Key"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "--max-tokens", "author", "monkey", "HOME", "--port", "keyboard", ""] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    fn check(args: &[&str], expected: &[&str]) {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let env = [("K".to_owned(), Secret::new("planted-value")), ("N".to_owned(), Secret::new("1"))].into();
        let stdio = StdioSpec { args, env, ..StdioSpec::default() };
        assert_eq!(masked_args(&stdio), expected);
    }

    #[test]
    fn secrets_in_arguments_are_masked_and_the_rest_stays() {
        check(&["-y", "demo", "--port", "1"], &["-y", "demo", "--port", "1"]);
        check(&["--token", "X1", "--root", "/srv"], &["--token", "***", "--root", "/srv"]);
        check(&["--token", "--verbose"], &["--token", "--verbose"]);
        check(&["--api-key=X1 X2"], &["--api-key=***"]);
        check(&["API_KEY=X1", "A=b"], &["API_KEY=***", "A=b"]);
        check(&["-e", "A=b", "-e", "A"], &["-e", "A=***", "-e", "***"]);
        check(&["--header", "X-Team: X1"], &["--header", "X-Team: ***"]);
        check(&["Authorization: Bearer X1"], &["Authorization:***"]);
        check(&["Authorization:Bearer X1"], &["Authorization:***"]);
        check(&["-u", "joe:X1"], &["-u", "***"]);
        check(&["https://h.example/mcp"], &["https://h.example/mcp"]);
        check(&["--url=https://joe:X1@h.example/?k=X1"], &["--url=https://***:***@h.example/?k=***"]);
        check(&["postgres://joe:X1@h.example/db"], &["postgres://***:***@h.example/db"]);
        check(&["-c", "TOKEN=X1 demo"], &["-c", "TOKEN=***"]);
        check(&["-c", "cd /x; TOKEN=X1 demo -v"], &["-c", "cd /x; TOKEN=*** demo -v"]);
        check(&["-c", "export TOKEN='X1 X2'; demo"], &["-c", "export TOKEN=***; demo"]);
        check(&[r#"{"token": "X1", "root": "/srv"}"#], &[r#"{"token":***, "root": "/srv"}"#]);
        check(&["ghp_0123456789abcdef", "sk-short"], &["***", "sk-short"]);
        check(&["x-planted-value-y"], &["x-***-y"]);
        check(&["", "=", "é=1", "a:b:"], &["", "=", "é=1", "a:b:"]);
    }

    #[test]
    fn what_came_from_a_secret_variable_is_masked_wherever_it_stands() {
        let args = vec!["X1".into(), "--with=X1".into(), "plain".into()];
        let stdio = StdioSpec { args, args_secret: BTreeSet::from([0, 1]), ..StdioSpec::default() };
        assert_eq!(masked_args(&stdio), ["***", "--with=***", "plain"]);
    }
}
