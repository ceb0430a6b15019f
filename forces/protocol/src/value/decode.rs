//! Decodes octets to values.

use weir_model::Value;

use super::{ValueError, scalar};
use crate::schema::{Array, Component, Kind, Size, member};
use crate::wire::bytes::{padded, u32_at};
use crate::wire::tlv::{HEAD_LEN, Ilv, Ilvs, TlvKind, View};
use crate::wire::{Content, ResultCode};

type Decoded = Result<Value, ValueError>;

pub(super) fn content(kind: &Kind, content: &Content) -> Decoded {
    match content {
        Content::Full(octets) => {
            let plain = full(kind, octets);
            // Some senders wrap the rows of a table in another FULLDATA.
            match (plain, kind.array().and(unwrapped(octets))) {
                (Err(error), Some(within)) => full(kind, within).map_err(|_| error),
                (plain, _) => plain,
            }
        }
        Content::Sparse(parts) => from_parts(kind, parts),
        _ => Err(no_data()),
    }
}

pub(super) fn members(members: &[Component], content: &Content) -> Decoded {
    match content {
        Content::Full(octets) => whole(octets, |rest| full_members(members, rest)),
        Content::Sparse(parts) => struct_from_parts(members, parts),
        _ => Err(no_data()),
    }
}

fn no_data() -> ValueError {
    ValueError::new(
        ResultCode::InvalidTlv,
        "the path has neither FULLDATA nor SPARSEDATA",
    )
}

fn mismatch(message: impl Into<String>) -> ValueError {
    ValueError::new(ResultCode::LengthMismatch, message)
}

/// Decodes the value of a FULLDATA.
pub(super) fn full(kind: &Kind, octets: &[u8]) -> Decoded {
    match kind.resolved() {
        Kind::Text(_) | Kind::Octets(_) => scalar::decode(kind.resolved(), octets),
        Kind::Array(array) => whole(octets, |rest| full_rows(array, rest)),
        other => whole(octets, |rest| full_within(other, rest)),
    }
}

/// Reads a value that must use all octets, except up to three zeros, because some senders count the padding as data.
pub(super) fn whole(octets: &[u8], read: impl FnOnce(&mut &[u8]) -> Decoded) -> Decoded {
    let mut rest = octets;
    let value = read(&mut rest)?;
    if rest.len() < 4 && rest.iter().all(|octet| *octet == 0) {
        Ok(value)
    } else {
        Err(mismatch(format!(
            "{} octets are left after the value",
            rest.len()
        )))
    }
}

/// The content of a FULLDATA, if the octets are exactly one FULLDATA.
pub(super) fn unwrapped(octets: &[u8]) -> Option<&[u8]> {
    let mut rest = octets;
    let within = take_tlv(&mut rest).ok()?;
    rest.is_empty().then_some(within)
}

/// Decodes a part of a FULLDATA and removes its octets from `rest`.
pub(super) fn full_within(kind: &Kind, rest: &mut &[u8]) -> Decoded {
    let kind = kind.resolved();
    match kind {
        Kind::Struct(members) => full_members(members, rest),
        Kind::Union(_) => {
            let message = "a union needs SPARSEDATA, which identifies its member";
            Err(ValueError::new(ResultCode::InvalidTlv, message))
        }
        Kind::Array(array) if matches!(array.size, Size::Fixed(_)) => full_rows(array, rest),
        Kind::Array(_) | Kind::Text(_) | Kind::Octets(_) => full(kind, take_tlv(rest)?),
        single => {
            let len = scalar::len(single).unwrap_or(0);
            scalar::decode(single, take(rest, len)?)
        }
    }
}

fn full_members(members: &[Component], rest: &mut &[u8]) -> Decoded {
    let mut values = Vec::new();
    for member in members {
        let value = full_within(&member.kind, rest).map_err(|e| e.within(&member.name))?;
        values.push((member.name.clone().into(), value));
    }
    Ok(Value::Struct(values))
}

/// Decodes the rows of a table: a fixed number of rows, or all that follow.
fn full_rows(array: &Array, rest: &mut &[u8]) -> Decoded {
    let most = match array.size {
        Size::Fixed(count) => count as usize,
        Size::Variable(_) => usize::MAX,
    };
    let mut rows = Vec::new();
    while rows.len() < most && (rest.len() >= 4 || most < usize::MAX) {
        let index = u32_at(take(rest, 4)?, 0);
        let row = full_within(&array.element, rest);
        rows.push((index, row.map_err(|e| e.within(&index.to_string()))?));
    }
    of_rows(array, rows)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], ValueError> {
    let Some((taken, left)) = rest.split_at_checked(len) else {
        let left = rest.len();
        return Err(mismatch(format!(
            "{left} octets are left, but {len} are needed"
        )));
    };
    *rest = left;
    Ok(taken)
}

