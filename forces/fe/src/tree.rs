//! Finds and changes a part of a value along a path; all classes are read and written in this way.

use std::borrow::Cow;

use weir_model::Value;
use weir_protocol::schema::{Array, Kind};
use weir_protocol::value;
use weir_protocol::wire::{Content, ResultCode};

use crate::request::{Failure, Step};

/// A part of a value.
pub(crate) struct Found<'a> {
    pub(crate) kind: &'a Kind,
    /// `None` if the part exists in the layout but has no value.
    pub(crate) value: Option<Cow<'a, Value>>,
    /// Path of the part, with the indices of rows instead of keys.
    pub(crate) ids: Vec<u32>,
    /// Indices of the rows that keys have selected.
    pub(crate) indices: Vec<u32>,
    /// The selected rows of a table; `None` for all rows.
    pub(crate) range: Option<(u32, u32)>,
}

/// Finds the part at the end of the steps.
pub(crate) fn find<'a>(
    kind: &'a Kind,
    value: &'a Value,
    steps: &[Step],
) -> Result<Found<'a>, Failure> {
    let mut found = Found {
        kind,
        value: Some(Cow::Borrowed(value)),
        ids: Vec::new(),
        indices: Vec::new(),
        range: None,
    };
    for step in steps {
        found.enter(step)?;
    }
    Ok(found)
}

impl Found<'_> {
    fn enter(&mut self, step: &Step) -> Result<(), Failure> {
        let invalid = |why: String| Failure::new(ResultCode::InvalidPath, why);
        let place = || format!("below the path {:?}", self.ids);
        match (self.kind.resolved(), step) {
            (Kind::Struct(members) | Kind::Union(members), Step::Id(id)) => {
                let member = members.iter().find(|member| member.id == *id);
                let member =
                    member.ok_or_else(|| invalid(format!("no component {id} {}", place())))?;
                self.value = match self.value.take() {
                    Some(Cow::Borrowed(value)) => value.get(&member.name).map(Cow::Borrowed),
                    Some(Cow::Owned(value)) => value.get(&member.name).cloned().map(Cow::Owned),
                    None => None,
                };
                self.value = self.value.take().filter(|value| **value != Value::Absent);
                self.kind = &member.kind;
                self.ids.push(*id);
            }
            (Kind::Array(array), Step::Id(index)) => {
                self.value = match self.value.take() {
                    Some(Cow::Borrowed(rows)) => row(array, rows, *index),
                    Some(Cow::Owned(rows)) => {
                        let row = row(array, &rows, *index);
                        row.map(|row| Cow::Owned(row.into_owned()))
                    }
                    None => None,
                };
                self.kind = &array.element;
                self.ids.push(*index);
                if self.value.is_none() {
                    let why = format!("there is no row {index}");
                    return Err(Failure::new(ResultCode::NotFound, why));
                }
            }
            (Kind::Array(array), Step::Key { id, values }) => {
                let values = value::key_values(array, *id, values)?;
                let rows = self.value.as_deref().unwrap_or(&Value::Absent);
                let index = value::find_row(array, rows, *id, &values);
                let index = index.ok_or_else(|| {
                    Failure::new(ResultCode::NotFound, "no row has this key".to_owned())
                })?;
                self.indices.push(index);
                return self.enter(&Step::Id(index));
            }
            (Kind::Array(_), Step::Range { first, last }) => self.range = Some((*first, *last)),
            (_, Step::Key { .. } | Step::Range { .. }) => {
                let why = format!("{:?} is not a table", self.ids);
                return Err(Failure::new(ResultCode::NotATable, why));
            }
            (_, Step::Id(id)) => return Err(invalid(format!("no component {id} {}", place()))),
        }
        Ok(())
    }

    /// Encodes the value of the part.
    pub(crate) fn content(&self) -> Result<Content, Failure> {
        let Some(value) = &self.value else {
            let why = "it has no value on this FE";
            return Err(Failure::new(ResultCode::ComponentDoesNotExist, why));
        };
        match self.range {
            Some(_) => Ok(Content::Sparse(self.rows()?)),
            None => Ok(value::encode(self.kind, value)?),
        }
    }

    /// The selected rows, with their indices.
    pub(crate) fn rows(&self) -> Result<Vec<weir_protocol::wire::Ilv>, Failure> {
        let value = self.value.as_deref().unwrap_or(&Value::Absent);
        let (first, last) = self.range.unwrap_or((0, u32::MAX));
        let mut rows = value::encode_parts(self.kind, value)?;
        rows.retain(|row| (first..=last).contains(&row.id));
        if rows.is_empty() && self.range.is_some() {
            let why = format!("there is no row from {first} to {last}");
            return Err(Failure::new(ResultCode::Empty, why));
        }
        Ok(rows)
    }
}

