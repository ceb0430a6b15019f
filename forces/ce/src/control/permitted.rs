//! Checks whether operators may make a change, based on its path.

use weir_base::setting::{did_you_mean, nearest, unknown};
use weir_lfb::named::{Instance, Named};
use weir_lfb::section;
use weir_model::fault::ResultCode;
use weir_model::{Change, ComponentPath, Fault, Operation};

use super::member::Fe;

/// Checks that a new port has its interface, and that a new FPF section has its required parameters: a mistyped name
/// must not create a section.
pub(super) fn check_names(fe: &Fe, operations: &[Operation]) -> Result<(), Fault> {
    let is_known = fe.in_force.is_some() || !fe.directory.names.is_empty();
    if !is_known {
        return Ok(()); // an FE that has not associated yet
    }
    let known = |kind: Named| -> Vec<&str> {
        match &fe.in_force {
            Some(actual) => actual.names(kind),
            None => fe.directory.of_kind(kind).map(|(_, name)| name).collect(),
        }
    };
    for operation in operations {
        let Some(Instance { kind, name }) = Instance::find(operation.path()) else {
            continue;
        };
        let block = kind.path(name);
        let is_needed = |path: &ComponentPath| {
            let mut needed = kind.needed().iter();
            needed.any(|component| *path == block.join(component))
        };
        let is_new = |operation: &Operation| matches!(operation, Operation::Set(set) if is_needed(&set.path));
        let is_added =
            operations.iter().any(is_new) || fe.desired.iter().any(|(path, _)| is_needed(path));
        let known = known(kind);
        if !is_added && !known.contains(&name) {
            let near = did_you_mean(nearest(name, known.into_iter()));
            let (word, needed) = (kind.word(), kind.needed().join("` or `"));
            let why =
                format!("there is no {word} `{name}`{near} (a new {word} needs its `{needed}`)");
            return Err(Fault::new(block, why).code(ResultCode::InstanceNotFound));
        }
    }
    Ok(())
}

/// Checks deletions: only a named section, a discipline or a parameter can be deleted.
pub(super) fn check_deletions(operations: &[Operation]) -> Result<(), Fault> {
    for operation in operations {
        let Operation::Delete(path) = operation else {
            continue;
        };
        let found = section::ROUTER.find(path)?;
        let classes = (found.section.classes)();
        let names = || {
            classes
                .iter()
                .flat_map(|class| class.parameters.iter().map(|p| p.name))
        };
        match found.parameter {
            Some("kind") if path.segments().contains(&"discipline") => {}
            Some(name) if !names().any(|known| known == name) => {
                let error = unknown(name, names());
                return Err(Fault::new(path.clone(), error).code(ResultCode::InvalidPath));
            }
            None if found.instance.is_none() => {
                let why = "only a named section like port.guest or a component like port.wan.rate can be deleted";
                return Err(Fault::new(path.clone(), why).code(ResultCode::InvalidPath));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The change that a set operation makes; `None` for a deletion.
pub(super) fn set_of(operation: &Operation) -> Option<Change> {
    match operation {
        Operation::Set(change) => Some(change.clone()),
        Operation::Delete(_) => None,
    }
}
