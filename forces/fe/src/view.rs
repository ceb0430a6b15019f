//! A snapshot of the FE: the values of its LFBs, and the answers to the paths of a Query.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use weir_base::setting::Settings;
use weir_lfb::Plan;
use weir_lfb::named::Named;
use weir_model::{Value, typed};
use weir_protocol::schema::{Component, Kind};
use weir_protocol::session::execute::Answer;
use weir_protocol::session::fe::Fe;
use weir_protocol::wire::{Content, OperationKind, ResultCode};

use crate::blocks::{Block, QUEUES, Source, Tables};
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
    /// Values of instances that were read before.
    values: RefCell<BTreeMap<(u32, u32), Rc<Value>>>,
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
        let found = tree::find(&block.kind, &value, &item.steps)?;
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
            let found = tree::find(&block.kind, &value, &item.steps)?;
            let mut pieces = Vec::new();
            cut(&found, &mut pieces)?;
            Ok(pieces)
        };
        pieces().unwrap_or_else(|failure| vec![(ids(&item.steps), failure.answer().content)])
    }

    /// The value of an instance, with at least the part that the path needs.
    fn part(&self, block: &Block, item: &Item) -> Result<Rc<Value>, Failure> {
        let Source::Fib(table) = block.source else {
            return self.value(item.class, item.instance);
        };
        self.own.instance(block, item.instance, self.plan)?;
        let rows = forwarding::value(block, table, self.fib, &item.steps);
        Ok(Rc::new(rows))
    }

    /// The value of an instance.
    pub(crate) fn value(&self, class: u32, instance: u32) -> Result<Rc<Value>, Failure> {
        if let Some(value) = self.values.borrow().get(&(class, instance)) {
            return Ok(Rc::clone(value));
        }
        let block = self.own.blocks().get(class)?;
        let value = Rc::new(self.made(block, instance)?);
        let mut values = self.values.borrow_mut();
        values.insert((class, instance), Rc::clone(&value));
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
