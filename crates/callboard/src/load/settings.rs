//! Settings from files and variables, in layers (behaviour profile §0): default, file, variable.

use super::finding::{Oddity, Problem, Warning, setting_problem};
use super::nearest::nearest;
use super::raw::{Raw, RawKind, RawMap};
use callboard_core::settings::{SettingError, Settings};
use config::{Config, ConfigError, Map, Source, Value, ValueKind};
use std::collections::BTreeMap;
use std::path::Path;

/// What all variables of ours begin with.
const PREFIX: &str = "CALLBOARD_";

/// Values of one place that have the right form, ready to be merged.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer {
    values: Vec<(String, String, String)>,
}

impl Layer {
    fn add(&mut self, key: &str, text: String, origin: String) {
        self.values.push((key.to_owned(), text, origin));
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        let value =
            |text: &String, origin: &String| Value::new(Some(origin), ValueKind::String(text.clone()));
        Ok(self.values.iter().map(|(key, text, origin)| (key.clone(), value(text, origin))).collect())
    }
}

/// What a place of settings was found to hold.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) layer: Layer,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Warning>,
}

/// The settings of a file: its tables but the one that holds servers.
pub(super) fn of_file(file: &Path, root: &RawMap, container: Option<&str>) -> Found {
    let mut found = Found::default();
    for (key, raw) in root.iter().filter(|(key, _)| Some(key.as_str()) != container) {
        walk(file, key.clone(), raw, &mut found);
    }
    found
}

fn walk(file: &Path, key: String, raw: &Raw, found: &mut Found) {
    let is_known = Settings::KEYS.contains(&key.as_str());
    match &raw.kind {
        RawKind::Map(map) if !is_known && !map.is_empty() => {
            for (name, raw) in map {
                walk(file, format!("{key}.{name}"), raw, found);
            }
        }
        _ if !is_known => {
            let nearest = nearest(&key, Settings::KEYS.iter().copied()).map(str::to_owned);
            let oddity = Oddity::UnknownSetting { key, nearest };
            found.warnings.push(oddity.warning(Some(file), Some(raw.line), None));
        }
        _ => match accepted(&key, &text_of(raw)) {
            Ok(text) => found.layer.add(&key, text, format!("{}:{}", file.display(), raw.line)),
            Err(error) => found.problems.push(setting_problem(&error, Some((file, raw.line)), None)),
        },
    }
}

/// The settings of the environment. A variable of ours that is nearly one of these gets a warning.
pub(super) fn of_variables(env: &BTreeMap<String, String>) -> Found {
    let mut found = Found::default();
    let known: BTreeMap<String, &str> = Settings::KEYS.iter().map(|key| (variable(key), *key)).collect();
    for (name, text) in env.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        match known.get(name) {
            Some(key) => match accepted(key, text) {
                Ok(text) => found.layer.add(key, text, name.clone()),
                Err(error) => found.problems.push(setting_problem(&error, None, Some(name))),
            },
            None => {
                if let Some(nearest) = misspelt(name, &known) {
                    let oddity =
                        Oddity::UnknownSetting { key: name.clone(), nearest: Some(nearest.to_owned()) };
                    found.warnings.push(oddity.warning(None, None, None));
                }
            }
        }
    }
    found
}

/// The variable of a key.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.to_ascii_uppercase().replace('.', "_"))
}

/// The variable that an unknown one was meant for. A distance of two at most: the hosts that we start and that
/// start us have variables with our prefix too.
fn misspelt<'a>(name: &str, known: &'a BTreeMap<String, &str>) -> Option<&'a str> {
    nearest(name, known.keys().map(String::as_str)).filter(|known| strsim::osa_distance(name, known) <= 2)
}

/// The text, when it has the form of the key's type.
fn accepted(key: &str, text: &str) -> Result<String, SettingError> {
    Settings::default().set(key, text).map(|()| text.to_owned())
}

/// A value as the text that [`Settings::set`] reads. What no setting can be becomes a text that none accepts.
fn text_of(raw: &Raw) -> String {
    match &raw.kind {
        RawKind::Text(text) | RawKind::Number(text) | RawKind::Date(text) => text.clone(),
        RawKind::Bool(truth) => truth.to_string(),
        RawKind::List(items) => match items.iter().map(Raw::as_text).collect::<Option<Vec<&str>>>() {
            Some(texts) => serde_json::Value::from(texts).to_string(),
            None => "[…]".to_owned(),
        },
        RawKind::Null | RawKind::Map(_) => format!("[{}]", raw.type_name()),
    }
}

/// Settings, and what they were made of.
#[derive(Default)]
pub(super) struct Merged {
    pub(super) settings: Settings,
    /// Where each value that is not a default came from.
    pub(super) origins: BTreeMap<&'static str, String>,
    /// The text of each such value.
    pub(super) texts: BTreeMap<&'static str, String>,
}

