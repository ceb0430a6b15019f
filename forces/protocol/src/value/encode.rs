//! Encodes values as octets.

use weir_base::setting::{did_you_mean, nearest};
use weir_model::Value;

use super::{ValueError, scalar};
use crate::schema::{Array, Component, Kind, Size};
use crate::wire::bytes::padded;
use crate::wire::tlv::{HEAD_LEN, ILV_HEAD_LEN, LEN_MAX, TlvKind};
use crate::wire::{Content, Ilv, ResultCode};

pub(super) fn content(kind: &Kind, value: &Value) -> Result<Content, ValueError> {
    let mut octets = Vec::new();
    if full(kind, value, &mut octets)? {
        return Ok(Content::Full(octets));
    }
    parts(kind, value).map(Content::Sparse)
}

pub(super) fn members(members: &[Component], value: &Value) -> Result<Content, ValueError> {
    let mut octets = Vec::new();
    if full_members(members, value, &mut octets)? {
        return Ok(Content::Full(octets));
    }
    struct_parts(members, value).map(Content::Sparse)
}

/// Appends a complete value; returns false if a part of it is absent, or cannot be in FULLDATA.
pub(super) fn full(kind: &Kind, value: &Value, to: &mut Vec<u8>) -> Result<bool, ValueError> {
    match kind.resolved() {
        Kind::Struct(members) => full_members(members, value, to),
        Kind::Union(_) => Ok(false),
        Kind::Array(array) => full_rows(array, value, to),
        single => scalar::encode(single, value, to).map(|()| true),
    }
}

fn full_members(
    members: &[Component],
    value: &Value,
    to: &mut Vec<u8>,
) -> Result<bool, ValueError> {
    let given = given(members, value)?;
    if given.len() < members.len() {
        return Ok(false);
    }
    for (member, value) in given {
        let complete = full_within(&member.kind, value, to);
        if !complete.map_err(|error| error.within(&member.name))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Appends a part of a complete value; a part of variable size gets its own FULLDATA.
pub(super) fn full_within(
    kind: &Kind,
    value: &Value,
    to: &mut Vec<u8>,
) -> Result<bool, ValueError> {
    if !kind.is_variable() {
        return full(kind, value, to);
    }
    let at = to.len();
    if !at.is_multiple_of(4) {
        return Ok(false);
    }
    to.extend([0; HEAD_LEN]);
    // The parts of this value are aligned relative to the start of the value.
    let mut within = Vec::new();
    if !full(kind, value, &mut within)? {
        return Ok(false);
    }
    let len = HEAD_LEN + within.len();
    let Some(len) = u16::try_from(len)
        .ok()
        .filter(|len| usize::from(*len) <= LEN_MAX)
    else {
        return Err(too_long(len));
    };
    to[at..at + 2].copy_from_slice(&u16::from(TlvKind::FullData).to_be_bytes());
    to[at + 2..at + 4].copy_from_slice(&len.to_be_bytes());
    to.extend(within);
    to.resize(padded(to.len()), 0);
    Ok(true)
}

fn too_long(len: usize) -> ValueError {
    let message = format!("the value has {len} octets on the wire, but may have at most {LEN_MAX}");
    ValueError::new(ResultCode::ContentsTooLong, message)
}

fn full_rows(array: &Array, value: &Value, to: &mut Vec<u8>) -> Result<bool, ValueError> {
    let rows = rows(array, value)?;
    if let Size::Fixed(count) = array.size
        && rows.len() < count as usize
    {
        return Ok(false);
    }
    for (index, row) in rows {
        to.extend(index.to_be_bytes());
        let complete = row.append(array, to);
        if !complete.map_err(|error| error.within(&index.to_string()))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A row to be encoded, of a table or of a map.
enum Row<'v> {
    Plain(&'v Value),
    Named(Value),
}

impl Row<'_> {
    fn value(&self) -> &Value {
        match self {
            Self::Plain(value) => value,
            Self::Named(value) => value,
        }
    }

    fn append(&self, array: &Array, to: &mut Vec<u8>) -> Result<bool, ValueError> {
        full_within(&array.element, self.value(), to)
    }
}

/// The rows of a table, with their indices.
fn rows<'v>(array: &Array, value: &'v Value) -> Result<Vec<(u32, Row<'v>)>, ValueError> {
    let rows: Vec<_> = match value {
        Value::List(rows) => (0..).zip(rows.iter().map(Row::Plain)).collect(),
        Value::Struct(values) if array.is_map() => {
            let row = |(name, value): &(std::borrow::Cow<'static, str>, Value)| {
                Row::Named(Value::Struct(vec![
                    ("name".into(), (&**name).into()),
                    ("value".into(), value.clone()),
                ]))
            };
            (0..).zip(values.iter().map(row)).collect()
        }
        Value::Struct(values) => {
            let row = |(name, value): &'v (std::borrow::Cow<'static, str>, Value)| {
                let index = name.parse().map_err(|_| {
                    let message = format!("`{name}` must be the index of a row, from 0");
                    ValueError::new(ResultCode::InvalidPath, message)
                })?;
                Ok((index, Row::Plain(value)))
            };
            values.iter().map(row).collect::<Result<_, _>>()?
        }
        _ => {
            let message = "the value must be a list of rows, or rows by their indices";
            return Err(ValueError::new(ResultCode::ValueOutOfRange, message));
        }
    };
    let (most, index_max) = match array.size {
        Size::Fixed(count) => (count, count.saturating_sub(1)),
        Size::Variable(most) => (most.unwrap_or(u32::MAX), u32::MAX),
    };
    let beyond = rows.iter().any(|(index, _)| *index > index_max);
    if rows.len() > most as usize || beyond {
        let message = format!("the table may have at most {most} rows, with indices from 0");
        return Err(ValueError::new(ResultCode::ValueOutOfRange, message));
    }
    Ok(rows)
}

/// The members that have a value, in schema order.
fn given<'s, 'v>(
    members: &'s [Component],
    value: &'v Value,
) -> Result<Vec<(&'s Component, &'v Value)>, ValueError> {
    let Value::Struct(values) = value else {
        let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
        let message = format!("the value must be a structure of {}", names.join(", "));
        return Err(ValueError::new(ResultCode::ValueOutOfRange, message));
    };
    let mut given = Vec::with_capacity(values.len().min(members.len()));
    for (at, (name, value)) in values.iter().enumerate() {
        // Values usually arrive in schema order.
        let here = members
            .iter()
            .enumerate()
            .skip(at)
            .chain(members.iter().enumerate());
        let found = here.clone().find(|(_, member)| member.name == *name);
        let Some((at, member)) = found else {
            let near = did_you_mean(nearest(name, members.iter().map(|m| m.name.as_str())));
            let message = format!("there is no member `{name}`{near}");
            return Err(ValueError::new(ResultCode::InvalidPath, message));
        };
        if *value != Value::Absent {
            given.push((at, member, value));
        }
    }
    given.sort_by_key(|(at, ..)| *at);
    if let Some(pair) = given.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let message = format!("the member `{}` is given twice", pair[0].1.name);
        return Err(ValueError::new(ResultCode::InvalidParameters, message));
    }
    Ok(given
        .into_iter()
        .map(|(_, member, value)| (member, value))
        .collect())
}

