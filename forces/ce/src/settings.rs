//! Configuration of an FE on the wire: its components as LFBs, instances and IDs.
//!
//! ```text
//!   mode, pool, ..                 class status, instance 1
//!   redirect.bc, ..                class redirect, instance 1
//!   fpf.no_match, ..               class fpf, instance 1
//!   fpf.rule.NAME.lid, ..          class fpf_rules, the instance of the rule; interfaces and encapsulations likewise
//!   port.NAME.rate, ..             class ports, the instance of the port
//!   port.NAME.discipline.kind      class queues, the same instance
//!   port.NAME.discipline.limit     the class of the discipline, the same instance
//!   a port, a rule, ..             a row of LFBSelectors in the FE object, and the component 1 with its name
//! ```

use std::collections::BTreeMap;

use weir_base::setting::{Parameter, Scalar};
use weir_lfb::Plan;
use weir_lfb::class::{Block, disciplines};
use weir_lfb::named::{Instance, Named};
use weir_lfb::section::ROUTER;
use weir_library::owner;
use weir_model::{Change, Class, ComponentPath, Section, Value, typed};
use weir_protocol::wire::{Content, OperationKind, PathData};

use crate::codec::Codec;
use crate::directory::{Directory, FE_OBJECT, FE_PROTOCOL, SELECTORS};
use crate::leaf::Leaf;

/// The component of a queue that contains the kind of its discipline.
const QUEUE_KIND: u32 = 2;

/// The component that contains the rows of a table.
pub(crate) const ROWS: u32 = 1;

/// Class and instance of an LFB.
pub(crate) type BlockId = (u32, u32);

/// A change of one component on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) block: BlockId,
    pub(crate) operation: OperationKind,
    pub(crate) path: PathData,
}

impl Edit {
    /// The named section that this edit creates or sets: its kind and its instance.
    pub(crate) fn section(&self) -> Option<(Named, u32)> {
        let (class, instance) = match (self.block, self.path.content()) {
            (FE_OBJECT, Content::Full(selector)) => {
                let (words, _) = selector.as_chunks();
                let [class, instance] = *words else {
                    return None;
                };
                (u32::from_be_bytes(class), u32::from_be_bytes(instance))
            }
            (block, _) => block,
        };
        Some((owner(class)?, instance))
    }

    /// Whether the edit adds or removes LFBs (named sections, or a port's discipline), or changes the FE's protocol
    /// object.
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
    let is_single = || singles().any(|(_, class)| class.id == leaf.block.0);
    owner(leaf.block.0).is_some() || is_single()
}

/// A class of a weir FE.
pub(crate) fn class(name: &str) -> Class {
    match Block::find(name) {
        Some(block) => block.class,
        None => unreachable!("there is a class {name}"),
    }
}

fn queues() -> Class {
    class("queues")
}

/// The sections that a configuration has only once: their paths and classes.
fn singles() -> impl Iterator<Item = (ComponentPath, Class)> {
    let inner = ROUTER.sections.iter().copied();
    let all = std::iter::once(&ROUTER).chain(inner);
    let single = |section: &&'static Section| !section.has_instances;
    all.filter(single).filter_map(|section| {
        let key = Some(section.key).filter(|key| !key.is_empty());
        let class = (section.classes)().into_iter().next()?;
        Some((ComponentPath::new(key), class))
    })
}

/// Whether an FE is a weir router, whose configuration is a tree of settings.
pub(crate) fn is_router(directory: &Directory) -> bool {
    directory.has((class("status").id, 1))
}

/// The components to read for the whole configuration: LFBs with the IDs of their components.
pub(crate) fn reads(directory: &Directory) -> Vec<(BlockId, Vec<u32>)> {
    let ids = |class: &Class| class.parameters.iter().map(|p| p.id).collect::<Vec<_>>();
    let singles = singles().filter(|(_, class)| directory.has((class.id, 1)));
    let mut reads: Vec<_> = singles
        .map(|(_, class)| ((class.id, 1), ids(&class)))
        .collect();
    for kind in Named::ALL {
        let class = kind.class();
        for number in directory.instances(class.id) {
            let mut of_section = vec![Named::NAME];
            of_section.extend(ids(class));
            reads.push(((class.id, number), of_section));
            if kind == Named::Port {
                reads.push(((queues().id, number), vec![QUEUE_KIND]));
            }
        }
    }
    for class in disciplines() {
        let instances = directory.instances(class.id);
        reads.extend(instances.map(|instance| ((class.id, instance), ids(&class))));
    }
    reads.retain(|(_, ids)| !ids.is_empty());
    reads
}

/// Values of components, by LFB and ID.
type Values = BTreeMap<(BlockId, u32), Value>;

/// Parses the running configuration from the answer to [`reads`]. Fills in the names of ports and other sections.
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
    let mut changes = Vec::new();
    for (path, class) in singles() {
        changes.extend(settings(&values, (class.id, 1), &class, &path)?);
    }
    directory.names.clear();
    for kind in Named::ALL {
        let (class, word) = (kind.class(), kind.word());
        for number in directory.instances(class.id).collect::<Vec<_>>() {
            let block = (class.id, number);
            let name = text(block, Named::NAME)
                .ok_or_else(|| format!("the {word} of instance {number} has no name"))?;
            let path = kind.path(&name);
            changes.push(Change::block(path.clone()));
            changes.extend(settings(&values, block, class, &path)?);
            let queue = path.join("discipline");
            let discipline = text((queues().id, number), QUEUE_KIND);
            if let Some(discipline) = discipline.filter(|_| kind == Named::Port) {
                let class = disciplines().into_iter().find(|c| c.name == discipline);
                let class = class.ok_or_else(|| {
                    format!(
                        "port `{name}` has a discipline that this CE does not know: `{discipline}`"
                    )
                })?;
                changes.push(Change::new(queue.join("kind"), Scalar::Text(discipline)));
                changes.extend(settings(&values, (class.id, number), &class, &queue)?);
            }
            directory.names.insert((kind, number), name);
        }
    }
    Plan::check(&changes).map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        faults.join("; ")
    })
}

