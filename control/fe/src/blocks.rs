//! The blocks of the FE as instances of classes, and where their values come from.
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

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use weir_base::setting::{Parameter, Settings};
use weir_forces::schema::{self, Component, Kind, Registry};
use weir_forces::session::execute::Answer;
use weir_forces::session::fe::Fe;
use weir_forces::value;
use weir_forces::wire::{Content, OperationKind, ResultCode};
use weir_lfb::Plan;
use weir_lfb::class::{BLOCKS, disciplines};
use weir_lfb::section::ROUTER;
use weir_model::{Class, ComponentPath, IdPath, Value, typed};

use crate::event::property;
use crate::fib::{Fib, Table};
use crate::own::Own;
use crate::request::{Failure, Item, Step};
use crate::tree::{self, Found};
use crate::{object, protocol, tables as forwarding};

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

impl Blocks {
    pub(crate) fn new() -> Self {
        let own = [
            (object::schema(), Source::Object),
            (protocol::schema(), Source::Protocol),
        ];
        let own = own.map(|(schema, source)| Block::new(schema, source, None));
        let standard = Registry::standard();
        let of_fib = forwarding::CLASSES
            .into_iter()
            .filter_map(|(class, table)| {
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

/// The FE at one instant, for reading.
pub(crate) struct View<'a> {
    own: &'a Own,
    plan: &'a Plan,
    fe: &'a Fe,
    fib: &'a Fib,
    tables: &'a Tables,
    /// The values of instances that were read already.
    values: std::cell::RefCell<BTreeMap<(u32, u32), std::rc::Rc<Value>>>,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        own: &'a Own,
        plan: &'a Plan,
        fe: &'a Fe,
        fib: &'a Fib,
        tables: &'a Tables,
    ) -> Self {
        Self {
            own,
            plan,
            fe,
            fib,
            tables,
            values: Default::default(),
        }
    }

    /// The answer to one path of a Query.
    pub(crate) fn answer(&self, item: &Item) -> Answer {
        let answer = match item.operation {
            OperationKind::Get => self.get(item),
            OperationKind::GetProperty => self.property(item),
            kind => Err(Failure::new(
                ResultCode::InvalidOperation,
                format!("a Query has GET and GET-PROP, and not {kind}"),
            )),
        };
        answer.unwrap_or_else(|failure| failure.answer())
    }

    fn get(&self, item: &Item) -> Result<Answer, Failure> {
        let block = self.own.blocks().get(item.class)?;
        if let Some(events) = property::at(block, item) {
            return Ok(Answer::new(
                events?.content(self.own.subscriptions(), item)?,
            ));
        }
        let value = self.part(block, item)?;
        let found = tree::find(&block.kind, &value, &item.steps)?;
        Ok(Answer {
            content: found.content()?,
            indices: found.indices,
        })
    }

    fn property(&self, item: &Item) -> Result<Answer, Failure> {
        let block = self.own.blocks().get(item.class)?;
        if let Some(events) = property::at(block, item) {
            return Ok(Answer::new(
                events?.content(self.own.subscriptions(), item)?,
            ));
        }
        let value = self.part(block, item)?;
        let found = tree::find(&block.kind, &value, &item.steps)?;
        let content = property::of_component(block, &found)?;
        Ok(Answer {
            content,
            indices: found.indices,
        })
    }

    /// The paths of an answer with their data, each of which fits a message.
    pub(crate) fn pieces(&self, item: &Item) -> Vec<(Vec<u32>, Content)> {
        let ids = |steps: &[Step]| -> Vec<u32> {
            let id = |step: &Step| match step {
                Step::Id(id) => Some(*id),
                _ => None,
            };
            steps.iter().filter_map(id).collect()
        };
        let pieces = || -> Result<Vec<(Vec<u32>, Content)>, Failure> {
            if item.operation != OperationKind::Get {
                return Ok(vec![(ids(&item.steps), self.answer(item).content)]);
            }
            let block = self.own.blocks().get(item.class)?;
            let value = self.part(block, item)?;
            let found = tree::find(&block.kind, &value, &item.steps)?;
            let mut pieces = Vec::new();
            cut(&found, &mut pieces)?;
            Ok(pieces)
        };
        pieces().unwrap_or_else(|failure| vec![(ids(&item.steps), failure.answer().content)])
    }

    /// The value of an instance, as far as a path needs it.
    fn part(&self, block: &Block, item: &Item) -> Result<std::rc::Rc<Value>, Failure> {
        let Source::Fib(table) = block.source else {
            return self.value(item.class, item.instance);
        };
        self.own.instance(block, item.instance, self.plan)?;
        let rows = forwarding::value(block, table, self.fib, &item.steps);
        Ok(std::rc::Rc::new(rows))
    }

    /// The value of an instance.
    pub(crate) fn value(&self, class: u32, instance: u32) -> Result<std::rc::Rc<Value>, Failure> {
        if let Some(value) = self.values.borrow().get(&(class, instance)) {
            return Ok(std::rc::Rc::clone(value));
        }
        let block = self.own.blocks().get(class)?;
        let value = std::rc::Rc::new(self.made(block, instance)?);
        let mut values = self.values.borrow_mut();
        values.insert((class, instance), std::rc::Rc::clone(&value));
        Ok(value)
    }

    fn made(&self, block: &Block, instance: u32) -> Result<Value, Failure> {
        let port = self.own.instance(block, instance, self.plan)?;
        let none = Value::Absent;
        let settings = || self.plan.settings(&block.path(port)?);
        Ok(match (block.source, port) {
            (Source::Object, _) => self.own.object(self.plan, self.fe),
            (Source::Protocol, _) => self.own.protocol().value(self.fe),
            (Source::Fib(table), _) => forwarding::value(block, table, self.fib, &[]),
            (Source::Rows(name), _) => {
                let rows = self.table(name)?.rows().to_vec();
                Value::Struct(vec![("rows".into(), Value::List(rows))])
            }
            (Source::Single(name), _) => structure(block, self.table(name)?, settings()),
            (Source::Port(name), Some(port)) => {
                let row = of_port(self.table(name)?, port).unwrap_or(&none);
                structure(block, row, settings())
            }
            (Source::Discipline, Some(port)) => {
                let row = of_port(self.table(QUEUES)?, port);
                let gauges = row.and_then(|row| row.get("gauges")).unwrap_or(&none);
                structure(block, gauges, settings())
            }
            (Source::Port(_) | Source::Discipline, None) => unreachable!("its instances are ports"),
        })
    }

    fn table(&self, name: &str) -> Result<&Value, Failure> {
        match self.tables.get(name) {
            Some(Ok(rows)) => Ok(rows),
            Some(Err(why)) => Err(Failure::new(ResultCode::InternalError, why.clone())),
            None => {
                let why = format!("the table {name} was not read");
                Err(Failure::new(ResultCode::InternalError, why))
            }
        }
    }
}

/// The row of a port.
fn of_port<'v>(rows: &'v Value, port: &str) -> Option<&'v Value> {
    let mut rows = rows.rows().iter();
    rows.find(|row| row.text("port") == Some(port))
}

