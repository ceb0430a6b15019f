//! Desired state of an FE: the configuration components that the CE wants, and the handling of all other components.
//!
//! ```text
//!   file of the CE ---+
//!                     +--> Desired --target(running)--> target plan of the FE
//!   operators --------+
//! ```
//!
//! A component that nobody has set stays as the FE has it. A deletion is a part of the desired state too: a deleted
//! component must have its default, and a deleted port, or other named section, must not exist. A component that is set
//! below a deleted section or discipline belongs to a new one, whose other components have their defaults.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::setting::Scalar;
use weir_lfb::Plan;
use weir_lfb::named::{Instance, Named};
use weir_lfb::queue::KIND_DEFAULT;
use weir_model::{Change, ComponentPath, Fault, Operation};

/// The desired state at one path of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum DesiredValue {
    /// The component has this value.
    Is(Scalar),
    /// The port, or other named section, exists.
    Exists,
    /// The component has its default. A named section does not exist, unless desired values for its components exist,
    /// which then belong to a new section.
    Default,
}

/// A change to the desired state: a path with its new desired value, or `None` to remove it.
pub type Record = (ComponentPath, Option<DesiredValue>);

/// The desired state of an FE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired(BTreeMap<ComponentPath, DesiredValue>);

impl Desired {
    /// The records that these operations produce.
    pub fn records(&self, operations: &[Operation]) -> Vec<Record> {
        let mut after = self.clone();
        let mut records = BTreeMap::new();
        let mut operations: Vec<_> = operations.iter().collect();
        operations.sort_by_key(|operation| rank(operation));
        for operation in operations {
            for (path, wish) in after.step(operation) {
                after.put(&path, wish.as_ref());
                records.insert(path, wish);
            }
        }
        records.into_iter().collect()
    }

    /// Applies a record.
    pub fn put(&mut self, path: &ComponentPath, wish: Option<&DesiredValue>) {
        match wish {
            Some(wish) => self.0.insert(path.clone(), wish.clone()),
            None => self.0.remove(path),
        };
    }

    /// All desired values, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&ComponentPath, &DesiredValue)> {
        self.0.iter()
    }

    /// The FPF sections that this state defines: it sets a component that a new section needs.
    pub fn defined(&self) -> BTreeSet<ComponentPath> {
        let defined = |(path, wish): (&ComponentPath, &DesiredValue)| {
            let Instance { kind, name } = Instance::find(path)?;
            let section = kind.path(name);
            let mut needed = kind.needed().iter();
            let defines = match wish {
                DesiredValue::Is(_) => needed.any(|component| *path == section.join(component)),
                DesiredValue::Exists => true,
                DesiredValue::Default => false,
            };
            (defines && kind != Named::Port).then_some(section)
        };
        self.0.iter().filter_map(defined).collect()
    }

    /// Whether this state has a desired value at a path, or below.
    pub fn reaches(&self, path: &ComponentPath) -> bool {
        let mut wishes = self.0.keys();
        wishes.any(|wish| is_within(wish, path))
    }

    /// The records that one operation produces.
    fn step(&self, operation: &Operation) -> Vec<Record> {
        let mut records = Vec::new();
        match operation {
            Operation::Set(change) => {
                let wish = change
                    .value
                    .clone()
                    .map_or(DesiredValue::Exists, DesiredValue::Is);
                if is_kind(&change.path) && self.0.get(&change.path) != Some(&wish) {
                    records.extend(self.below(&change.path.parent()));
                }
                records.push((change.path.clone(), Some(wish)));
            }
            Operation::Delete(path) => {
                records.extend(self.below(path));
                records.push((path.clone(), Some(DesiredValue::Default)));
            }
        }
        records
    }

    /// Records that remove everything below a path.
    fn below(&self, path: &ComponentPath) -> Vec<Record> {
        let is_below = |other: &&ComponentPath| is_within(other, path) && *other != path;
        let paths = self.0.keys().filter(is_below);
        paths.map(|path| (path.clone(), None)).collect()
    }

    /// The target plan for an FE that runs `actual`. Fails if the plan breaks rules.
    pub fn target(&self, actual: &Plan) -> Result<Plan, Vec<Fault>> {
        let mut changes: Vec<Change> = actual.changes();
        changes.retain(|change| self.keeps(change, actual));
        for (path, wish) in &self.0 {
            match wish {
                DesiredValue::Is(value) => changes.push(Change::new(path.clone(), value.clone())),
                DesiredValue::Exists => changes.push(Change::block(path.clone())),
                DesiredValue::Default => {}
            }
        }
        Plan::check(&changes)
    }

    /// Whether a running component stays if it has no desired value: it is not deleted, and does not belong to a
    /// discipline that changes its kind.
    fn keeps(&self, change: &Change, actual: &Plan) -> bool {
        let gone = |path: &ComponentPath| self.0.get(path) == Some(&DesiredValue::Default);
        if gone(&change.path) || ancestors(&change.path).iter().any(gone) {
            return false;
        }
        let kind = change.path.parent().join("kind");
        let ["port", port, "discipline", "kind"] = kind.segments()[..] else {
            return true;
        };
        let in_force = actual.ports.iter().find(|p| p.name == port);
        let in_force = in_force.map(|port| port.discipline.kind());
        match self.0.get(&kind) {
            Some(DesiredValue::Is(Scalar::Text(wanted))) => in_force == Some(wanted),
            Some(DesiredValue::Default) => in_force == Some(KIND_DEFAULT),
            _ => true,
        }
    }
}

