//! Files to servers and settings: finds them, reads them, and says what is wrong without ever giving up as a whole.
//!
//! `places -> raw (JSON or TOML to a tree with lines) -> container (where the servers stand) -> entry (what one
//! means) -> ServerSpec`, and beside it `raw + variables -> settings`. Who wins a name is not decided here but by
//! `policy::admit`; files only come in order of precedence.
//!
//! Servers of a project's `.mcp.json` come from whoever wrote the repository. They are marked [`Scope::Project`],
//! and nothing here asks anybody about them: a host that runs in folders it does not trust leaves them out.

mod container;
pub mod describe;
mod entry;
mod expand;
mod finding;
mod nearest;
pub(crate) mod places;
mod raw;
mod settings;

pub use finding::{Problem, Warning};
pub use nearest::nearest;

use callboard_core::settings::Settings;
use callboard_policy::{Scope, ServerSpec, Source};
use container::Servers;
use finding::{EntryError, FileError, Oddity};
use raw::{Language, Parsed, Raw};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Largest configuration file, in bytes: the biggest known one, of a client that keeps its history in it, has
/// a tenth of this.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The path that means standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Where to look and what to resolve references from.
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// The working directory, as the user sees it.
    pub cwd: PathBuf,
    /// The user's home folder; without it no files of the user are read.
    pub home: Option<PathBuf>,
    /// The variables for references, settings and `XDG_CONFIG_HOME`.
    pub env: BTreeMap<String, String>,
    /// Read exactly these files instead of discovery, in the dynamic scope, the first before the second. `-` is
    /// standard input.
    pub config_files: Vec<PathBuf>,
}

impl std::fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The values of variables are nobody's business.
        f.debug_struct("LoadOptions")
            .field("cwd", &self.cwd)
            .field("home", &self.home)
            .field("env", &self.env.keys())
            .field("config_files", &self.config_files)
            .finish()
    }
}

impl LoadOptions {
    /// What this process was started with: its working directory (by its logical name where the shell gives one),
    /// home, variables that are UTF-8, and the files named by `CALLBOARD_CONFIG`, separated like those of `PATH`.
    ///
    /// # Errors
    /// When there is no working directory.
    pub fn of_process() -> std::io::Result<LoadOptions> {
        let physical = std::env::current_dir()?;
        let env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let logical = env.get("PWD").map(PathBuf::from).filter(|logical| logical.is_absolute());
        let cwd = logical.filter(|logical| is_same_folder(logical, &physical)).unwrap_or(physical);
        let config_files = std::env::var_os("CALLBOARD_CONFIG")
            .map(|files| std::env::split_paths(&files).filter(|file| !file.as_os_str().is_empty()).collect());
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        Ok(LoadOptions { cwd, home, env, config_files: config_files.unwrap_or_default() })
    }
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The rules that give a file its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// The common form: the union of the spellings of the field (config-formats §4.2).
    Generic,
}

impl Dialect {
    /// The dialect's word in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Dialect::Generic => "generic",
        }
    }
}

/// A place that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path of the file.
    pub path: PathBuf,
    /// The layer it belongs to.
    pub scope: Scope,
    /// How it is read.
    pub dialect: Dialect,
    /// Whether it was there.
    pub found: bool,
}

/// What files and variables come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Good entries, in order of precedence within each scope; same names are for `policy::admit` to settle.
    pub entries: Vec<ServerSpec>,
    /// Settings: default, then file, then variable.
    pub settings: Settings,
    /// Where each setting that is not a default was set: `FILE:LINE`, or the variable.
    pub setting_origins: BTreeMap<&'static str, String>,
    /// The text of each setting that is not a default, as [`Settings::set`] reads it.
    pub setting_texts: BTreeMap<&'static str, String>,
    /// What is wrong, one item for each file, entry or setting that does not count.
    pub problems: Vec<Problem>,
    /// What is odd and stops nothing.
    pub warnings: Vec<Warning>,
    /// Every place looked at, in order of precedence.
    pub places: Vec<Place>,
    /// The line at which each entry begins, by file and name.
    pub lines: BTreeMap<(String, String), usize>,
    /// The root of the repository, or the working directory outside of one.
    pub project_folder: PathBuf,
}

/// Reads all files and variables that `options` lead to. Blocks on file IO.
///
/// It does not fail: a file that does not parse is a [`Problem`] and the other files count; an entry that is wrong
/// is a [`Problem`] and its neighbours count. Only an entry of the same name in a place that comes later is left
/// out with it, since running what the nearer entry replaced would be a surprise.
///
/// ```
/// use callboard::load::{LoadOptions, load};
///
/// let loaded = load(&LoadOptions { cwd: "/nowhere".into(), ..LoadOptions::default() });
/// assert!(loaded.entries.is_empty() && loaded.problems.is_empty());
/// assert!(!loaded.places[0].found);
/// ```
pub fn load(options: &LoadOptions) -> Loaded {
    load_by(options, read)
}