/// Merges the layers, the last of which counts most.
pub(super) fn merge(layers: impl IntoIterator<Item = Layer>) -> Merged {
    let builder = layers.into_iter().fold(Config::builder(), |builder, layer| builder.add_source(layer));
    let mut made = Merged::default();
    // A layer's `collect` never fails and keys are paths by construction.
    let Ok(merged) = builder.build() else { return made };
    for &key in Settings::KEYS {
        let Some(value) = value_at(&merged.cache, key) else { continue };
        let text = value.clone().into_string().unwrap_or_default();
        let accepted = made.settings.set(key, &text).is_ok();
        debug_assert!(accepted, "{key} was checked in its layer");
        made.origins.insert(key, value.origin().unwrap_or_default().to_owned());
        made.texts.insert(key, text.trim().to_owned());
    }
    made
}

/// The value under a dotted key. The tree is walked by hand because reading through serde drops the origin.
fn value_at<'a>(tree: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.').try_fold(tree, |value, part| match &value.kind {
        ValueKind::Table(table) => table.get(part),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::raw::{Language, parse};
    use std::time::Duration;

    fn file(text: &str) -> Found {
        let parsed = parse(text.as_bytes(), Language::Toml).expect("parses");
        of_file(Path::new("c.toml"), parsed.root.as_map().expect("a table"), Some("servers"))
    }

    fn env(pairs: &[(&str, &str)]) -> Found {
        of_variables(&pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn a_variable_beats_a_file_and_a_file_the_default() {
        let text = "[connect]\ntimeout_ms = 1000\nlocal_max = 0x4\n[stdio]\nprefix = ['a b', 'c']\n\
                    [reconnect]\nbackoff_factor = 1.5\nstdio = false\n[startup]\nmode = 'background'\n\
                    [servers.X]\ncommand = 'x'";
        let found = file(text);
        assert_eq!((found.problems, found.warnings), (vec![], vec![]));
        let variables = env(&[("CALLBOARD_CONNECT_TIMEOUT_MS", " 5 "), ("CALLBOARD_RECONNECT_STDIO", "1")]);
        let Merged { settings, origins, texts } = merge([found.layer, variables.layer]);
        assert_eq!(settings.connect_timeout, Duration::from_millis(5));
        assert_eq!(settings.connect_local_max, 4);
        assert_eq!(settings.stdio_prefix, ["a b", "c"]);
        assert_eq!((settings.reconnect_backoff_factor, settings.reconnect_stdio), (1.5, true));
        assert_eq!(settings.startup_mode, callboard_core::settings::StartupMode::Background);
        assert_eq!(settings.http_posts_max, Settings::default().http_posts_max);
        assert_eq!(origins["connect.timeout_ms"], "CALLBOARD_CONNECT_TIMEOUT_MS");
        assert_eq!(origins["connect.local_max"], "c.toml:3");
        assert_eq!((origins.len(), texts.len()), (6, 6));
        assert_eq!((&*texts["connect.timeout_ms"], &*texts["reconnect.backoff_factor"]), ("5", "1.5"));
    }

    #[test]
    fn every_key_has_its_variable() {
        for key in Settings::KEYS {
            let found = env(&[(&variable(key), "not a value of any kind")]);
            // Any words can stand before a command.
            let is_list = *key == "stdio.prefix";
            assert_eq!(found.problems.len(), usize::from(!is_list), "{key}");
        }
    }

    #[test]
    fn a_wrong_value_is_named_with_its_place_and_leaves_the_rest() {
        let found = file("[connect]\ntimeout_ms = '1s'\nlocal_max = -1\nremote_max = [1]\nretries_max = 2");
        let shown: Vec<String> = found.problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            shown,
            [
                r#"c.toml:2: connect.timeout_ms: "1s" is not a whole number of milliseconds"#,
                r#"c.toml:3: connect.local_max: "-1" is not a whole number"#,
                r#"c.toml:4: connect.remote_max: "[…]" is not a whole number"#,
            ]
        );
        assert_eq!(merge([found.layer]).settings.connect_retries_max, 2);
        let found = env(&[("CALLBOARD_CONNECT_TIMEOUT_MS", "")]);
        assert_eq!(
            found.problems[0].to_string(),
            r#"CALLBOARD_CONNECT_TIMEOUT_MS: connect.timeout_ms: "" is not a whole number of milliseconds"#
        );
        assert_eq!(
            found.problems[0].hint,
            "give it a whole number of milliseconds, or leave it out for the default"
        );
        assert_eq!(merge([found.layer]).settings, Settings::default());
    }

    #[test]
    fn a_misspelt_key_or_variable_gets_a_warning() {
        let found = file("colour = 1\n[connect]\ntimout_ms = 1\n[conect]");
        let shown: Vec<String> = found.warnings.iter().map(Warning::to_string).collect();
        assert_eq!(
            shown,
            [
                "c.toml:1: there is no setting colour",
                "c.toml:3: there is no setting connect.timout_ms; did you mean connect.timeout_ms?",
                "c.toml:4: there is no setting conect",
            ]
        );
        let found =
            env(&[("CALLBOARD_CONECT_TIMEOUT_MS", "1"), ("CALLBOARD_CONFIG", "x"), ("CALLBOARD", "1")]);
        assert_eq!(
            found.warnings[0].message,
            "there is no setting CALLBOARD_CONECT_TIMEOUT_MS; did you mean CALLBOARD_CONNECT_TIMEOUT_MS?"
        );
        assert_eq!(found.warnings.len(), 1);
    }
}