/// The rows of a table, with their indices. Values of a map are numbered.
pub(crate) fn rows(table: &Value) -> Vec<(u32, &Value)> {
    match table {
        Value::List(rows) => (0..).zip(rows).collect(),
        Value::Struct(rows) => {
            let counted = (0..).zip(rows);
            counted
                .map(|(n, (name, row))| (name.parse().unwrap_or(n), row))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The row with an index.
fn row<'v>(array: &Array, rows: &'v Value, index: u32) -> Option<Cow<'v, Value>> {
    match rows {
        Value::List(rows) => rows.get(index as usize).map(Cow::Borrowed),
        Value::Struct(values) if array.is_map() => {
            let (name, value) = values.get(index as usize)?;
            Some(Cow::Owned(Value::Struct(vec![
                ("name".into(), (&**name).into()),
                ("value".into(), value.clone()),
            ])))
        }
        rows => rows.get(&index.to_string()).map(Cow::Borrowed),
    }
}

/// Sets the part at the end of the steps; SPARSEDATA changes only the parts that it contains.
pub(crate) fn put(
    kind: &Kind,
    value: &mut Value,
    steps: &[Step],
    content: &Content,
) -> Result<(), Failure> {
    let Some((step, rest)) = steps.split_first() else {
        let given = value::decode(kind, content)?;
        match content {
            Content::Sparse(_) => merge(value, given),
            _ => *value = given,
        }
        return Ok(());
    };
    let (below, kind) = enter(kind, value, step, true)?;
    put(kind, below, rest, content)
}

/// Deletes the row or rows at the end of the steps.
pub(crate) fn delete(kind: &Kind, value: &mut Value, steps: &[Step]) -> Result<(), Failure> {
    let Some((step, rest)) = steps.split_first() else {
        return match kind.array() {
            Some(_) => {
                *value = Value::Struct(Vec::new());
                Ok(())
            }
            None => Err(not_deletable()),
        };
    };
    let Some(array) = kind.array().filter(|_| rest.is_empty()) else {
        let (below, kind) = enter(kind, value, step, false)?;
        return delete(kind, below, rest);
    };
    let (first, last) = match step {
        Step::Id(index) => (*index, *index),
        Step::Range { first, last } => (*first, *last),
        Step::Key { id, values } => {
            let values = value::key_values(array, *id, values)?;
            let index = value::find_row(array, value, *id, &values).ok_or_else(no_row)?;
            (index, index)
        }
    };
    let rows = by_index(value);
    let before = rows.len();
    rows.retain(|(index, _)| {
        let index = index.parse().unwrap_or(u32::MAX);
        !(first..=last).contains(&index)
    });
    match (rows.len() < before, step) {
        (true, _) => Ok(()),
        (false, Step::Range { .. }) => Err(Failure::new(ResultCode::Empty, "there is no such row")),
        (false, _) => Err(no_row()),
    }
}

fn no_row() -> Failure {
    Failure::new(ResultCode::NotFound, "there is no such row")
}

fn not_deletable() -> Failure {
    let why = "only rows and settings can be deleted";
    Failure::new(ResultCode::NotSupported, why)
}

/// One step down to the value, which is created if `makes` is true.
fn enter<'v, 'k>(
    kind: &'k Kind,
    value: &'v mut Value,
    step: &Step,
    makes: bool,
) -> Result<(&'v mut Value, &'k Kind), Failure> {
    let (name, kind) = match (kind.resolved(), step) {
        (Kind::Struct(members), Step::Id(id)) => {
            let member = members.iter().find(|member| member.id == *id);
            let invalid = || {
                Failure::new(
                    ResultCode::InvalidPath,
                    format!("there is no component {id}"),
                )
            };
            let member = member.ok_or_else(invalid)?;
            (member.name.clone(), &member.kind)
        }
        (Kind::Array(array), Step::Id(index)) => (index.to_string(), &array.element),
        (Kind::Array(array), Step::Key { id, values }) => {
            let values = value::key_values(array, *id, values)?;
            let index = value::find_row(array, value, *id, &values).ok_or_else(no_row)?;
            (index.to_string(), &array.element)
        }
        _ => {
            return Err(Failure::new(
                ResultCode::InvalidPath,
                "there is no such path",
            ));
        }
    };
    let members = by_index(value);
    let at = members.iter().position(|(known, _)| *known == name);
    let at = match at {
        Some(at) => at,
        None if makes => {
            members.push((name.into(), Value::Absent));
            members.len() - 1
        }
        None => return Err(no_row()),
    };
    Ok((&mut members[at].1, kind))
}

/// The members of a structure, or the rows of a table by their indices.
fn by_index(value: &mut Value) -> &mut Vec<(Cow<'static, str>, Value)> {
    if let Value::List(rows) = value {
        let rows = std::mem::take(rows).into_iter().enumerate();
        let rows = rows.map(|(index, row)| (index.to_string().into(), row));
        *value = Value::Struct(rows.collect());
    }
    if !matches!(value, Value::Struct(_)) {
        *value = Value::Struct(Vec::new());
    }
    match value {
        Value::Struct(members) => members,
        _ => unreachable!("made one above"),
    }
}

fn merge(value: &mut Value, given: Value) {
    let mut given = given;
    if !matches!(given, Value::Struct(_) | Value::List(_)) {
        *value = given;
        return;
    }
    let members = by_index(value);
    for (name, part) in std::mem::take(by_index(&mut given)) {
        match members.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => merge(old, part),
            None => members.push((name, part)),
        }
    }
}