/// Reads it all once more, after it came to `before`. A pipe is not opened: it has been read, and opening it would
/// wait for somebody who writes. A file that had servers and is empty now is most likely being written.
pub(crate) fn load_again(options: &LoadOptions, before: &Loaded) -> Loaded {
    let had_servers = |path: &Path| {
        let name = path.display().to_string();
        before.lines.keys().any(|(file, _)| *file == name)
    };
    load_by(options, |path| match is_pipe(path) {
        true => Err(FileError::Pipe),
        false => match read(path)? {
            Some(bytes) if bytes.trim_ascii().is_empty() && had_servers(path) => Err(FileError::Emptied),
            bytes => Ok(bytes),
        },
    })
}

fn load_by(options: &LoadOptions, read: impl Fn(&Path) -> Result<Option<Vec<u8>>, FileError>) -> Loaded {
    let mut reader = Reader::new(options);
    for mut place in places::places(options) {
        match read(&place.path) {
            Ok(None) if options.config_files.is_empty() => {}
            Ok(None) => reader.problems.push(FileError::Missing.problem(&place.path)),
            Ok(Some(bytes)) => {
                place.found = true;
                reader.take(&place, &bytes);
            }
            Err(error) => {
                place.found = true;
                reader.problems.push(error.problem(&place.path));
            }
        }
        reader.places.push(place);
    }
    reader.finish()
}

/// The bytes of a file; none when it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let reader: Box<dyn Read> = match path.as_os_str() == STANDARD_INPUT {
        true => Box::new(std::io::stdin()),
        false => match std::fs::File::open(path) {
            Ok(file) => Box::new(file),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(FileError::Unreadable(error.to_string())),
        },
    };
    let mut bytes = Vec::new();
    let length = reader
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::Unreadable(error.to_string()))?;
    match length as u64 > FILE_BYTES_MAX {
        true => Err(FileError::TooLarge { bytes_max: FILE_BYTES_MAX }),
        false => Ok(Some(bytes)),
    }
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|about| about.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_path: &Path) -> bool {
    false
}

/// What became of the first entry of a name.
enum Holder {
    Good,
    Refused(PathBuf),
}

/// Gathers what the files hold, nearest first.
struct Reader<'a> {
    options: &'a LoadOptions,
    entries: Vec<ServerSpec>,
    holders: BTreeMap<String, Holder>,
    layers: Vec<settings::Layer>,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
    places: Vec<Place>,
    lines: BTreeMap<(String, String), usize>,
}