/// The settings that were read from one LFB.
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

/// Instances of ports and other sections, by name.
pub(crate) type Instances<'a> = BTreeMap<Instance<'a>, u32>;

/// The instances of an FE.
pub(crate) fn instances(directory: &Directory) -> Instances<'_> {
    let of_kind = |kind| {
        let names = directory.of_kind(kind);
        names.map(move |(number, name)| (Instance { kind, name }, number))
    };
    Named::ALL.into_iter().flat_map(of_kind).collect()
}

/// The edits that lead from one configuration to another, grouped by section: first deleted sections, then new
/// sections, each in the order of their dependencies.
pub(crate) fn difference(
    codec: &Codec,
    directory: &Directory,
    actual: &Plan,
    target: &Plan,
) -> Result<Vec<Edit>, String> {
    let known = instances(directory);
    let mut edits = Vec::new();
    let mut all = Instances::new();
    let mut by_section: BTreeMap<Option<Instance<'_>>, Vec<Edit>> = BTreeMap::new();
    let last = directory.blocks.keys().max();
    let mut row = last.map_or(1, |row| row.saturating_add(1));
    for kind in Named::ALL.into_iter().rev() {
        for name in actual.names(kind) {
            let instance = Instance { kind, name };
            if !target.has(&instance) {
                let number = known.get(&instance);
                let gone = number.and_then(|n| directory.row((kind.class().id, *n)));
                let gone = gone.ok_or_else(|| format!("there is no {} `{name}`", kind.word()))?;
                let path = PathData::bare(vec![SELECTORS, gone]).map_err(|e| e.to_string())?;
                edits.push(Edit {
                    block: FE_OBJECT,
                    operation: OperationKind::Delete,
                    path,
                });
            }
        }
        let class = kind.class().id;
        let last = directory.instances(class).max();
        let mut next = last.map_or(1, |n| n.saturating_add(1));
        for name in target.names(kind) {
            let instance = Instance { kind, name };
            if let Some(number) = known.get(&instance).filter(|_| actual.has(&instance)) {
                all.insert(instance, *number);
                continue;
            }
            let made = make(codec, (class, next), row, name)?;
            by_section.insert(Some(instance), made.into());
            all.insert(instance, next);
            (row, next) = (row.saturating_add(1), next.saturating_add(1));
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
        let edit = edit(codec, &all, target, change)?;
        let section = by_section.entry(Instance::find(&change.path));
        section.or_default().push(edit);
    }
    edits.extend(by_section.into_values().flatten());
    Ok(edits)
}

/// Creates a port, or another named section.
fn make(codec: &Codec, block: BlockId, row: u32, name: &str) -> Result<[Edit; 2], String> {
    let words = [block.0, block.1].into_iter();
    let selector = words.flat_map(u32::to_be_bytes).collect();
    let selector = PathData::full(vec![SELECTORS, row], selector).map_err(|e| e.to_string())?;
    let name = codec.path(block.0, vec![Named::NAME], &Value::from(name))?;
    Ok([set(FE_OBJECT, selector), set(block, name)])
}

fn set(block: BlockId, path: PathData) -> Edit {
    Edit {
        block,
        operation: OperationKind::Set,
        path,
    }
}

/// Encodes one setting.
pub(crate) fn edit(
    codec: &Codec,
    instances: &Instances<'_>,
    target: &Plan,
    change: &Change,
) -> Result<Edit, String> {
    let unknown = || format!("{}: this component is unknown", change.path);
    let place = ROUTER.find(&change.path).map_err(|e| e.to_string())?;
    let name = place.parameter.ok_or_else(unknown)?;
    let of = Instance::find(&change.path);
    let number = match &of {
        Some(instance) => *instances.get(instance).ok_or_else(unknown)?,
        None => 1,
    };
    let classes = (place.section.classes)();
    let mut classes = classes.into_iter();
    let has_kinds = !place.section.kind_default.is_empty();
    let class = match (of, has_kinds) {
        (Some(_), true) if name == "kind" => {
            let Some(Scalar::Text(kind)) = &change.value else {
                return Err(unknown());
            };
            let (block, kind) = ((queues().id, number), Value::from(kind.as_str()));
            return Ok(set(block, codec.path(block.0, vec![QUEUE_KIND], &kind)?));
        }
        (Some(of), true) => classes.find(|class| Some(class.name) == kind_of(&of, target)),
        _ => classes.next(),
    };
    let class = class.ok_or_else(unknown)?;
    let parameter = class.parameters.iter().find(|p| p.name == name);
    let parameter: &Parameter = parameter.ok_or_else(unknown)?;
    let scalar = change.value.as_ref().ok_or_else(unknown)?;
    let setting = parameter.check(scalar).map_err(|e| e.to_string())?;
    let value = typed::in_force(parameter, &setting);
    let path = codec.path(class.id, vec![parameter.id], &value)?;
    Ok(set((class.id, number), path))
}

/// Kind of a port's discipline.
fn kind_of<'a>(port: &Instance<'_>, target: &'a Plan) -> Option<&'a str> {
    let found = target.ports.iter().find(|other| other.name == port.name);
    found.map(|port| port.discipline.kind())
}
