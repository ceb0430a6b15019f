//! Operations on a plan: setting and deleting. All operations take effect, or none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_base::setting::{Parameter, Scalar, unknown};
use weir_model::fault::ResultCode;
use weir_model::section::Place;
use weir_model::{Change, Class, ComponentPath, Fault, Operation};

use crate::class::disciplines;
use crate::named::{Instance, Named};
use crate::plan::Plan;
use crate::queue::{self, KIND_DEFAULT};
use crate::section;

/// The effect of a delete operation.
enum Deletion<'a> {
    /// Remove a port or another named section.
    Instance(Instance<'a>),
    /// Reset components to their defaults.
    Defaults(Vec<Change>),
}

impl Plan {
    /// The plan after some operations; all of them take effect, or none. Whatever their order, first ports and other
    /// named sections are deleted, then sections that are set without a value are added, and then the other operations
    /// take effect; of several operations on one component the last one wins.
    pub fn after(&self, operations: &[Operation]) -> Result<Self, Vec<Fault>> {
        let (mut changes, mut gone, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        let mut come = BTreeSet::new();
        for operation in operations {
            match operation {
                Operation::Set(change) => match new_instance(change) {
                    Some(instance) => _ = come.insert(instance),
                    None => changes.push(change.clone()),
                },
                Operation::Delete(path) => match self.deletion(path, operations) {
                    Ok(Deletion::Instance(instance)) => gone.push(instance),
                    Ok(Deletion::Defaults(defaults)) => changes.extend(defaults),
                    Err(fault) => faults.push(fault),
                },
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        if gone.is_empty() && come.is_empty() {
            return self.with(&changes);
        }
        let mut kept = self.clone();
        gone.iter().for_each(|instance| kept.remove(instance));
        if let Some(instance) = come.iter().find(|instance| kept.has(instance)) {
            let path = instance.path();
            let fault = Fault::new(path.clone(), format!("`{path}` already exists"));
            return Err(vec![fault.code(ResultCode::Exists)]);
        }
        kept.with_new(&come, &changes)
    }

    fn remove(&mut self, instance: &Instance<'_>) {
        let name = instance.name;
        match instance.kind {
            Named::Port => self.ports.retain(|port| port.name != name),
            Named::Layer(n, kind) => Arc::make_mut(&mut self.layers)[n].remove(kind, name),
        }
    }

    fn instances(&self) -> BTreeSet<Instance<'_>> {
        let names = |kind| self.names(kind).into_iter();
        let of_kind = |kind| names(kind).map(move |name| Instance { kind, name });
        Named::ALL.into_iter().flat_map(of_kind).collect()
    }

    /// The operations that change this plan into another plan.
    pub fn operations_to(&self, other: &Self) -> Vec<Operation> {
        let before: BTreeMap<_, _> = self.values().collect();
        let port = |plan: &Self, name: &str| plan.ports.iter().find(|p| p.name == name).cloned();
        let (old, new) = (self.instances(), other.instances());
        let gone = old
            .difference(&new)
            .map(|gone| Operation::Delete(gone.path()));
        let mut operations: Vec<_> = gone.collect();
        let come = new.difference(&old).map(|come| Change::block(come.path()));
        operations.extend(come.map(Operation::Set));
        let renewed = |name: &str| {
            let kind = |plan: &Self| port(plan, name).map(|port| port.discipline.kind());
            kind(self) != kind(other)
        };
        for change in other.changes() {
            let is_renewed = match change.path.segments()[..] {
                ["port", name, "discipline", _] => renewed(name), // the kind changes, so every default may differ
                _ => false,
            };
            if is_renewed || before.get(&change.path) != change.value.as_ref() {
                operations.push(Operation::Set(change));
            }
        }
        operations
    }

    fn values(&self) -> impl Iterator<Item = (ComponentPath, Scalar)> {
        let changes = self.changes().into_iter();
        changes.filter_map(|change| Some((change.path, change.value?)))
    }

    fn deletion<'a>(
        &self,
        path: &'a ComponentPath,
        operations: &[Operation],
    ) -> Result<Deletion<'a>, Fault> {
        let Place {
            section,
            instance: name,
            parameter,
        } = section::ROUTER.find(path)?;
        if let Some(fault) = self.no_instance(path) {
            return Err(fault);
        }
        let is_queue = section.key == queue::SECTION.key;
        let kind = Change::new(path.join("kind"), Scalar::Text(KIND_DEFAULT.to_owned()));
        let defaults = match (name, parameter) {
            (Some(_), None) if !is_queue => {
                let Some(instance) = Instance::find(path) else {
                    unreachable!("{path} has a name");
                };
                return Ok(Deletion::Instance(instance));
            }
            (Some(_), None) => {
                let parameters = of_kind(KIND_DEFAULT).parameters.iter();
                let defaults = parameters.map(|p| default(path.join(p.name), p));
                [kind].into_iter().chain(defaults).collect()
            }
            (Some(_), Some("kind")) if is_queue => vec![Change {
                path: path.clone(),
                ..kind
            }],
            (Some(port), Some(name)) if is_queue => {
                let class = of_kind(self.kind_after(port, operations));
                vec![default_of(path, name, &class)?]
            }
            (_, Some(name)) => {
                let classes = (section.classes)();
                vec![default_of(path, name, &classes[0])?] // the section has a single class, without a kind
            }
            (None, None) if !section.key.is_empty() && !section.has_instances => {
                let parameters = (section.classes)()[0].parameters.iter();
                parameters.map(|p| default(path.join(p.name), p)).collect()
            }
            (None, None) => {
                let message = "name a port like port.guest, or a component like port.wan.rate";
                return Err(Fault::new(path.clone(), message).code(ResultCode::InvalidPath));
            }
        };
        Ok(Deletion::Defaults(defaults))
    }