impl<'a> Reader<'a> {
    fn new(options: &'a LoadOptions) -> Reader<'a> {
        Reader {
            options,
            entries: Vec::new(),
            holders: BTreeMap::new(),
            layers: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            places: Vec::new(),
            lines: BTreeMap::new(),
        }
    }

    fn take(&mut self, place: &Place, bytes: &[u8]) {
        let language = Language::of(&place.path);
        if let Err(error) =
            raw::parse(bytes, language).and_then(|parsed| self.take_parsed(place, language, &parsed))
        {
            self.problems.push(error.problem(&place.path));
        }
    }

    fn take_parsed(&mut self, place: &Place, language: Language, parsed: &Parsed) -> Result<(), FileError> {
        for duplicate in &parsed.duplicates {
            let raw::Duplicate { key, first_line, line } = duplicate.clone();
            let oddity = Oddity::DuplicateKey { key, first_line, line };
            self.warnings.push(oddity.warning(Some(&place.path), Some(line), None));
        }
        let found = container::find(&parsed.root, language);
        let key = found.as_ref().ok().and_then(|(_, key)| *key);
        if let (Language::Toml, Some(root)) = (language, parsed.root.as_map()) {
            let mut settings = settings::of_file(&place.path, root, key);
            self.problems.append(&mut settings.problems);
            self.warnings.append(&mut settings.warnings);
            self.layers.push(settings.layer);
        }
        self.take_servers(place, &parsed.root, found?.0);
        Ok(())
    }

    fn take_servers(&mut self, place: &Place, root: &Raw, servers: Servers<'_>) {
        match servers {
            Servers::Map(map) => {
                for (name, raw) in map.iter().filter(|(name, _)| !name.starts_with('$')) {
                    self.take_entry(place, name, raw);
                }
            }
            Servers::List(items) => self.take_list(place, items),
            Servers::None { nearest } => {
                let is_json_with_something = Language::of(&place.path) == Language::Json
                    && root.as_map().is_some_and(|map| !map.is_empty());
                if is_json_with_something || nearest.is_some() {
                    let oddity = Oddity::NoServers { nearest: nearest.map(str::to_owned) };
                    self.warnings.push(oddity.warning(Some(&place.path), None, None));
                }
            }
        }
    }

    fn take_list(&mut self, place: &Place, items: &[Raw]) {
        let mut names = std::collections::BTreeSet::new();
        for (index, raw) in items.iter().enumerate() {
            let name = raw.as_map().map(|map| map.get("name").and_then(Raw::as_text));
            let error = match name {
                None => EntryError::NotAnObject { found: raw.type_name() },
                Some(None | Some("")) => EntryError::MissingName { index },
                Some(Some(name)) if !names.insert(name) => {
                    self.problems.push(EntryError::DuplicateName.problem(&place.path, raw.line, Some(name)));
                    continue;
                }
                Some(Some(name)) => {
                    self.take_entry(place, name, raw);
                    continue;
                }
            };
            self.problems.push(error.problem(&place.path, raw.line, None));
        }
    }

    fn take_entry(&mut self, place: &Place, name: &str, raw: &Raw) {
        let source = Source {
            file: Some(place.path.to_string_lossy().into_owned()),
            dialect: place.dialect.as_str().to_owned(),
            plugin: None,
        };
        let is_file = place.path.as_os_str() != STANDARD_INPUT;
        let folder = place.path.parent().filter(|_| is_file).unwrap_or(&self.options.cwd);
        let world = entry::World { env: &self.options.env, folder, scope: place.scope, source: &source };
        let (result, oddities) = entry::read(name, raw, world);
        let warning = |oddity: &Oddity| oddity.warning(Some(&place.path), Some(raw.line), Some(name));
        self.warnings.extend(oddities.iter().map(warning));
        let holder = self.holders.get(name);
        match (result, holder) {
            (Ok(_), Some(Holder::Refused(by))) => {
                let by = by.display().to_string();
                self.warnings.push(warning(&Oddity::BehindRefused { by }));
            }
            (Ok(spec), holder) => {
                if holder.is_none() {
                    self.holders.insert(name.to_owned(), Holder::Good);
                }
                if let Some(file) = spec.source.file.clone() {
                    self.lines.insert((file, name.to_owned()), raw.line);
                }
                self.entries.push(spec);
            }
            // A nearer entry has the name, so that this one would not have counted anyway.
            (Err(error), Some(_)) => {
                let Problem { file, line, entry, code, message, hint: _ } =
                    error.problem(&place.path, raw.line, Some(name));
                self.warnings.push(Warning { file, line, entry, code, message });
            }
            (Err(error), None) => {
                self.holders.insert(name.to_owned(), Holder::Refused(place.path.clone()));
                self.problems.push(error.problem(&place.path, raw.line, Some(name)));
            }
        }
    }

    fn finish(mut self) -> Loaded {
        let mut variables = settings::of_variables(&self.options.env);
        self.problems.append(&mut variables.problems);
        self.warnings.append(&mut variables.warnings);
        // The first file counts most, and variables before all files.
        let layers = self.layers.into_iter().rev().chain([variables.layer]);
        let settings::Merged { settings, origins, texts } = settings::merge(layers);
        Loaded {
            entries: self.entries,
            settings,
            setting_origins: origins,
            setting_texts: texts,
            problems: self.problems,
            warnings: self.warnings,
            places: self.places,
            lines: self.lines,
            project_folder: places::project_folder(&self.options.cwd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts that come near to files: pieces of real ones in any order.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "\n",
            "=",
            "${",
            ":-",
            "//",
            "/*",
            "\"mcpServers\"",
            "\"servers\"",
            "\"a\"",
            "\"command\"",
            "\"args\"",
            "\"env\"",
            "\"url\"",
            "\"http://h/x?k=v\"",
            "\"type\"",
            "7",
            "true",
            "null",
            "\u{feff}",
            "é",
            "[servers.a]\n",
            "command = 'x'\n",
            "connect.timeout_ms = 1\n",
            "'",
            "mcp",
            "{\"a\": {\"command\": \"x\", \"args\": [\"--token\", \"y=z: ",
            "\"]}}",
            "\\u",
            "\\ud800",
        ]);
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat().into_bytes())
    }

    fn never_panics(bytes: &[u8]) {
        let options = LoadOptions { cwd: "/w".into(), ..LoadOptions::default() };
        for path in ["/w/.mcp.json", "/w/callboard.toml"] {
            let mut reader = Reader::new(&options);
            let place =
                Place { path: path.into(), scope: Scope::User, dialect: Dialect::Generic, found: true };
            reader.take(&place, bytes);
            let loaded = reader.finish();
            loaded.entries.iter().for_each(|spec| drop(describe::spec_json(spec)));
            loaded.problems.iter().for_each(|problem| assert!(!problem.hint.is_empty(), "{problem}"));
        }
    }

    proptest! {
        #[test]
        fn loading_never_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            never_panics(&bytes);
        }

        #[test]
        fn loading_never_panics_on_near_files(bytes in pieces()) {
            never_panics(&bytes);
        }
    }
}