/// The parts of a value, with their identifiers.
pub(super) fn parts(kind: &Kind, value: &Value) -> Result<Vec<Ilv>, ValueError> {
    match kind.resolved() {
        Kind::Struct(members) => struct_parts(members, value),
        Kind::Union(members) => {
            let parts = struct_parts(members, value)?;
            match parts.len() {
                1 => Ok(parts),
                count => {
                    let message = format!("a union has one member, not {count}");
                    Err(ValueError::new(ResultCode::InvalidParameters, message))
                }
            }
        }
        Kind::Array(array) => {
            let part = |(index, row): (u32, Row<'_>)| {
                let value = part(&array.element, row.value());
                let value = value.map_err(|error| error.within(&index.to_string()))?;
                Ok(Ilv { id: index, value })
            };
            rows(array, value)?.into_iter().map(part).collect()
        }
        _ => unreachable!("a single value is complete"),
    }
}

fn struct_parts(members: &[Component], value: &Value) -> Result<Vec<Ilv>, ValueError> {
    let part = |(member, value): (&Component, &Value)| {
        let value = part(&member.kind, value).map_err(|error| error.within(&member.name))?;
        Ok(Ilv {
            id: member.id,
            value,
        })
    };
    given(members, value)?.into_iter().map(part).collect()
}

/// Encodes the value of an ILV.
fn part(kind: &Kind, value: &Value) -> Result<Vec<u8>, ValueError> {
    let mut octets = Vec::new();
    match kind.resolved() {
        Kind::Struct(_) | Kind::Union(_) | Kind::Array(_) => {
            for Ilv { id, value } in parts(kind, value)? {
                let len = ILV_HEAD_LEN + value.len();
                if len > LEN_MAX {
                    return Err(too_long(len));
                }
                octets.extend(id.to_be_bytes());
                octets.extend((len as u32).to_be_bytes()); // fits: at most LEN_MAX
                octets.extend(value);
                octets.resize(padded(octets.len()), 0);
            }
        }
        single => scalar::encode(single, value, &mut octets)?,
    }
    Ok(octets)
}
