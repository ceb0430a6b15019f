//! The LFB classes of the FE, and the sources of their instances' values.
//!
//! | class | instances | value |
//! |---|---|---|
//! | FE object, FE protocol object | 1 | the agent's own |
//! | `status` | 1 | the router's table, and the settings above all sections |
//! | `redirect` | 1 | its table, and its section's settings |
//! | `ports`, `queues` | one for each port | its row, and the settings of the port |
//! | `fpf` | 1 | its table, and its section's settings |
//! | `fpf_encapsulations`, `fpf_classes` | one for each section | its row, and its settings |
//! | `fpf_interfaces`, `fpf_rules` | one for each section | its name, and its settings |
//! | a kind of discipline | one for each port that has it | the settings, and the gauges of the port's row of `queues` |
//! | prefixes, next hops, groups of next hops | 1 | the forwarding tables that a CE writes |
//! | other classes of the RFCs | as our class | a view of our row |
//! | other tables | 1 | all rows, in the component `rows` |

use std::collections::{BTreeMap, BTreeSet};

use weir_base::setting::Parameter;
use weir_lfb::class::{BLOCKS, disciplines};
use weir_lfb::named::Named;
use weir_lfb::section::ROUTER;
use weir_library::{View, groups};
use weir_model::{Class, ComponentPath, Value};
use weir_protocol::schema::{self, Kind};
use weir_protocol::standard::{FE_OBJECT, FE_PROTOCOL};
use weir_protocol::value;
use weir_protocol::wire::{Content, ResultCode};

use crate::fib::{Family, Table};
use crate::request::Failure;
use crate::{object, protocol};

