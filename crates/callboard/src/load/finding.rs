//! What can be wrong, or merely odd, with files, entries and settings: fact, place, and what to do.

use callboard_core::settings::SettingError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Something that keeps a file, an entry or a setting from counting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file; none for a variable.
    pub file: Option<PathBuf>,
    /// The line in it, from 1.
    pub line: Option<usize>,
    /// The entry that is refused; none when the file or a setting is.
    pub entry: Option<String>,
    /// The kind, as a word that does not change (config-formats §5.3).
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Something odd that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file; none for a variable.
    pub file: Option<PathBuf>,
    /// The line in it, from 1.
    pub line: Option<usize>,
    /// The entry it is about.
    pub entry: Option<String>,
    /// The kind, as a word that does not change (config-formats §5.3).
    pub code: &'static str,
    /// What is odd.
    pub message: String,
}

impl Problem {
    /// It keeps a setting from counting, not a file or an entry.
    pub fn is_of_setting(&self) -> bool {
        self.code == SETTING_INVALID
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        place(f, self.file.as_deref(), self.line, self.entry.as_deref())?;
        f.write_str(&self.message)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        place(f, self.file.as_deref(), self.line, self.entry.as_deref())?;
        f.write_str(&self.message)
    }
}

fn place(
    f: &mut fmt::Formatter<'_>,
    file: Option<&Path>,
    line: Option<usize>,
    entry: Option<&str>,
) -> fmt::Result {
    if let Some(file) = file {
        write!(f, "{}:", file.display())?;
        if let Some(line) = line {
            write!(f, "{line}:")?;
        }
        f.write_str(" ")?;
    }
    match entry {
        Some(entry) => write!(f, "server {entry}: "),
        None => Ok(()),
    }
}

