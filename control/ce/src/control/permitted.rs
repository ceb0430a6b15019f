//! Changes that operators may make, as far as their paths tell.

use weir_base::setting::{did_you_mean, nearest, unknown};
use weir_lfb::section;
use weir_model::fault::ResultCode;
use weir_model::{Change, ComponentPath, Fault, Operation};

use super::member::Fe;

/// A new port must have its interface: a port that is mistyped must not become a new one.
pub(super) fn check_ports(fe: &Fe, operations: &[Operation]) -> Result<(), Fault> {
    let mut known: Vec<&str> = match &fe.in_force {
        Some(actual) => actual.ports.iter().map(|port| port.name.as_str()).collect(),
        None => fe.directory.ports.values().map(String::as_str).collect(),
    };
    if known.is_empty() {
        return Ok(()); // an FE that has not associated yet
    }
    known.sort_unstable();
    for operation in operations {
        let segments = operation.path().segments();
        let ["port", port, ..] = segments[..] else {
            continue;
        };
        let block = ComponentPath::new(["port", port]);
        let interface = block.join("interface");
        let is_new = |operation: &Operation| matches!(operation, Operation::Set(set) if set.path == interface);
        let exists = known.contains(&port);
        let is_added =
            operations.iter().any(is_new) || fe.desired.iter().any(|(p, _)| *p == interface);
        if !exists && !is_added {
            let near = did_you_mean(nearest(port, known.iter().copied()));
            let why = format!("there is no port `{port}`{near} (a new port needs its `interface`)");
            return Err(Fault::new(block, why).code(ResultCode::InstanceNotFound));
        }
    }
    Ok(())
}

/// Only a port, a discipline or a parameter can be deleted.
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
                let why = "name a port like port.guest, or a component like port.wan.rate";
                return Err(Fault::new(path.clone(), why).code(ResultCode::InvalidPath));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The change that sets a component.
pub(super) fn set_of(operation: &Operation) -> Option<Change> {
    match operation {
        Operation::Set(change) => Some(change.clone()),
        Operation::Delete(_) => None,
    }
}
