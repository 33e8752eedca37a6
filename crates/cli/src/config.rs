//! The configuration of this run, as the commands look at it.

use crate::output::{CliError, Exit, Screen, Scrubber, nearest};
use callboard::load::describe::problem_json;
use callboard::load::{LoadOptions, Loaded, Place, Problem, Warning, load};
use callboard::{Admission, AdmissionRules, ServerSpec, Settings};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The setting of how often a first connect to a remote server is tried again.
const CONNECT_RETRIES_MAX: &str = "connect.retries_max";
/// Its default in a command that ends after its answer: a person waits, and can run it again.
const ONE_SHOT_RETRIES: usize = 1;

/// Entries, settings, and all that is to be said of them.
pub(crate) struct Config {
    /// Which entry has which name.
    pub(crate) admission: Admission,
    /// Numbers and switches.
    pub(crate) settings: Settings,
    /// The text of each setting that was set, as it was set: without what a command changes for itself.
    pub(crate) setting_texts: BTreeMap<&'static str, String>,
    /// Files, entries and settings that do not count.
    pub(crate) problems: Vec<Problem>,
    /// Oddities.
    pub(crate) warnings: Vec<Warning>,
    /// Every place looked at.
    pub(crate) places: Vec<Place>,
    /// The line at which each entry begins, by file and name.
    pub(crate) lines: BTreeMap<(String, String), usize>,
    /// The root of the repository, or the folder itself.
    pub(crate) project_folder: PathBuf,
    /// Knows the secrets of all entries.
    pub(crate) scrubber: Scrubber,
}

impl Config {
    /// Reads the files that the surroundings lead to.
    pub(crate) fn load(surroundings: &LoadOptions) -> Config {
        Config::of(load(surroundings))
    }

    /// What was loaded, as the commands look at it.
    pub(crate) fn of(loaded: Loaded) -> Config {
        let scrubber = Scrubber::default();
        loaded.entries.iter().for_each(|entry| scrubber.learn(entry));
        let mut settings = loaded.settings;
        if !loaded.setting_origins.contains_key(CONNECT_RETRIES_MAX) {
            settings.connect_retries_max = ONE_SHOT_RETRIES;
        }
        let rules = AdmissionRules { transports: settings.transport_allow.clone() };
        Config {
            admission: callboard::admit_by(loaded.entries, &rules),
            settings,
            setting_texts: loaded.setting_texts,
            problems: loaded.problems,
            warnings: loaded.warnings,
            places: loaded.places,
            lines: loaded.lines,
            project_folder: loaded.project_folder,
            scrubber,
        }
    }

    /// The servers that may be connected, by name; none starts by itself.
    pub(crate) fn servers(&self) -> Vec<ServerSpec> {
        self.admission.admitted.iter().map(|admitted| at_rest(admitted.spec())).collect()
    }

    /// All entries that have their name: admitted and switched off ones, by name.
    pub(crate) fn entries(&self) -> Vec<&ServerSpec> {
        let admitted = self.admission.admitted.iter().map(callboard::Admitted::spec);
        let mut entries: Vec<&ServerSpec> =
            admitted.chain(self.admission.disabled.iter().map(|left_out| &*left_out.spec)).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// The entry of this name, switched on or not.
    ///
    /// # Errors
    /// When there is none; names the nearest, or what is wrong with the entry.
    pub(crate) fn entry(&self, name: &str) -> Result<&ServerSpec, CliError> {
        let found = self.entries().into_iter().find(|entry| entry.name.as_str() == name);
        found.ok_or_else(|| self.unknown(name))
    }

    /// The server of this name, ready to be given to a board.
    ///
    /// # Errors
    /// When there is none, or its entry is switched off.
    pub(crate) fn server(&self, name: &str) -> Result<ServerSpec, CliError> {
        let entry = self.entry(name)?;
        match entry.enabled {
            true => Ok(at_rest(entry)),
            false => Err(CliError::usage(format!("server {name} is switched off by its entry"))
                .server(name)
                .hint("take \"disabled\" out of the entry, or set \"enabled\" to true")),
        }
    }

    fn unknown(&self, name: &str) -> CliError {
        if let Some(refused) = self.admission.refused.iter().find(|one| one.spec.name.as_str() == name) {
            return CliError::new(Exit::Config, "refused", format!("server {name}: {}", refused.reason))
                .server(name)
                .hint("`callboard config show` says what each entry came to");
        }
        if let Some(problem) = self.problems.iter().find(|problem| problem.entry.as_deref() == Some(name)) {
            return CliError::new(Exit::Config, problem.code, problem.to_string())
                .server(name)
                .hint(&problem.hint);
        }
        let names: Vec<&str> = self.entries().into_iter().map(|entry| entry.name.as_str()).collect();
        if names.is_empty() {
            return self.nothing();
        }
        let error = CliError::new(Exit::Usage, "unknown-server", format!("there is no server {name:?}"));
        match nearest(name, names.iter().copied()) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint(format!("there are: {}", names.join(", "))),
        }
    }

    /// The error where a server is needed and there is none at all.
    pub(crate) fn nothing(&self) -> CliError {
        match self.problems.first() {
            Some(problem) => {
                CliError::new(Exit::Config, problem.code, problem.to_string()).hint(&problem.hint)
            }
            None => CliError::new(Exit::Usage, "no-servers", "no servers are configured").hint(
                "`callboard config paths` shows where they are looked for; `callboard demo` needs none",
            ),
        }
    }

    /// Nothing is configured, which is fine, or something is, and be it one good entry.
    ///
    /// # Errors
    /// When there would be servers if the configuration were right.
    pub(crate) fn something(&self) -> Result<(), CliError> {
        match self.entries().is_empty() && !self.problems.is_empty() {
            true => Err(self.nothing()),
            false => Ok(()),
        }
    }

    /// Warns people of what does not count.
    pub(crate) fn warn(&self, screen: &Screen) {
        for problem in &self.problems {
            screen.warn(&self.scrubber.clean(&problem.to_string()));
        }
    }

    /// The problems in JSON.
    pub(crate) fn problems_json(&self) -> Vec<Value> {
        self.problems.iter().map(problem_json).collect()
    }
}

/// Commands say themselves which servers they connect.
fn at_rest(spec: &ServerSpec) -> ServerSpec {
    let mut spec = spec.clone();
    spec.options.always_load = false;
    spec.options.required = false;
    spec
}
