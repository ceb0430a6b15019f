//! The forwarding tables as LFBs of RFC 6956: reads and writes of their rows.
//!
//! A table can have more than a hundred thousand rows. Therefore a read builds only the rows that its path selects, and
//! a write touches only the rows that it changes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use weir_model::Value;
use weir_protocol::schema::Kind;
use weir_protocol::value;
use weir_protocol::wire::{Content, OperationKind, ResultCode};

use crate::blocks::{self, Block, TABLE};
use crate::fib::{Before, Fib, RouteChange, Table};
use crate::request::{Failure, Item, Step};
use crate::tree;

/// Changes of rows, and the resulting changes of routes.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// The previous rows, in the order of the changes.
    pub(crate) journal: Vec<Before>,
    pub(crate) routes: Vec<RouteChange>,
}

/// The value of the instance, with only the rows that the steps select.
pub(crate) fn value(block: &Block, table: Table, fib: &Fib, steps: &[Step]) -> Value {
    let row = |(row, value): (u32, &Value)| (Cow::Owned(row.to_string()), value.clone());
    let rows = match steps {
        [Step::Id(TABLE), Step::Id(index), ..] => {
            let found = fib.row(table, *index);
            found
                .map(|value| row((*index, value)))
                .into_iter()
                .collect()
        }
        [Step::Id(TABLE), Step::Range { first, last }, ..] => {
            let rows = fib.rows(table, *first);
            rows.take_while(|(row, _)| row <= last).map(row).collect()
        }
        [] | [Step::Id(TABLE), ..] => fib.rows(table, 0).map(row).collect(),
        _ => Vec::new(),
    };
    let name = block.schema.names(&[TABLE]).to_string();
    Value::Struct(vec![(Cow::Owned(name), Value::Struct(rows))])
}

/// A write of rows.
pub(crate) struct Write<'a> {
    pub(crate) fib: &'a mut Fib,
    pub(crate) table: Table,
    /// Records the changes made, even if the write fails midway.
    pub(crate) changed: &'a mut Changed,
    /// Whether a port with this number exists.
    pub(crate) is_port: &'a dyn Fn(u32) -> bool,
}

