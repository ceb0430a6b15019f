//! The numbers of instances that an operator names: ports, and the sections of FPF.

use std::collections::{BTreeMap, BTreeSet};

use weir_lfb::Plan;
use weir_lfb::named::Named;

/// Names by the numbers of their instances, for each kind. A number is given once.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers(BTreeMap<Named, Numbered>);

#[derive(Clone, Debug, Default)]
struct Numbered {
    names: BTreeMap<u32, String>,
    /// The highest number that one has had.
    highest: u32,
}

/// No instances.
static NONE: BTreeMap<u32, String> = BTreeMap::new();

impl Numbers {
    /// Names by their numbers.
    pub(super) fn names(&self, kind: Named) -> &BTreeMap<u32, String> {
        self.0.get(&kind).map_or(&NONE, |of_kind| &of_kind.names)
    }

    pub(super) fn insert(&mut self, kind: Named, number: u32, name: String) {
        self.0.entry(kind).or_default().names.insert(number, name);
    }

    pub(super) fn remove(&mut self, kind: Named, number: u32) -> Option<String> {
        self.0.get_mut(&kind)?.names.remove(&number)
    }

    /// Follows the configuration in force: what is gone loses its number, what is new gets one.
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
        self.highest = self.highest.max(highest); // a CE chooses numbers, too
        for name in names.iter().filter(|name| new.contains(*name)) {
            self.highest = self.highest.saturating_add(1);
            self.names.insert(self.highest, (*name).to_owned());
        }
    }
}
