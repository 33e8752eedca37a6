//! The one door: which of all configured entries may be dialed.

use crate::spec::{ServerName, ServerSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Permission to dial one server. Only [`admit`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    spec: Arc<ServerSpec>,
}

impl Admitted {
    /// What may be dialed.
    pub fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    /// Its name.
    pub fn name(&self) -> &ServerName {
        &self.spec.name
    }
}

/// An entry that lost its name to one of a nearer scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowed {
    /// The entry that lost.
    pub loser: Arc<ServerSpec>,
    /// The entry that has the name.
    pub winner: Arc<ServerSpec>,
}

/// An entry that has its name but is not dialed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The entry.
    pub spec: Arc<ServerSpec>,
    /// Why, in words.
    pub reason: String,
}

/// What came of all entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    /// May be dialed, by name.
    pub admitted: Vec<Admitted>,
    /// Switched off by their own entry.
    pub disabled: Vec<LeftOut>,
    /// Lost their name.
    pub shadowed: Vec<Shadowed>,
}

/// Decides which entries may exist. For one name the nearest scope wins as a whole entry, and within a scope
/// the entry that comes first (behaviour profile S1, S2).
pub fn admit(entries: impl IntoIterator<Item = ServerSpec>) -> Admission {
    let mut admission = Admission::default();
    let mut winners: BTreeMap<ServerName, Arc<ServerSpec>> = BTreeMap::new();
    for entry in entries {
        let entry = Arc::new(entry);
        match winners.get_mut(&entry.name) {
            None => {
                winners.insert(entry.name.clone(), entry);
            }
            Some(holder) if entry.scope < holder.scope => {
                let loser = std::mem::replace(holder, entry.clone());
                admission.shadowed.push(Shadowed { loser, winner: entry });
            }
            Some(holder) => admission.shadowed.push(Shadowed { loser: entry, winner: holder.clone() }),
        }
    }
    for spec in winners.into_values() {
        match spec.enabled {
            true => admission.admitted.push(Admitted { spec }),
            false => admission.disabled.push(LeftOut { spec, reason: "switched off by its entry".into() }),
        }
    }
    admission
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Scope;

    fn entry(name: &str, scope: Scope, command: &str) -> ServerSpec {
        ServerSpec { scope, ..ServerSpec::stdio(name, command, [""; 0]) }
    }

    #[test]
    fn the_nearest_scope_wins_in_any_order() {
        let near = entry("a", Scope::Local, "near");
        let far = entry("a", Scope::User, "far");
        for entries in [vec![near.clone(), far.clone()], vec![far.clone(), near.clone()]] {
            let admission = admit(entries);
            assert_eq!(admission.admitted[0].spec(), &near);
            assert_eq!(*admission.shadowed[0].loser, far);
        }
    }

    #[test]
    fn a_disabled_winner_is_not_dialed_and_hides_the_other() {
        let off = ServerSpec { enabled: false, ..entry("a", Scope::Local, "x") };
        let admission = admit([off, entry("a", Scope::User, "y")]);
        assert!(admission.admitted.is_empty());
        assert_eq!((admission.disabled.len(), admission.shadowed.len()), (1, 1));
    }
}