/// Source of the value of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Object,
    Protocol,
    /// The only instance of a table without rows.
    Single(&'static str),
    /// One instance for each named section: its settings, and its row if there is a table of these sections.
    Each(Option<&'static str>),
    Discipline,
    /// A forwarding table.
    Fib(Table),
    /// A view of a row of our class.
    View(&'static View),
    /// The rows of a table.
    Rows(&'static str),
}

/// An LFB class of the FE.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) schema: schema::Class,
    /// Layout of the value of an instance, as one structure.
    pub(crate) kind: Kind,
    pub(crate) source: Source,
    /// The declaration, if we declare the class.
    pub(crate) class: Option<Class>,
    /// The kind of named section that each instance belongs to; `None` if the class has one instance.
    pub(crate) owner: Option<Named>,
}

/// All classes, by ID.
#[derive(Debug)]
pub(crate) struct Blocks(BTreeMap<u32, Block>);

/// Rows of the router's classes, by name.
pub(crate) type Tables = BTreeMap<&'static str, Result<Value, String>>;

/// Names of tables that several classes need.
pub(crate) const PORTS: &str = "ports";
pub(crate) const QUEUES: &str = "queues";

/// ID of the component with the rows, in a class with a forwarding table.
pub(crate) const TABLE: u32 = 1;

/// The classes with forwarding tables, and their tables.
const FORWARDING: [(u32, Table); 6] = [
    (10, Table::Prefixes(Family::V4)),
    (11, Table::Prefixes(Family::V6)),
    (12, Table::NextHops(Family::V4)),
    (13, Table::NextHops(Family::V6)),
    (groups::IPV4.id, Table::Groups(Family::V4)),
    (groups::IPV6.id, Table::Groups(Family::V6)),
];

impl Blocks {
    pub(crate) fn new() -> Self {
        let all = weir_library::classes().into_iter().map(|schema| {
            let (source, class) = match of_standard(schema.id) {
                Some(source) => (source, None),
                None => of_ours(schema.id),
            };
            (schema.id, Block::new(schema, source, class))
        });
        Self(all.collect())
    }

    pub(crate) fn get(&self, class: u32) -> Result<&Block, Failure> {
        self.0.get(&class).ok_or_else(|| {
            let why = format!("the FE has no class {class:#x} (SupportedLFBs lists its classes)");
            Failure::new(ResultCode::LfbUnknown, why)
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Block> {
        self.0.values()
    }

    /// The router's tables that these classes need, without duplicates.
    pub(crate) fn tables(&self, classes: impl Iterator<Item = u32>) -> BTreeSet<&'static str> {
        let tables = classes.filter_map(|class| self.get(class).ok()?.table());
        tables.collect()
    }

    /// The ID of the class with this name in our declarations.
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        let is_it = |block: &&Block| block.class.is_some_and(|class| class.name == name);
        self.all().find(is_it).map(|block| block.schema.id)
    }
}

impl Block {
    fn new(schema: schema::Class, source: Source, class: Option<Class>) -> Self {
        Self {
            kind: Kind::Struct(schema.components.clone()),
            owner: weir_library::owner(schema.id),
            schema,
            source,
            class,
        }
    }

    /// A component by its ID.
    pub(crate) fn component(&self, id: u32) -> Option<&schema::Component> {
        self.schema
            .components
            .iter()
            .find(|component| component.id == id)
    }

    /// The parameter with the ID of this component, if the component is a parameter.
    pub(crate) fn parameter(&self, id: u32) -> Option<&'static Parameter> {
        let class = self.class?;
        class.parameters.iter().find(|parameter| parameter.id == id)
    }

    /// Path of the instance's settings in the router's configuration; `None` if it has no settings.
    pub(crate) fn path(&self, name: Option<&str>) -> Option<ComponentPath> {
        let class = |class: &Class| class.id == self.schema.id;
        let (_, block) = ROUTER.block(name.unwrap_or_default(), &class)?;
        Some(block)
    }

    /// The router's table that an instance needs.
    pub(crate) fn table(&self) -> Option<&'static str> {
        match self.source {
            Source::Object | Source::Protocol | Source::Fib(_) => None,
            Source::Single(name) | Source::Rows(name) => Some(name),
            Source::Each(table) => table,
            Source::Discipline => Some(QUEUES),
            Source::View(view) => Some(view.of),
        }
    }

    /// Whether a CE can write a component of this FE. This FE does not permit all writes that the classes permit.
    pub(crate) fn can_be_written(&self, component: &schema::Component) -> bool {
        let is_fixed = match self.source {
            Source::Object => object::FIXED.contains(&component.id),
            Source::Protocol => protocol::FIXED.contains(&component.id),
            Source::Fib(_) => component.id != TABLE,
            Source::View(_) => true,
            _ => false,
        };
        component.can_be_written() && !is_fixed
    }

    /// Why a component, or a part of it, cannot be written.
    pub(crate) fn refused(&self, ids: &[u32]) -> Failure {
        let component = ids.first().and_then(|id| self.component(*id));
        let name = self.schema.names(ids);
        let (code, why) = if component.is_some_and(schema::Component::can_be_written) {
            (ResultCode::NotSupported, "cannot be set on this FE")
        } else {
            (ResultCode::ReadOnly, "can be read, but not set")
        };
        Failure::new(code, format!("{name} {why}"))
    }
}

/// Source of the values of a class of the RFCs, or of a table that completes theirs; `None` if it is neither.
fn of_standard(class: u32) -> Option<Source> {
    match class {
        FE_OBJECT => Some(Source::Object),
        FE_PROTOCOL => Some(Source::Protocol),
        _ => {
            let table = FORWARDING.iter().find(|(id, _)| *id == class);
            let view = || View::find(class).map(Source::View);
            table.map(|(_, table)| Source::Fib(*table)).or_else(view)
        }
    }
}

/// Source of the values of a class that we declare, with its declaration.
fn of_ours(class: u32) -> (Source, Option<Class>) {
    let table = BLOCKS
        .iter()
        .map(|block| block.class)
        .find(|table| table.id == class);
    let Some(table) = table else {
        if let Some(kind) = Named::of_class(class) {
            return (Source::Each(None), Some(*kind.class()));
        }
        let kind = disciplines().into_iter().find(|kind| kind.id == class);
        return (Source::Discipline, kind);
    };
    let source = match (table.has_instances, table.key) {
        (true, _) => Source::Each(Some(table.name)),
        (false, []) => Source::Single(table.name),
        (false, _) => Source::Rows(table.name),
    };
    (source, Some(table))
}

/// Decodes a value and checks it against the ranges of its layout.
pub(crate) fn checked(kind: &Kind, content: &Content) -> Result<Value, Failure> {
    let given = value::decode(kind, content)?;
    value::check(kind, &given)?;
    Ok(given)
}
