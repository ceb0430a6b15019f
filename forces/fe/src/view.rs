//! A snapshot of the FE: the values of its LFBs, and the answers to the paths of a Query.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_base::setting::Settings;
use weir_lfb::Plan;
use weir_lfb::named::Named;
use weir_model::{Value, typed};
use weir_protocol::schema::{Array, Component, Kind};
use weir_protocol::session::execute::Answer;
use weir_protocol::session::fe::Fe;
use weir_protocol::value;
use weir_protocol::wire::{Content, OperationKind, ResultCode};

use crate::blocks::{Block, QUEUES, Source, TABLE, Tables};
use crate::fib::Fib;
use crate::own::Own;
use crate::request::{Failure, Item, Step};
use crate::tree::{self, Found};
use crate::{property, tables as forwarding};

/// A read-only snapshot of the FE.
pub(crate) struct View<'a> {
    own: &'a Own,
    plan: &'a Plan,
    fe: &'a Fe,
    fib: &'a Fib,
    tables: &'a Tables,
    cache: RefCell<Cache>,
}

/// Parts of a snapshot that were computed before.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Values of instances.
    values: BTreeMap<(u32, u32), Arc<Value>>,
    /// Rows of tables by the content of a key, for the class and the key.
    indices: BTreeMap<(u32, u32), HashMap<Vec<u8>, u32>>,
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
            cache: RefCell::default(),
        }
    }

    /// The view with the cache of an earlier view of the same snapshot.
    pub(crate) fn with(self, cache: Cache) -> Self {
        self.cache.replace(cache);
        self
    }

    pub(crate) fn into_cache(self) -> Cache {
        self.cache.into_inner()
    }

    /// The answer to one path of a Query.
    pub(crate) fn answer(&self, item: &Item) -> Answer {
        let answer = match item.operation {
            OperationKind::Get | OperationKind::GetProperty => self.read(item),
            kind => Err(Failure::new(
                ResultCode::InvalidOperation,
                format!("a Query may contain only GET and GET-PROP, not {kind}"),
            )),
        };
        answer.unwrap_or_else(|failure| failure.answer())
    }

    fn read(&self, item: &Item) -> Result<Answer, Failure> {
        let block = self.own.blocks().get(item.class)?;
        if let Some(event) = property::at(block, item) {
            self.own.instance(block, item.instance, self.plan)?;
            let content = event?.content(self.own.subscriptions(), item.operation)?;
            return Ok(Answer::new(content));
        }
        let value = self.part(block, item)?;
        let found = self.find(block, &value, item)?;
        let content = match item.operation {
            OperationKind::Get => found.content()?,
            _ => property::of_component(block, &found)?,
        };
        Ok(Answer {
            content,
            indices: found.indices,
        })
    }

    /// The paths of an answer with their data, in pieces that fit a message each.
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
            let found = self.find(block, &value, item)?;
            let mut pieces = Vec::new();
            cut(&found, &mut pieces)?;
            Ok(pieces)
        };
        pieces().unwrap_or_else(|failure| vec![(ids(&item.steps), failure.answer().content)])
    }

    /// Finds the part at the end of a path. All paths that select a row by the same key share an index of the rows: a CE
    /// asks for each prefix that covers an address, and a table may have a million rows.
    fn find<'v>(
        &self,
        block: &'v Block,
        value: &'v Value,
        item: &Item,
    ) -> Result<Found<'v>, Failure> {
        let mut steps = item.steps.clone();
        let (Source::Rows(_), [Step::Id(TABLE), Step::Key { id, values }, ..]) =
            (block.source, &item.steps[..])
        else {
            return tree::find(&block.kind, value, &steps);
        };
        let table = tree::find(&block.kind, value, &steps[..1])?;
        let (Some(array), Some(rows)) = (table.kind.array(), &table.value) else {
            return tree::find(&block.kind, value, &steps);
        };
        let values = value::key_values(array, *id, values)?;
        let content = value::key_bytes(array, *id, &values)?;
        let indices = &mut self.cache.borrow_mut().indices;
        let index = indices.entry((item.class, *id));
        let index = index.or_insert_with(|| by_key(array, *id, rows));
        let Some(row) = index.get(&content) else {
            return Err(Failure::new(ResultCode::NotFound, "no row has this key"));
        };
        steps[1] = Step::Id(*row);
        let mut found = tree::find(&block.kind, value, &steps)?;
        found.indices.insert(0, *row);
        Ok(found)
    }

    /// The value of an instance, with at least the part that the path needs.
    fn part(&self, block: &Block, item: &Item) -> Result<Arc<Value>, Failure> {
        let Source::Fib(table) = block.source else {
            return self.value(item.class, item.instance);
        };
        self.own.instance(block, item.instance, self.plan)?;
        let rows = forwarding::value(block, table, self.fib, &item.steps);
        Ok(Arc::new(rows))
    }

    /// The value of an instance.
    pub(crate) fn value(&self, class: u32, instance: u32) -> Result<Arc<Value>, Failure> {
        if let Some(value) = self.cache.borrow().values.get(&(class, instance)) {
            return Ok(Arc::clone(value));
        }
        let block = self.own.blocks().get(class)?;
        let value = Arc::new(self.made(block, instance)?);
        let values = &mut self.cache.borrow_mut().values;
        values.insert((class, instance), Arc::clone(&value));
        Ok(value)
    }

    fn made(&self, block: &Block, instance: u32) -> Result<Value, Failure> {
        let of = self.own.instance(block, instance, self.plan)?;
        let settings = || self.plan.settings(&block.path(of)?);
        Ok(match block.source {
            Source::Object => self.own.object(self.plan, self.fe),
            Source::Protocol => self.own.protocol().value(self.fe),
            Source::Fib(table) => forwarding::value(block, table, self.fib, &[]),
            Source::Rows(name) => {
                let rows = self.table(name)?.rows().to_vec();
                Value::Struct(vec![("rows".into(), Value::List(rows))])
            }
            Source::Single(name) => structure(block, self.table(name)?, settings()),
            Source::Each(Some(table)) => structure(block, self.row(table, of)?, settings()),
            Source::Each(None) => {
                let name = block.component(Named::NAME).zip(of);
                let name = name.map(|(component, of)| (component.name.clone().into(), of.into()));
                structure(block, &Value::Struct(Vec::from_iter(name)), settings())
            }
            Source::Discipline => {
                let gauges = self.row(QUEUES, of)?.get("gauges");
                structure(block, gauges.unwrap_or(&Value::Absent), settings())
            }
            Source::View(view) => view.value(&block.schema, instance, self.row(view.of, of)?),
        })
    }

    /// The row of a port or of another named section; the whole value for a table without rows.
    fn row(&self, name: &str, of: Option<&str>) -> Result<&Value, Failure> {
        let table = self.table(name)?;
        let Some(of) = of else {
            return Ok(table);
        };
        let class = self.own.blocks().named(name);
        let class = class.and_then(|class| self.own.blocks().get(class).ok()?.class);
        let is_it = |row: &&Value| {
            let key = class.and_then(|class| row.text(class.key.first()?));
            key == Some(of)
        };
        let row = table.rows().iter().find(is_it);
        Ok(row.unwrap_or(&Value::Absent)) // the section is being created or deleted
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

/// The components of a class: settings from the configuration, all others from the row.
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

/// The first row with each content of a key.
fn by_key(array: &Array, id: u32, rows: &Value) -> HashMap<Vec<u8>, u32> {
    let content = |row| {
        let values = value::key_of_row(array, array.key(id)?, row)?;
        let values: Vec<Value> = values.into_iter().cloned().collect();
        value::key_bytes(array, id, &values).ok()
    };
    let mut index = HashMap::new();
    for (row, number) in rows.rows().iter().zip(0..) {
        if let Some(content) = content(row) {
            index.entry(content).or_insert(number);
        }
    }
    index
}

/// Maximum length in bytes of the data in one part of a long answer.
const PIECE_BYTES_MAX: usize = 32_000;

/// Splits a value into pieces that fit a message: the whole value if it fits, otherwise tables between rows, and
/// structures between members.
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
