//! The one door: which of all configured entries may be dialed.

use crate::spec::{Scope, ServerName, ServerSpec, TransportKinds};
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
    /// Not allowed by a rule.
    pub refused: Vec<LeftOut>,
    /// Lost their name.
    pub shadowed: Vec<Shadowed>,
}

/// Rules that hold for every entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmissionRules {
    /// Which kinds of transport may be dialed (`transport.allow`).
    pub transports: TransportKinds,
}

/// [`admit_by`] with the default rules.
pub fn admit(entries: impl IntoIterator<Item = ServerSpec>) -> Admission {
    admit_by(entries, &AdmissionRules::default())
}

/// Decides which entries may exist. For one name the nearest scope wins as a whole entry, and within a scope
/// the entry that comes first (behaviour profile S1, S2). An entry that a rule refuses keeps its name: nothing
/// farther away comes in its place.
pub fn admit_by(entries: impl IntoIterator<Item = ServerSpec>, rules: &AdmissionRules) -> Admission {
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
        let refusal = refusal(&spec, rules);
        match (spec.enabled, refusal) {
            (false, _) => {
                admission.disabled.push(LeftOut { spec, reason: "switched off by its entry".into() });
            }
            (true, Some(reason)) => admission.refused.push(LeftOut { spec, reason }),
            (true, None) => admission.admitted.push(Admitted { spec }),
        }
    }
    admission
}

/// Why an entry may not be dialed.
fn refusal(spec: &ServerSpec, rules: &AdmissionRules) -> Option<String> {
    let kind = spec.transport.kind();
    if spec.transport.is_dynamic_only() && spec.scope != Scope::Dynamic {
        let scope = spec.scope.as_str();
        return Some(format!("transport {kind} comes from the dynamic scope alone, not from scope {scope}"));
    }
    let is_allowed = rules.transports.contains(kind);
    (!is_allowed).then(|| format!("transport {kind} is not among those allowed by transport.allow"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{HttpSpec, RemoteKind, TransportSpec};

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

    fn remote(kind: RemoteKind, scope: Scope) -> ServerSpec {
        let http = HttpSpec { url: "ws://127.0.0.1:1/".into(), kind, ..HttpSpec::default() };
        ServerSpec { scope, ..ServerSpec::new("a", TransportSpec::Http(http)) }
    }

    #[test]
    fn handles_to_running_things_come_from_the_dynamic_scope_alone() {
        for kind in [RemoteKind::SseIde, RemoteKind::WebSocketIde] {
            assert_eq!(admit([remote(kind, Scope::Dynamic)]).admitted.len(), 1);
            let admission = admit([remote(kind, Scope::User)]);
            assert!(admission.admitted.is_empty());
            assert!(admission.refused[0].reason.contains("not from scope user"), "{admission:?}");
        }
        let sdk = ServerSpec { scope: Scope::Project, ..ServerSpec::in_process("a", "a") };
        assert_eq!(admit([sdk]).refused.len(), 1);
        assert_eq!(admit([remote(RemoteKind::WebSocket, Scope::Project)]).admitted.len(), 1);
    }

    #[test]
    fn a_kind_that_is_not_allowed_keeps_its_name_and_is_not_dialed() {
        let transports = TransportKinds::of_words(["stdio", "ws-ide"]).expect("kinds");
        let rules = AdmissionRules { transports };
        let admission =
            admit_by([remote(RemoteKind::Sse, Scope::Local), entry("a", Scope::User, "x")], &rules);
        assert!(admission.admitted.is_empty());
        assert_eq!(
            admission.refused[0].reason,
            "transport sse is not among those allowed by transport.allow"
        );
        assert_eq!(admit_by([entry("a", Scope::User, "x")], &rules).admitted.len(), 1);
        assert_eq!(admit_by([remote(RemoteKind::WebSocketIde, Scope::Dynamic)], &rules).admitted.len(), 1);
        assert_eq!(TransportKinds::of_words(["stdio", "carrier-pigeon"]), None);
    }
}