/// The content of a FULLDATA within a FULLDATA. The last one may lack its padding.
fn take_tlv<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ValueError> {
    let Some(view) = View::new_checked(rest) else {
        return Err(mismatch(
            "a value of variable size has no FULLDATA of its own",
        ));
    };
    if TlvKind::from(view.kind()) != TlvKind::FullData {
        let message = "a value of variable size must be in a FULLDATA of its own";
        return Err(ValueError::new(ResultCode::InvalidTlv, message));
    }
    let len = usize::from(view.length());
    let within = rest.get(HEAD_LEN..len);
    let within = within.ok_or_else(|| {
        let left = rest.len();
        mismatch(format!(
            "a FULLDATA has a length of {len}, but only {left} octets are left"
        ))
    })?;
    *rest = rest.get(padded(len)..).unwrap_or_default();
    Ok(within)
}

/// Makes a table of rows and their indices.
fn of_rows(array: &Array, mut rows: Vec<(u32, Value)>) -> Decoded {
    rows.sort_by_key(|(index, _)| *index);
    if let Some(pair) = rows.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let message = format!("the row {} occurs twice", pair[0].0);
        return Err(ValueError::new(ResultCode::InvalidParameters, message));
    }
    if array.is_map() {
        return rows
            .into_iter()
            .map(|(_, row)| named(row))
            .collect::<Result<_, _>>()
            .map(Value::Struct);
    }
    let is_dense = rows
        .last()
        .is_none_or(|(last, _)| *last as usize + 1 == rows.len());
    Ok(if is_dense {
        Value::List(rows.into_iter().map(|(_, row)| row).collect())
    } else {
        let row = |(index, row): (u32, Value)| (index.to_string().into(), row);
        Value::Struct(rows.into_iter().map(row).collect())
    })
}

/// Splits a row of a map into the name and the value.
fn named(row: Value) -> Result<(std::borrow::Cow<'static, str>, Value), ValueError> {
    let Value::Struct(members) = row else {
        unreachable!("a row of a map is a struct")
    };
    let mut members = members.into_iter().map(|(_, value)| value);
    match (members.next(), members.next()) {
        (Some(Value::Text(name)), Some(value)) => Ok((name.into(), value)),
        _ => {
            let message = "a row must have a name and a value";
            Err(ValueError::new(ResultCode::InvalidParameters, message))
        }
    }
}

/// Makes a value from its parts.
fn from_parts(kind: &Kind, parts: &[Ilv]) -> Decoded {
    match kind.resolved() {
        Kind::Struct(members) => struct_from_parts(members, parts),
        Kind::Union(members) => match parts.len() {
            1 => struct_from_parts(members, parts),
            count => {
                let message = format!("a union has one member, not {count}");
                Err(ValueError::new(ResultCode::InvalidParameters, message))
            }
        },
        Kind::Array(array) => {
            let row = |part: &Ilv| {
                let row = part_value(&array.element, &part.value);
                Ok((
                    part.id,
                    row.map_err(|e: ValueError| e.within(&part.id.to_string()))?,
                ))
            };
            of_rows(array, parts.iter().map(row).collect::<Result<_, _>>()?)
        }
        _ => {
            let message = "a single value has no parts: it needs FULLDATA";
            Err(ValueError::new(ResultCode::InvalidTlv, message))
        }
    }
}

fn struct_from_parts(members: &[Component], parts: &[Ilv]) -> Decoded {
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        let Some(member) = member(members, part.id) else {
            let message = format!("there is no member {}", part.id);
            return Err(ValueError::new(ResultCode::InvalidPath, message));
        };
        let value = part_value(&member.kind, &part.value).map_err(|e| e.within(&member.name))?;
        values.push((member, value));
    }
    let place = |of: &Component| members.iter().position(|member| member.id == of.id);
    values.sort_by_cached_key(|(member, _)| place(member));
    if let Some(pair) = values.windows(2).find(|pair| pair[0].0.id == pair[1].0.id) {
        let message = format!("the member `{}` occurs twice", pair[0].0.name);
        return Err(ValueError::new(ResultCode::InvalidParameters, message));
    }
    let named = |(member, value): (&Component, Value)| (member.name.clone().into(), value);
    Ok(Value::Struct(values.into_iter().map(named).collect()))
}

/// Decodes the value of an ILV. A value with parts is a series of ILVs, as in appendix C, or is packed as in a
/// FULLDATA.
fn part_value(kind: &Kind, octets: &[u8]) -> Decoded {
    match kind.resolved() {
        Kind::Struct(_) | Kind::Union(_) | Kind::Array(_) => {
            let parts = Ilvs::new("SPARSEDATA-TLV", octets, 0).owned();
            let sparse = match parts {
                Ok(parts) => from_parts(kind, &parts),
                Err(_) => Err(mismatch("the parts do not fill the value")),
            };
            sparse.or_else(|error| full(kind, octets).map_err(|_| error))
        }
        single => {
            let octets = match scalar::len(single) {
                Some(len) => {
                    let mut rest = octets;
                    let taken = take(&mut rest, len)?;
                    whole(rest, |_| Ok(Value::Absent))?;
                    taken
                }
                None => octets,
            };
            scalar::decode(single, octets)
        }
    }
}