/// Why a file yields nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FileError {
    #[error("does not exist")]
    Missing,
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("is a pipe, which cannot be read again")]
    Pipe,
    #[error("is empty and had servers before")]
    Emptied,
    #[error("is larger than {bytes_max} bytes")]
    TooLarge { bytes_max: u64 },
    #[error("is not UTF-8 text")]
    NotText,
    #[error("is not valid {language}: line {line}, column {column}: {what}")]
    Syntax { language: &'static str, line: usize, column: usize, what: String },
    #[error("holds {found} where an object of servers should be")]
    NotServers { found: &'static str },
    #[error("{key} is {found}, not an object of servers")]
    WrongContainer { key: String, line: usize, found: &'static str },
}

impl FileError {
    fn code(&self) -> &'static str {
        match self {
            FileError::Missing => "file-missing",
            FileError::Unreadable(_) | FileError::Pipe | FileError::TooLarge { .. } => "file-unreadable",
            FileError::NotText | FileError::Emptied | FileError::Syntax { .. } => "file-invalid",
            FileError::NotServers { .. } | FileError::WrongContainer { .. } => "wrong-type",
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            FileError::Missing => "check the path given by --config or CALLBOARD_CONFIG",
            FileError::Unreadable(_) => "check that it is a file and that you may read it",
            FileError::Emptied => "write {} if there are to be none",
            FileError::Pipe => "put a file there, or start the command again",
            FileError::TooLarge { .. } => "check that it is a configuration file",
            FileError::NotText => "save it as UTF-8",
            FileError::Syntax { language: "TOML", .. } => {
                "correct it there; nothing of the file counts until then"
            }
            FileError::Syntax { .. } => {
                "correct it there; comments and trailing commas are allowed, nothing of the file counts until then"
            }
            FileError::NotServers { .. } | FileError::WrongContainer { .. } => {
                r#"write {"mcpServers": {"NAME": {"command": "…"}}}"#
            }
        }
    }

    fn line(&self) -> Option<usize> {
        match self {
            FileError::Syntax { line, .. } | FileError::WrongContainer { line, .. } => Some(*line),
            FileError::Missing
            | FileError::Unreadable(_)
            | FileError::Pipe
            | FileError::Emptied
            | FileError::TooLarge { .. }
            | FileError::NotText
            | FileError::NotServers { .. } => None,
        }
    }

    /// The problem of a file as a whole.
    pub(super) fn problem(&self, file: &Path) -> Problem {
        Problem {
            file: Some(file.to_owned()),
            line: self.line(),
            entry: None,
            code: self.code(),
            message: format!("the file {self}"),
            hint: self.hint().into(),
        }
    }
}

/// Why an entry is refused (config-formats §5.3). Values are never quoted but for words that cannot be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EntryError {
    #[error("the entry is {found}, not an object")]
    NotAnObject { found: &'static str },
    #[error("{at} is {found}, not {expected}")]
    WrongType { at: String, expected: &'static str, found: &'static str },
    #[error("the entry at position {index} of the list has no name")]
    MissingName { index: usize },
    #[error("the name is empty")]
    EmptyName,
    #[error("the name stands earlier in the list too")]
    DuplicateName,
    #[error("the name is reserved")]
    ReservedName,
    #[error("the entry has neither command nor url{}", only_nested(.nested))]
    MissingCommandOrUrl { nested: Option<String> },
    #[error("the type is {kind} and there is no command")]
    MissingCommand { kind: String },
    #[error("the type is {kind} and there is no url")]
    MissingUrl { kind: String },
    #[error("the entry has both command and url")]
    MixedTransports,
    #[error("there is no transport {given:?}")]
    UnknownTransport { given: String, nearest: Option<&'static str> },
    #[error("a server of type {given} runs just now, so no file of the {scope} scope can name it")]
    TransportNotInDialect { given: String, scope: &'static str },
    #[error("{at} is not an address that begins with {schemes}")]
    BadUrl { at: String, schemes: &'static str },
    #[error("{at} needs the variable {name}, which is not set")]
    UnsetVariable { at: String, name: String },
    #[error("{at} needs the secret {key}, and there is no store of secrets")]
    NeedsValue { at: String, key: String },
    #[error("{at} becomes longer than {bytes_max} bytes, or its defaults nest too deep")]
    TooLong { at: String, bytes_max: usize },
}

fn only_nested(key: &Option<String>) -> String {
    key.as_ref().map(|key| format!(", only {key}")).unwrap_or_default()
}

impl EntryError {
    fn code(&self) -> &'static str {
        match self {
            EntryError::NotAnObject { .. } => "not-an-object",
            EntryError::WrongType { .. } => "wrong-type",
            EntryError::MissingName { .. } | EntryError::EmptyName => "missing-name",
            EntryError::DuplicateName => "duplicate-name",
            EntryError::ReservedName => "reserved-name",
            EntryError::MissingCommandOrUrl { .. } | EntryError::MissingCommand { .. } => {
                "missing-command-or-url"
            }
            EntryError::MissingUrl { .. } => "missing-url",
            EntryError::MixedTransports => "mixed-transports",
            EntryError::UnknownTransport { .. } => "unknown-transport",
            EntryError::TransportNotInDialect { .. } => "transport-not-in-dialect",
            EntryError::BadUrl { .. } => "bad-url",
            EntryError::UnsetVariable { .. } => "unset-variable",
            EntryError::NeedsValue { .. } => "needs-value",
            EntryError::TooLong { .. } => "value-too-long",
        }
    }

    fn hint(&self) -> String {
        match self {
            EntryError::NotAnObject { .. } => {
                r#"write {"command": "…"} or {"type": "http", "url": "…"}"#.into()
            }
            EntryError::WrongType { at, expected, .. } => format!("make {at} {expected}"),
            EntryError::MissingName { .. } | EntryError::EmptyName => "give it a name".into(),
            EntryError::DuplicateName | EntryError::ReservedName => "give it another name".into(),
            EntryError::MissingCommandOrUrl { nested: Some(key) } => {
                format!("put the members of {key} directly into the entry")
            }
            EntryError::MissingCommandOrUrl { nested: None } | EntryError::MissingCommand { .. } => {
                "add command for a program to start, or url for a remote server".into()
            }
            EntryError::MissingUrl { .. } => "add url".into(),
            EntryError::MixedTransports => {
                "keep one of the two: command starts a program, url calls a server".into()
            }
            EntryError::UnknownTransport { nearest: Some(nearest), .. } => format!("did you mean {nearest}?"),
            EntryError::UnknownTransport { nearest: None, .. } => "use stdio, http, sse or ws".into(),
            EntryError::TransportNotInDialect { .. } => {
                "remove the entry; name the server for one run with --config, or add it in code".into()
            }
            EntryError::BadUrl { schemes, .. } => format!("write the whole address, with {schemes}"),
            EntryError::UnsetVariable { name, .. } => {
                format!("set {name}, or give a default: ${{{name}:-…}}")
            }
            EntryError::NeedsValue { .. } => "use a variable: ${NAME}".into(),
            EntryError::TooLong { .. } => "shorten the value".into(),
        }
    }

    /// The problem of one entry.
    pub(super) fn problem(&self, file: &Path, line: usize, entry: Option<&str>) -> Problem {
        Problem {
            file: Some(file.to_owned()),
            line: Some(line),
            entry: entry.map(str::to_owned),
            code: self.code(),
            message: self.to_string(),
            hint: self.hint(),
        }
    }
}

/// An oddity that stops nothing (config-formats §5.3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Oddity {
    #[error("{key} is not a known key{}", did_you_mean(.nearest))]
    UnknownKey { key: String, nearest: Option<String> },
    #[error("{key} is a key of other clients and is not applied")]
    NotApplied { key: String },
    #[error("{key} does not apply to {to} and is ignored")]
    OtherTransport { key: String, to: &'static str },
    #[error("{key} is ignored beside {used}")]
    Beside { key: String, used: &'static str },
    #[error("timeout is ignored, since its unit is not known; write connect_timeout_ms or call_timeout_ms")]
    TimeoutUnit,
    #[error("{at} begins or ends with white space")]
    SurroundingSpace { at: String },
    #[error("the name has characters outside A-Z a-z 0-9 _ -; its tools get a mapped name")]
    NameCharset,
    #[error("enabled and disabled are both there; off wins")]
    EnabledAndDisabled,
    #[error("the transport sse is deprecated; many servers speak http at /mcp")]
    DeprecatedTransport,
    #[error("{at} keeps the text {reference} as it stands, which is no reference of this file")]
    LiteralReference { at: String, reference: String },
    #[error("{key} stands twice, in lines {first_line} and {line}; the later one counts")]
    DuplicateKey { key: String, first_line: usize, line: usize },
    #[error("the file holds no servers{}", did_you_mean(.nearest))]
    NoServers { nearest: Option<String> },
    #[error("left out, because the entry of this name in {by} comes first and is refused")]
    BehindRefused { by: String },
    #[error("there is no setting {key}{}", did_you_mean(.nearest))]
    UnknownSetting { key: String, nearest: Option<String> },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default()
}

impl Oddity {
    fn code(&self) -> &'static str {
        match self {
            Oddity::UnknownKey { .. } => "unknown-key",
            Oddity::NotApplied { .. } | Oddity::OtherTransport { .. } | Oddity::Beside { .. } => {
                "key-not-in-dialect"
            }
            Oddity::TimeoutUnit => "timeout-unit-unknown",
            Oddity::SurroundingSpace { .. } => "surrounding-space",
            Oddity::NameCharset => "name-charset",
            Oddity::EnabledAndDisabled => "both-enabled-and-disabled",
            Oddity::DeprecatedTransport => "deprecated-transport",
            Oddity::LiteralReference { .. } => "unset-variable",
            Oddity::DuplicateKey { .. } => "duplicate-key",
            Oddity::NoServers { .. } => "no-servers",
            Oddity::BehindRefused { .. } => "shadowed",
            Oddity::UnknownSetting { .. } => "unknown-setting",
        }
    }

    /// The warning at a line of a file.
    pub(super) fn warning(&self, file: Option<&Path>, line: Option<usize>, entry: Option<&str>) -> Warning {
        Warning {
            file: file.map(Path::to_owned),
            line,
            entry: entry.map(str::to_owned),
            code: self.code(),
            message: self.to_string(),
        }
    }
}

/// The code of a setting that does not count.
const SETTING_INVALID: &str = "setting-invalid";

/// The problem of a setting that stands in a file, or in the variable `variable`.
pub(super) fn setting_problem(
    error: &SettingError,
    file: Option<(&Path, usize)>,
    variable: Option<&str>,
) -> Problem {
    let hint = match error {
        SettingError::BadValue { expected, .. } => {
            format!("give it {expected}, or leave it out for the default")
        }
        _ => "leave it out".to_owned(),
    };
    Problem {
        file: file.map(|(file, _)| file.to_owned()),
        line: file.map(|(_, line)| line),
        entry: None,
        code: SETTING_INVALID,
        message: variable.map_or_else(|| error.to_string(), |name| format!("{name}: {error}")),
        hint,
    }
}