    /// The kind of discipline that a port has after some operations; empty if there is no such port.
    fn kind_after<'a>(&'a self, port: &str, operations: &'a [Operation]) -> &'a str {
        let before = self.ports.iter().find(|p| p.name == port);
        let before = before.map_or("", |port| port.discipline.kind());
        let block = ComponentPath::new(["port", port, queue::SECTION.key]);
        let kind = block.join("kind");
        let after = operations
            .iter()
            .rev()
            .find_map(|operation| match operation {
                Operation::Set(Change {
                    path,
                    value: Some(Scalar::Text(text)),
                }) if *path == kind => Some(&text[..]),
                Operation::Delete(path) if *path == kind || *path == block => Some(KIND_DEFAULT),
                _ => None,
            });
        after.unwrap_or(before)
    }
}

/// The named section that a change adds.
fn new_instance(change: &Change) -> Option<Instance<'_>> {
    let is_block = change.value.is_none();
    Instance::find(&change.path).filter(|instance| is_block && instance.path() == change.path)
}

/// The class of a kind of discipline; an empty class if there is no such kind.
fn of_kind(kind: &str) -> Class {
    let class = disciplines().into_iter().find(|class| class.name == kind);
    class.unwrap_or(Class::PLAIN)
}

/// The change to the default of a parameter.
fn default(path: ComponentPath, parameter: &Parameter) -> Change {
    Change::new(path, Scalar::Text(parameter.default.to_owned()))
}