impl Write<'_> {
    /// Executes one path of a Config.
    pub(crate) fn execute(&mut self, block: &Block, item: &Item) -> Result<(), Failure> {
        if item.instance != 1 {
            let why = format!("{} has only the instance 1", block.schema.name);
            return Err(Failure::new(ResultCode::InstanceNotFound, why));
        }
        let Some((Step::Id(TABLE), steps)) = item.steps.split_first() else {
            let why = format!("only {} can be written", block.schema.names(&[TABLE]));
            return Err(Failure::new(ResultCode::ReadOnly, why));
        };
        let kind = &block.schema.component(&[TABLE])?.kind;
        match (item.operation, steps) {
            (OperationKind::Set, []) => self.set_table(kind, &item.content),
            (OperationKind::Set, steps) => self.set_row(kind, steps, &item.content),
            (_, steps) => self.delete(kind, steps),
        }
    }

    /// FULLDATA replaces the table; SPARSEDATA sets the rows that it contains.
    fn set_table(&mut self, kind: &Kind, content: &Content) -> Result<(), Failure> {
        let table = blocks::checked(kind, content)?;
        let rows = tree::rows(&table);
        if !matches!(content, Content::Sparse(_)) {
            let given: BTreeSet<u32> = rows.iter().map(|(index, _)| *index).collect();
            self.delete_where(0, u32::MAX, |row| !given.contains(&row))?;
        }
        rows.into_iter()
            .try_for_each(|(index, row)| self.set(index, row.clone()))
    }

    fn set_row(&mut self, kind: &Kind, steps: &[Step], content: &Content) -> Result<(), Failure> {
        let (index, rest) = self.row(kind, steps)?;
        let element = kind.array().map_or(kind, |array| &array.element);
        let mut row = match (rest, content) {
            ([], Content::Full(_)) => Value::Absent,
            _ => self
                .fib
                .row(self.table, index)
                .cloned()
                .unwrap_or(Value::Absent),
        };
        tree::put(element, &mut row, rest, content)?;
        value::check(element, &row)?;
        self.set(index, row)
    }

    fn delete(&mut self, kind: &Kind, steps: &[Step]) -> Result<(), Failure> {
        match steps {
            [] => self.delete_where(0, u32::MAX, |_| true).map(|_| ()),
            [Step::Range { first, last }] => match self.delete_where(*first, *last, |_| true)? {
                0 => {
                    let why = format!("there is no row from {first} to {last}");
                    Err(Failure::new(ResultCode::Empty, why))
                }
                _ => Ok(()),
            },
            steps => match self.row(kind, steps)? {
                (row, []) => self.delete_row(row),
                _ => {
                    let why = "only rows can be deleted, not their members";
                    Err(Failure::new(ResultCode::NotSupported, why))
                }
            },
        }
    }

    /// The row that the first step selects, and the steps within it.
    fn row<'s>(&self, kind: &Kind, steps: &'s [Step]) -> Result<(u32, &'s [Step]), Failure> {
        let invalid = |code, why| Err(Failure::new(code, why));
        match (steps.split_first(), kind.array()) {
            (Some((Step::Id(row), rest)), _) => Ok((*row, rest)),
            (Some((Step::Key { id, values }, rest)), Some(array)) => {
                let values = value::key_values(array, *id, values)?;
                let rows = self.fib.rows(self.table, 0);
                let rows = rows.map(|(row, value)| (row.to_string().into(), value.clone()));
                match value::find_row(array, &Value::Struct(rows.collect()), *id, &values) {
                    Some(row) => Ok((row, rest)),
                    None => invalid(ResultCode::NotFound, "no row has this key"),
                }
            }
            _ => invalid(ResultCode::InvalidPath, "the path must select a row"),
        }
    }

    fn set(&mut self, row: u32, value: Value) -> Result<(), Failure> {
        if let Table::NextHops(_) = self.table
            && let Some(port) = value.whole("L3PortID")
            && !u32::try_from(port).is_ok_and(self.is_port)
        {
            let why = format!(
                "row {row}: there is no port {port} (LFBSelectors lists the instances of `ports`)"
            );
            return Err(Failure::new(ResultCode::InvalidParameters, why));
        }
        let Changed { journal, routes } = self.changed;
        let before = self.fib.set(self.table, row, value, routes);
        journal.push(before.map_err(|code| refused(row, code))?);
        Ok(())
    }

    fn delete_row(&mut self, row: u32) -> Result<(), Failure> {
        let Changed { journal, routes } = self.changed;
        let before = self.fib.delete(self.table, row, routes);
        journal.push(before.map_err(|code| refused(row, code))?);
        Ok(())
    }

    /// Deletes the rows from `first` to `last` for which `is_meant` is true; returns their number.
    fn delete_where(
        &mut self,
        first: u32,
        last: u32,
        is_meant: impl Fn(u32) -> bool,
    ) -> Result<usize, Failure> {
        let rows = self.fib.rows(self.table, first).map(|(row, _)| row);
        let rows = rows.take_while(|row| *row <= last);
        let rows: Vec<u32> = rows.filter(|row| is_meant(*row)).collect();
        rows.iter().try_for_each(|row| self.delete_row(*row))?;
        Ok(rows.len())
    }
}

fn refused(row: u32, code: ResultCode) -> Failure {
    let why = match code {
        ResultCode::Exists => "another row has this prefix",
        ResultCode::NotFound => "there is no such row",
        ResultCode::ValueOutOfRange => "the prefix is longer than an address",
        ResultCode::MemoryError => "the table is full",
        _ => {
            "a row needs all of its members, and addresses of the table's family; a group has 1 to 256 next hops, or \
             drops packets"
        }
    };
    Failure::new(code, format!("row {row}: {why}"))
}