/// Sorts operations: deleted sections come first to make room for new sections, and a kind comes before its parameters.
fn rank(operation: &Operation) -> u8 {
    match operation {
        Operation::Delete(path) if is_section(path) => 0,
        operation if is_kind(operation.path()) => 1,
        _ => 2,
    }
}

/// The paths above a path, nearest first, without the root.
fn ancestors(path: &ComponentPath) -> Vec<ComponentPath> {
    let mut all = Vec::new();
    let mut above = path.parent();
    while !above.is_root() {
        all.push(above.clone());
        above = above.parent();
    }
    all
}

fn is_within(path: &ComponentPath, above: &ComponentPath) -> bool {
    path.segments().starts_with(&above.segments())
}

fn is_section(path: &ComponentPath) -> bool {
    Instance::find(path).is_some_and(|instance| instance.path() == *path)
}

fn is_kind(path: &ComponentPath) -> bool {
    matches!(path.segments()[..], ["port", _, "discipline", "kind"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ComponentPath {
        text.parse().unwrap()
    }

    fn change(at: &str, value: &str) -> Change {
        Change::new(path(at), Scalar::Text(value.to_owned()))
    }

    fn set(at: &str, value: &str) -> Operation {
        Operation::Set(change(at, value))
    }

    fn delete(at: &str) -> Operation {
        Operation::Delete(path(at))
    }

    fn actual() -> Plan {
        Plan::check(&[
            change("port.lan.interface", "eth0"),
            change("port.guest.rate", "10 Mbit"),
            change("port.guest.discipline.kind", "red"),
            change("port.guest.discipline.limit", "300"),
        ])
        .unwrap()
    }

    /// The desired components of an FE after some requests, one after the other.
    fn target(requests: &[&[Operation]], paths: &[&str]) -> Vec<String> {
        let mut desired = Desired::default();
        for operations in requests {
            for (path, wish) in desired.records(operations) {
                desired.put(&path, wish.as_ref());
            }
        }
        let shown = desired.target(&actual()).unwrap().shown();
        let value = |path: &&str| shown.get(*path).cloned().unwrap_or_default();
        paths.iter().map(value).collect()
    }

    #[test]
    fn what_nobody_has_set_stays_as_the_fe_has_it() {
        let paths = ["port.guest.rate", "port.guest.discipline.limit", "age_max"];
        let after = target(&[&[set("age_max", "2 s")]], &paths);
        assert_eq!(after, ["10 Mbit", "300", "2 s"]);
        assert_eq!(Desired::default().target(&actual()), Ok(actual()));
    }

    #[test]
    fn a_deleted_port_stays_away_until_something_is_set_there() {
        let gone: &[_] = &[delete("port.guest")];
        let paths = ["port.guest.rate", "port.guest.discipline.kind"];
        assert_eq!(target(&[gone], &paths), ["", ""]);
        let again: &[_] = &[set("port.guest.rate", "5 Mbit")];
        assert_eq!(target(&[gone, again], &paths), ["5 Mbit", "triple_fair"]);
        let both: &[_] = &[set("port.guest.rate", "5 Mbit"), delete("port.guest")];
        assert_eq!(target(&[both], &paths), ["5 Mbit", "triple_fair"]);
    }

    #[test]
    fn another_kind_of_discipline_begins_with_its_defaults() {
        let paths = ["port.guest.discipline.kind", "port.guest.discipline.limit"];
        let kind = |kind| set("port.guest.discipline.kind", kind);
        let limit = || set("port.guest.discipline.limit", "99");
        assert_eq!(target(&[&[kind("fifo")]], &paths), ["fifo", "1000"]);
        assert_eq!(target(&[&[kind("red")]], &paths), ["red", "300"]);
        assert_eq!(target(&[&[limit(), kind("fifo")]], &paths), ["fifo", "99"]);
        assert_eq!(
            target(&[&[limit()], &[kind("fifo")]], &paths),
            ["fifo", "1000"]
        );
        let all: &[_] = &[delete("port.guest.discipline")];
        assert_eq!(target(&[&[limit()], all], &paths), ["triple_fair", "4096"]);
        assert_eq!(target(&[all, &[limit()]], &paths), ["triple_fair", "99"]);
    }

    #[test]
    fn a_new_port_is_added_and_a_wrong_value_has_its_fault() {
        let added = target(
            &[&[set("port.dmz.interface", "eth7")]],
            &["port.dmz.interface"],
        );
        assert_eq!(added, ["eth7"]);
        let mut desired = Desired::default();
        let slow = path("port.guest.rate");
        desired.put(
            &slow,
            Some(&DesiredValue::Is(Scalar::Text("5 parsec".into()))),
        );
        let faults = desired.target(&actual()).unwrap_err();
        assert_eq!(faults[0].path, slow, "{faults:?}");
    }
}
