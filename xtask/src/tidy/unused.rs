//! Dependencies that a package declares and never names.

use super::Finding;
use super::edges::Package;
use std::collections::{BTreeMap, BTreeSet};

/// The words in the sources of each package.
#[derive(Default)]
pub(super) struct Words(BTreeMap<String, BTreeSet<String>>);

impl Words {
    /// Takes the words of one source file of a package.
    pub(super) fn read(&mut self, package: &str, text: &str) {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned);
        self.0.entry(package.to_owned()).or_default().extend(words);
    }

    /// The dependencies of the package whose names are none of its words.
    pub(super) fn unused(&self, package: &Package) -> Vec<Finding> {
        let is_named = |word: &str| self.0.get(&package.name).is_some_and(|words| words.contains(word));
        let names = package
            .dependencies
            .iter()
            .map(|dependency| dependency.rename.as_ref().unwrap_or(&dependency.name));
        let unused = names.filter(|name| !is_named(&name.replace('-', "_")));
        unused
            .map(|name| Finding::fails(&package.name, format!("depends on {name} and does not use it")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::edges;
    use super::*;

    #[test]
    fn what_is_named_nowhere_is_found() {
        let metadata = r#"{"packages":[{"name":"a","manifest_path":"/a/Cargo.toml","dependencies":[
            {"name":"serde-json"},{"name":"tokio"},{"name":"old","rename":"new"}]}]}"#;
        let packages = edges::workspace(metadata).expect("reads");
        let mut words = Words::default();
        words.read("a", "use serde_json::Value; let tokio_like = new::value();");
        let said: Vec<String> =
            words.unused(&packages[0]).into_iter().map(|finding| finding.message).collect();
        assert_eq!(said, ["depends on tokio and does not use it"]);
    }
}
