//! The configuration of an FE on the wire: its components as blocks, instances and IDs.
//!
//! ```text
//!   mode, pool, ..                 class status, instance 1
//!   redirect.bc, ..                class redirect, instance 1
//!   port.NAME.rate, ..             class ports, the instance of the port
//!   port.NAME.discipline.kind      class queues, the same instance
//!   port.NAME.discipline.limit     the class of the discipline, the same instance
//!   a port                         a row of LFBSelectors in the FE object
//! ```

use std::collections::BTreeMap;

use weir_base::setting::{Parameter, Scalar};
use weir_forces::wire::{OperationKind, PathData};
use weir_lfb::Plan;
use weir_lfb::class::{Block, disciplines};
use weir_lfb::library::is_of_port;
use weir_model::{Change, Class, ComponentPath, Value, typed};

use crate::codec::Codec;
use crate::directory::{Directory, FE_OBJECT, FE_PROTOCOL, SELECTORS};
use crate::leaf::Leaf;

/// The component of a port with its name, and that of a queue with the kind of its discipline.
const PORT_NAME: u32 = 1;
const QUEUE_KIND: u32 = 2;

/// The component that has the rows of a table.
pub(crate) const ROWS: u32 = 1;

/// Class and instance of a block.
pub(crate) type BlockId = (u32, u32);

/// A change of one component on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) block: BlockId,
    pub(crate) operation: OperationKind,
    pub(crate) path: PathData,
}

impl Edit {
    /// Whether blocks come or go (ports, or the discipline of a port), or the FE's side of the protocol changes.
    pub(crate) fn renews(&self) -> bool {
        let first = self.path.ids().first();
        let is_kind = self.block.0 == queues().id && first == Some(&QUEUE_KIND);
        is_kind
            || self.block == FE_PROTOCOL
            || (self.block == FE_OBJECT && first == Some(&SELECTORS))
    }
}

/// Whether a leaf belongs to the answer to [`reads`].
pub(crate) fn is_ours(leaf: &Leaf) -> bool {
    [status().id, redirect().id].contains(&leaf.block.0) || is_of_port(leaf.block.0)
}

/// The kind of discipline in the configuration, if a class and a component of a port are that.
pub(crate) fn kind_path(component: (u32, u32), port: Option<&String>) -> Option<ComponentPath> {
    let is_kind = component == (queues().id, QUEUE_KIND);
    let port = port.filter(|_| is_kind)?;
    Some(ComponentPath::new(["port", port, "discipline", "kind"]))
}

/// A class of ours that every FE has.
fn class(name: &str) -> Class {
    match Block::find(name) {
        Some(block) => block.class,
        None => unreachable!("there is a class {name}"),
    }
}

fn status() -> Class {
    class("status")
}

fn redirect() -> Class {
    class("redirect")
}

fn ports() -> Class {
    class("ports")
}

fn queues() -> Class {
    class("queues")
}

/// Whether an FE is a router of ours, whose configuration is a tree of settings.
pub(crate) fn is_router(directory: &Directory) -> bool {
    directory.has((status().id, 1))
}

/// The components to read for the whole configuration: blocks with the IDs of their components.
pub(crate) fn reads(directory: &Directory) -> Vec<(BlockId, Vec<u32>)> {
    let ids = |class: &Class| class.parameters.iter().map(|p| p.id).collect::<Vec<_>>();
    let mut reads = vec![((status().id, 1), ids(&status()))];
    if directory.has((redirect().id, 1)) {
        reads.push(((redirect().id, 1), ids(&redirect())));
    }
    for port in directory.instances(ports().id) {
        let mut of_port = vec![PORT_NAME];
        of_port.extend(ids(&ports()));
        reads.push(((ports().id, port), of_port));
        reads.push(((queues().id, port), vec![QUEUE_KIND]));
    }
    for class in disciplines() {
        let instances = directory.instances(class.id);
        reads.extend(instances.map(|instance| ((class.id, instance), ids(&class))));
    }
    reads.retain(|(_, ids)| !ids.is_empty());
    reads
}

/// Values of components, by block and ID.
type Values = BTreeMap<(BlockId, u32), Value>;

/// The configuration in force, as the answer to [`reads`] has it. Fills in the names of the ports.
pub(crate) fn in_force(
    codec: &Codec,
    directory: &mut Directory,
    leaves: &[Leaf],
) -> Result<Plan, String> {
    let mut values = Values::new();
    for leaf in leaves.iter().filter(|leaf| leaf.failure().is_none()) {
        if let [id] = leaf.ids[..] {
            let value = codec.value(leaf.block.0, &leaf.ids, &leaf.content)?;
            values.insert((leaf.block, id), value);
        }
    }
    let text = |block, id| match values.get(&(block, id)) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let (root, section) = (ComponentPath::default(), ComponentPath::new(["redirect"]));
    let mut changes = settings(&values, (status().id, 1), &status(), &root)?;
    changes.extend(settings(
        &values,
        (redirect().id, 1),
        &redirect(),
        &section,
    )?);
    directory.ports.clear();
    for port in directory.instances(ports().id).collect::<Vec<_>>() {
        let name = text((ports().id, port), PORT_NAME)
            .ok_or_else(|| format!("the port of instance {port} has no name"))?;
        let path = ComponentPath::new(["port", &name]);
        changes.push(Change::block(path.clone()));
        changes.extend(settings(&values, (ports().id, port), &ports(), &path)?);
        let queue = path.join("discipline");
        if let Some(kind) = text((queues().id, port), QUEUE_KIND) {
            let class = disciplines().into_iter().find(|class| class.name == kind);
            let class = class.ok_or_else(|| {
                format!("port `{name}` has a discipline that this CE does not know: `{kind}`")
            })?;
            changes.push(Change::new(queue.join("kind"), Scalar::Text(kind)));
            changes.extend(settings(&values, (class.id, port), &class, &queue)?);
        }
        directory.ports.insert(port, name);
    }
    Plan::check(&changes).map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        faults.join("; ")
    })
}

