//! The classes of the FE, and where the values of their instances come from.
//!
//! | class | instances | its value |
//! |---|---|---|
//! | FE object, FE protocol object | 1 | the agent's own |
//! | `status` | 1 | the table of the router, and the settings above all sections |
//! | `redirect` | 1 | its table, and the settings of its section |
//! | `ports`, `queues` | one for each port | its row, and the settings of the port |
//! | a kind of discipline | one for each port that has it | the settings, and the gauges of the port's row of `queues` |
//! | prefixes, next hops | 1 | the forwarding tables that a CE writes |
//! | any other table | 1 | all rows as the component `rows` |

use std::collections::{BTreeMap, BTreeSet};

use weir_base::setting::Parameter;
use weir_forces::schema::{self, Kind, Registry};
use weir_forces::value;
use weir_forces::wire::{Content, ResultCode};
use weir_lfb::class::{BLOCKS, disciplines};
use weir_lfb::section::ROUTER;
use weir_model::{Class, ComponentPath, IdPath, Value};

use crate::fib::{Family, Table};
use crate::request::Failure;
use crate::{object, protocol};

/// Where the value of an instance comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Object,
    Protocol,
    /// The one instance of a table without rows.
    Single(&'static str),
    /// A row for each port.
    Port(&'static str),
    Discipline,
    /// A forwarding table.
    Fib(Table),
    /// The rows of a table.
    Rows(&'static str),
}

/// A class that the FE has.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) schema: schema::Class,
    /// The value of an instance as one structure.
    pub(crate) kind: Kind,
    pub(crate) source: Source,
    /// The declaration, if it is one of ours.
    pub(crate) class: Option<Class>,
}

/// All classes, by ID.
#[derive(Debug)]
pub(crate) struct Blocks(BTreeMap<u32, Block>);

/// Rows of the router's classes, by name.
pub(crate) type Tables = BTreeMap<&'static str, Result<Value, String>>;

/// The names of the tables that several classes need.
pub(crate) const PORTS: &str = "ports";
pub(crate) const QUEUES: &str = "queues";

/// The classes with forwarding tables, and the table that each has.
const FORWARDING: [(u32, Table); 4] = [
    (10, Table::Prefixes(Family::V4)),
    (11, Table::Prefixes(Family::V6)),
    (12, Table::NextHops(Family::V4)),
    (13, Table::NextHops(Family::V6)),
];

impl Blocks {
    pub(crate) fn new() -> Self {
        let own = [
            (object::schema(), Source::Object),
            (protocol::schema(), Source::Protocol),
        ];
        let own = own.map(|(schema, source)| Block::new(schema, source, None));
        let standard = Registry::standard();
        let of_fib = FORWARDING.into_iter().filter_map(|(class, table)| {
            let schema = standard.get(class)?.clone();
            Some(Block::new(schema, Source::Fib(table), None))
        });
        let tables = BLOCKS.iter().map(|block| {
            let class = block.class;
            let source = match (class.name, class.key) {
                (name @ (PORTS | QUEUES), _) => Source::Port(name),
                (name, []) => Source::Single(name),
                (name, _) => Source::Rows(name),
            };
            Block::new(schema::Class::of(&class), source, Some(class))
        });
        let disciplines = disciplines()
            .into_iter()
            .map(|class| Block::new(schema::Class::of(&class), Source::Discipline, Some(class)));
        let all = own
            .into_iter()
            .chain(of_fib)
            .chain(tables)
            .chain(disciplines);
        Self(all.map(|block| (block.schema.id, block)).collect())
    }

    pub(crate) fn get(&self, class: u32) -> Result<&Block, Failure> {
        self.0.get(&class).ok_or_else(|| {
            let why = format!("there is no class {class:#x} here (SupportedLFBs lists them)");
            Failure::new(ResultCode::LfbUnknown, why)
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Block> {
        self.0.values()
    }

    /// The class of our name.
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        let is_it = |block: &&Block| block.class.is_some_and(|class| class.name == name);
        self.all().find(is_it).map(|block| block.schema.id)
    }
}

impl Block {
    fn new(schema: schema::Class, source: Source, class: Option<Class>) -> Self {
        Self {
            kind: Kind::Struct(schema.components.clone()),
            schema,
            source,
            class,
        }
    }

    /// The parameter that a component is.
    pub(crate) fn parameter(&self, id: u32) -> Option<&'static Parameter> {
        let class = self.class?;
        class.parameters.iter().find(|parameter| parameter.id == id)
    }

    /// Where the configuration of the router has the settings of an instance; none if it has none.
    pub(crate) fn path(&self, port: Option<&str>) -> Option<ComponentPath> {
        let path = IdPath {
            class: self.schema.id,
            instance: port.map(str::to_owned).into_iter().collect(),
            steps: Vec::new(),
        };
        ROUTER.locate(&path).ok()
    }

    /// The tables of the router that an instance needs.
    pub(crate) fn tables(&self) -> Option<&'static str> {
        match self.source {
            Source::Object | Source::Protocol | Source::Fib(_) => None,
            Source::Single(name) | Source::Port(name) | Source::Rows(name) => Some(name),
            Source::Discipline => Some(QUEUES),
        }
    }
}

/// The tables that these instances need, each once.
pub(crate) fn tables(
    blocks: &Blocks,
    instances: impl Iterator<Item = (u32, u32)>,
) -> BTreeSet<&'static str> {
    instances
        .filter_map(|(class, _)| blocks.get(class).ok()?.tables())
        .collect()
}

/// Checks a value against the ranges of its layout.
pub(crate) fn checked(kind: &Kind, content: &Content) -> Result<Value, Failure> {
    let given = value::decode(kind, content)?;
    value::check(kind, &given)?;
    Ok(given)
}