/// The components of a class: a setting from the configuration, anything else from the row.
fn structure(block: &Block, row: &Value, settings: Option<&Settings>) -> Value {
    let setting = |component: &Component| {
        let parameter = block.parameter(component.id)?;
        let (_, setting) = settings?.iter().find(|(name, _)| *name == parameter.name)?;
        Some(typed::in_force(parameter, setting))
    };
    let value = |component: &Component| {
        let value = setting(component).or_else(|| row.get(&component.name).cloned());
        let name = Cow::Owned(component.name.clone());
        (name, value.unwrap_or(Value::Absent))
    };
    Value::Struct(block.schema.components.iter().map(value).collect())
}

/// Bytes of the data of one part of a long answer.
const PIECE_BYTES_MAX: usize = 32_000;

/// Cuts a value into pieces that fit a message: whole if it does, else tables between rows, and structures between
/// members.
fn cut(found: &Found<'_>, pieces: &mut Vec<(Vec<u32>, Content)>) -> Result<(), Failure> {
    let content = found.content();
    match content {
        Ok(content) if size(&content) <= PIECE_BYTES_MAX => {
            pieces.push((found.ids.clone(), content));
            return Ok(());
        }
        Err(failure) if failure.code != ResultCode::ContentsTooLong => return Err(failure),
        _ => {}
    }
    if found.kind.array().is_some() {
        let mut piece = Vec::new();
        let mut bytes = 0;
        for row in found.rows()? {
            let len = 8 + row.value.len().next_multiple_of(4);
            if bytes + len > PIECE_BYTES_MAX && !piece.is_empty() {
                pieces.push((
                    found.ids.clone(),
                    Content::Sparse(std::mem::take(&mut piece)),
                ));
                bytes = 0;
            }
            bytes += len;
            piece.push(row);
        }
        pieces.push((found.ids.clone(), Content::Sparse(piece)));
        return Ok(());
    }
    let (Kind::Struct(members), Some(value)) = (found.kind.resolved(), &found.value) else {
        let why = "a single value is longer than a message";
        return Err(Failure::new(ResultCode::ContentsTooLong, why));
    };
    for member in members {
        let mut part = tree::find(found.kind, value, &[Step::Id(member.id)])?;
        if part.value.is_some() {
            part.ids.splice(0..0, found.ids.iter().copied());
            cut(&part, pieces)?;
        }
    }
    Ok(())
}

fn size(content: &Content) -> usize {
    match content {
        Content::Full(bytes) => bytes.len(),
        Content::Sparse(ilvs) => ilvs.iter().map(|ilv| 12 + ilv.value.len()).sum(),
        _ => 0,
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