/// The settings of one block that were read.
fn settings(
    values: &Values,
    block: BlockId,
    class: &Class,
    path: &ComponentPath,
) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    for parameter in class.parameters {
        if let Some(value) = values.get(&(block, parameter.id)) {
            let scalar = typed::scalar(parameter, value).map_err(|e| format!("{path}: {e}"))?;
            changes.push(Change::new(path.join(parameter.name), scalar));
        }
    }
    Ok(changes)
}

/// The edits that lead from one configuration to another, and the instances of ports that they create.
pub(crate) fn difference(
    codec: &Codec,
    directory: &Directory,
    actual: &Plan,
    target: &Plan,
) -> Result<Vec<Edit>, String> {
    let mut edits = Vec::new();
    let mut instances: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut row, mut instance) = (
        directory
            .blocks
            .keys()
            .max()
            .map_or(1, |row| row.saturating_add(1)),
        directory
            .instances(ports().id)
            .max()
            .map_or(1, |n| n.saturating_add(1)),
    );
    for port in &actual.ports {
        if target.ports.iter().all(|other| other.name != port.name) {
            let number = directory.port(&port.name);
            let gone = number.and_then(|number| directory.row((ports().id, number)));
            let gone = gone.ok_or_else(|| format!("there is no port `{}`", port.name))?;
            let path = PathData::bare(vec![SELECTORS, gone]).map_err(|e| e.to_string())?;
            edits.push(Edit {
                block: FE_OBJECT,
                operation: OperationKind::Delete,
                path,
            });
        }
    }
    for port in &target.ports {
        let known = directory.port(&port.name);
        let known = known.filter(|_| actual.ports.iter().any(|other| other.name == port.name));
        if known.is_none() {
            let selector: Vec<u8> = [ports().id, instance]
                .iter()
                .flat_map(|word| word.to_be_bytes())
                .collect();
            let path = PathData::full(vec![SELECTORS, row], selector).map_err(|e| e.to_string())?;
            edits.push(set(FE_OBJECT, path));
            let name = Value::from(port.name.as_str());
            let block = (ports().id, instance);
            edits.push(set(block, codec.path(block.0, vec![PORT_NAME], &name)?));
        }
        instances.insert(&port.name, known.unwrap_or(instance));
        if known.is_none() {
            (row, instance) = (row.saturating_add(1), instance.saturating_add(1));
        }
    }
    let before = actual.shown();
    let mut changed = target.changes();
    changed.retain(|change| match &change.value {
        Some(Scalar::Text(text)) => before.get(&change.path.to_string()) != Some(text),
        _ => true,
    });
    changed.sort_by_key(|change| !change.path.segments().ends_with(&["discipline", "kind"]));
    for change in &changed {
        edits.push(edit(codec, &instances, target, change)?);
    }
    Ok(edits)
}

fn set(block: BlockId, path: PathData) -> Edit {
    Edit {
        block,
        operation: OperationKind::Set,
        path,
    }
}

/// One setting on the wire.
pub(crate) fn edit(
    codec: &Codec,
    instances: &BTreeMap<&str, u32>,
    target: &Plan,
    change: &Change,
) -> Result<Edit, String> {
    let segments = change.path.segments();
    let unknown = || format!("{}: this component is unknown", change.path);
    let of_port = |name: &str| instances.get(name).copied().ok_or_else(unknown);
    let kind_of = |name: &str| {
        let port = target.ports.iter().find(|port| port.name == name);
        let kind = port.map(|port| port.discipline.kind());
        let class = disciplines()
            .into_iter()
            .find(|class| Some(class.name) == kind);
        class.ok_or_else(unknown)
    };
    let (class, instance, name) = match segments[..] {
        [name] => (status(), 1, name),
        ["redirect", name] => (redirect(), 1, name),
        ["port", port, "discipline", "kind"] => {
            let Some(Scalar::Text(kind)) = &change.value else {
                return Err(unknown());
            };
            let block = (queues().id, of_port(port)?);
            let kind = Value::from(kind.as_str());
            return Ok(set(block, codec.path(block.0, vec![QUEUE_KIND], &kind)?));
        }
        ["port", port, "discipline", name] => (kind_of(port)?, of_port(port)?, name),
        ["port", port, name] => (ports(), of_port(port)?, name),
        _ => return Err(unknown()),
    };
    let parameter = class.parameters.iter().find(|p| p.name == name);
    let parameter: &Parameter = parameter.ok_or_else(unknown)?;
    let scalar = change.value.as_ref().ok_or_else(unknown)?;
    let setting = parameter.check(scalar).map_err(|e| e.to_string())?;
    let value = typed::in_force(parameter, &setting);
    let path = codec.path(class.id, vec![parameter.id], &value)?;
    Ok(set((class.id, instance), path))
}
