//! Replaces the FEs, or their desired values, while the CE runs.
//!
//! The result is as if the CE had started with them, except that unaffected associations continue.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::Instant;
use weir_model::Value;
use weir_protocol::wire::Id;

use super::Control;
use super::member::Fe;
use crate::contract::FeConfig;

impl Control {
    /// Replaces the FEs that may associate. Ends the associations of FEs that are not in `members`, and of those in
    /// `ended`, which must authenticate again. Values that operators have set stay: `kept` of a member counts only if
    /// the member is new.
    pub fn replace_members(&mut self, now: Instant, members: Vec<FeConfig>, ended: &BTreeSet<Id>) {
        let new: BTreeMap<Id, String> = members.iter().map(|m| (m.id, m.name.clone())).collect();
        let stays = |fe: &Fe| new.get(&fe.id) == Some(&fe.name);
        let gone = self.fes.values().filter(|fe| !stays(fe));
        let gone: BTreeSet<Id> = gone.map(|fe| fe.id).collect();
        for fe in gone.union(ended) {
            self.ce.expel(now, *fe);
        }
        self.pump(now);
        self.end_watches(&gone);
        // An FE with another ID is a new FE, but the same element of the network, with the same routing suite.
        let layers = self.fes.values_mut().filter(|fe| gone.contains(&fe.id));
        let mut layers: BTreeMap<String, _> = layers
            .map(|fe| (fe.name.clone(), (fe.network.take(), fe.learnt.take())))
            .collect();
        self.fes.retain(|id, _| !gone.contains(id));
        for member in members {
            match self.fes.get_mut(&member.id) {
                Some(fe) => {
                    fe.is_pinned = member.is_pinned;
                    fe.is_stale |= fe.wish(member.desired);
                }
                None => {
                    let (network, learnt) = layers.remove(&member.name).unwrap_or_default();
                    let (id, mut fe) = (member.id, Fe::new(member));
                    fe.learnt = learnt;
                    self.fes.insert(id, fe.of_network(network));
                }
            }
        }
        self.names = new.into_iter().map(|(id, name)| (name, id)).collect();
        self.retry(now);
        self.pump(now);
    }

    /// Ends the association and all links of an FE, which must authenticate again.
    pub fn expel(&mut self, now: Instant, fe: Id) {
        self.ce.expel(now, fe);
        self.pump(now);
    }

    /// Reports to the readers of these FEs' watches why no more notices will come.
    fn end_watches(&mut self, gone: &BTreeSet<Id>) {
        for watch in self.watches.of(gone) {
            let why = "the FE is no longer configured";
            let notice = Value::Struct(vec![("error".into(), why.into())]);
            self.tell(watch, notice);
        }
    }

    /// Restores the desired state of idle FEs whose desired configuration has changed.
    pub(super) fn restore_stale(&mut self, now: Instant) {
        let due = |fe: &&Fe| fe.is_stale && fe.is_idle() && fe.is_associated();
        let stale: Vec<Id> = self.fes.values().filter(due).map(|fe| fe.id).collect();
        for fe in stale {
            self.restore(now, fe);
        }
    }
}
