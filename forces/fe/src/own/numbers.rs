//! Instance numbers of sections that an operator names: ports, and the sections of FPF.

use std::collections::{BTreeMap, BTreeSet};

use weir_lfb::Plan;
use weir_lfb::named::Named;

/// Names by instance number, for each kind of section. A number is never reused for another name.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers(BTreeMap<Named, Numbered>);

#[derive(Clone, Debug, Default)]
struct Numbered {
    names: BTreeMap<u32, String>,
    /// Highest number used so far.
    highest: u32,
}

/// An empty map for kinds without instances.
static NONE: BTreeMap<u32, String> = BTreeMap::new();

impl Numbers {
    /// Names by instance number.
    pub(super) fn names(&self, kind: Named) -> &BTreeMap<u32, String> {
        self.0.get(&kind).map_or(&NONE, |of_kind| &of_kind.names)
    }

    pub(super) fn insert(&mut self, kind: Named, number: u32, name: String) {
        self.0.entry(kind).or_default().names.insert(number, name);
    }

    pub(super) fn remove(&mut self, kind: Named, number: u32) -> Option<String> {
        self.0.get_mut(&kind)?.names.remove(&number)
    }

    /// Adapts to the running configuration: removes the numbers of deleted sections, and assigns numbers to new
    /// sections.
    pub(super) fn follow(&mut self, plan: &Plan) {
        for kind in Named::ALL {
            let names = plan.names(kind);
            self.0.entry(kind).or_default().follow(&names);
        }
    }
}

impl Numbered {
    fn follow(&mut self, names: &[&str]) {
        let mut new: BTreeSet<&str> = names.iter().copied().collect();
        self.names.retain(|_, name| new.remove(&**name));
        let highest = self.names.last_key_value().map_or(0, |(number, _)| *number);
        self.highest = self.highest.max(highest); // a CE also assigns numbers
        for name in names.iter().filter(|name| new.contains(*name)) {
            self.highest = self.highest.saturating_add(1);
            self.names.insert(self.highest, (*name).to_owned());
        }
    }
}