/// The change to the default of the parameter `name` of a class; `path` is the path of the parameter.
fn default_of(path: &ComponentPath, name: &str, class: &Class) -> Result<Change, Fault> {
    let parameters = class.parameters.iter();
    match parameters.clone().find(|parameter| parameter.name == name) {
        Some(parameter) => Ok(default(path.clone(), parameter)),
        None => {
            let error = unknown(name, parameters.map(|parameter| parameter.name));
            Err(Fault::of_setting(&path.parent(), class, &error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ComponentPath {
        text.parse().unwrap()
    }

    fn set(at: &str, value: &str) -> Operation {
        Operation::Set(Change::new(path(at), Scalar::Text(value.to_owned())))
    }

    fn delete(at: &str) -> Operation {
        Operation::Delete(path(at))
    }

    fn plan() -> Plan {
        let change =
            |(at, value): (&str, &str)| Change::new(path(at), Scalar::Text(value.to_owned()));
        let changes = [
            ("port.lan.interface", "eth0"),
            ("port.guest.rate", "10 Mbit"),
            ("port.guest.discipline.kind", "red"),
            ("port.guest.discipline.limit", "300"),
        ];
        Plan::check(&changes.map(change)).unwrap()
    }

    /// The values that a plan shows at some paths after the operations.
    fn shown(operations: &[Operation], paths: &[&str]) -> Vec<String> {
        let shown = plan().after(operations).unwrap().shown();
        let value = |path: &&str| shown.get(*path).cloned().unwrap_or_default();
        paths.iter().map(value).collect()
    }

    #[test]
    fn a_deleted_port_is_gone_and_a_deleted_component_has_its_default() {
        let left = plan().after(&[delete("port.guest")]).unwrap();
        assert_eq!(left.ports.len(), 1);
        assert_eq!(left.ports[0], plan().ports[1]);
        let after = shown(
            &[delete("port.guest.rate"), delete("port.lan.interface")],
            &["port.guest.rate", "port.lan.interface"],
        );
        assert_eq!(after, ["0 bit", "lan"]);
    }

    #[test]
    fn a_port_that_is_set_without_a_value_comes() {
        let block = Operation::Set(Change::block(path("port.wan")));
        let after = plan().after(&[set("port.wan.rate", "5 Mbit"), block.clone()]);
        let shown = after.unwrap().shown();
        assert_eq!(shown["port.wan.rate"], "5 Mbit");
        assert_eq!(shown["port.wan.interface"], "wan");
        let again = Operation::Set(Change::block(path("port.lan")));
        let faults = plan().after(&[block, again]).unwrap_err();
        assert_eq!(faults[0].code, ResultCode::Exists);
        let renewed = [
            delete("port.guest"),
            Operation::Set(Change::block(path("port.guest"))),
        ];
        assert_eq!(
            plan().after(&renewed).unwrap().shown()["port.guest.rate"],
            "0 bit"
        );
    }

    #[test]
    fn the_operations_to_a_plan_lead_there() {
        let other = plan().after(&[
            delete("port.lan"),
            Operation::Set(Change::block(path("port.wan"))),
            set("port.wan.discipline.kind", "sfq"),
            set("port.guest.rate", "7 Mbit"),
            set("port.guest.discipline.kind", "fifo"),
        ]);
        let other = other.unwrap();
        assert_eq!(
            plan().after(&plan().operations_to(&other)),
            Ok(other.clone())
        );
        assert_eq!(other.after(&other.operations_to(&plan())), Ok(plan()));
        assert_eq!(plan().operations_to(&plan()), []);
    }

    #[test]
    fn exceptions_that_are_deleted_have_their_defaults() {
        let on = [set("redirect.hop_limit", "true"), set("redirect.bc", "7")];
        let before = plan().after(&on).unwrap();
        let after = before.after(&[delete("redirect.bc")]).unwrap();
        assert_eq!(after.shown()["redirect.bc"], "22500000");
        assert_eq!(after.shown()["redirect.hop_limit"], "true");
        assert_eq!(before.after(&[delete("redirect")]), Ok(plan()));
        assert_eq!(before.after(&before.operations_to(&plan())), Ok(plan()));
    }

    #[test]
    fn a_deleted_discipline_is_the_default_one() {
        let queue = ["port.guest.discipline.kind", "port.guest.discipline.limit"];
        let default = ["triple_fair", "4096"];
        assert_eq!(shown(&[delete("port.guest.discipline")], &queue), default);
        let limit = set("port.guest.discipline.limit", "99");
        let kind = delete("port.guest.discipline.kind");
        assert_eq!(shown(&[limit.clone(), kind], &queue), ["triple_fair", "99"]);
        let all = delete("port.guest.discipline");
        assert_eq!(shown(&[limit.clone(), all.clone()], &queue), default);
        assert_eq!(shown(&[all, limit], &queue), ["triple_fair", "99"]);
        let alone = shown(&[delete("port.guest.discipline.limit")], &queue);
        assert_eq!(alone, ["red", "1000"]);
    }

    #[test]
    fn what_cannot_be_deleted_has_the_code_of_a_peer() {
        let code = |operations: &[Operation]| {
            let faults = plan().after(operations).unwrap_err();
            assert_eq!(faults.len(), 1, "{faults:?}");
            faults[0].code
        };
        for (at, expected) in [
            ("port.wann", ResultCode::InstanceNotFound),
            ("port.wann.rate", ResultCode::InstanceNotFound),
            ("port", ResultCode::InvalidPath),
            ("port.guest.rat", ResultCode::InvalidPath),
            ("port.guest.discipline.buckets", ResultCode::InvalidPath),
            ("nothing.at.all", ResultCode::InvalidPath),
            ("port.guest.carrier", ResultCode::ReadOnly),
            ("uptime_s", ResultCode::ReadOnly),
        ] {
            assert_eq!(
                code(&[delete("port.guest.rate"), delete(at)]),
                expected,
                "{at}"
            );
        }
        let both = [delete("port.guest"), set("port.guest.rate", "1 Mbit")];
        assert_eq!(code(&both), ResultCode::InstanceNotFound);
        let last = [delete("port.guest"), delete("port.lan")];
        assert_eq!(code(&last), ResultCode::InvalidParameters);
    }
}
