//! Keys, which select rows by their content (RFC 5812, 4.5.3; KEYINFO of RFC 5810, 7.1.1).
//!
//! *Decision*: the value of a key with one field is the value of the field. Several fields are packed like the members
//! of a struct, so a field of variable size has its own FULLDATA. We also read a FULLDATA around a single field.

use weir_model::Value;

use super::{ValueError, decode, encode};
use crate::schema::{Array, Key, Kind, member};
use crate::wire::ResultCode;

fn fields(array: &Array, id: u32) -> Result<Vec<&Kind>, ValueError> {
    let key = array.key(id).ok_or_else(|| {
        let ids: Vec<_> = array.keys.iter().map(|key| key.id.to_string()).collect();
        let message = if ids.is_empty() {
            "the table has no keys: select a row by its index".to_owned()
        } else {
            format!("the table has no key {id}; its keys are {}", ids.join(", "))
        };
        ValueError::new(ResultCode::InvalidPath, message)
    })?;
    Ok(key
        .fields
        .iter()
        .filter_map(|field| array.field(field))
        .collect())
}

/// Encodes a KEYINFO: the values of the fields of the key `id`, in order.
pub fn key_bytes(array: &Array, id: u32, values: &[Value]) -> Result<Vec<u8>, ValueError> {
    let fields = fields(array, id)?;
    if fields.len() != values.len() {
        let (needs, given) = (fields.len(), values.len());
        let message = format!("the key has {needs} fields, not {given}");
        return Err(ValueError::new(ResultCode::InvalidParameters, message));
    }
    let mut octets = Vec::new();
    let one = fields.len() == 1;
    for (kind, value) in fields.into_iter().zip(values) {
        // Each field is aligned relative to its own start, because a key has no other encoding.
        let mut field = Vec::new();
        let complete = if one {
            encode::full(kind, value, &mut field)?
        } else {
            encode::full_within(kind, value, &mut field)?
        };
        octets.extend(field);
        if !complete {
            let message = "the fields of the key have no FULLDATA: select the row by its index";
            return Err(ValueError::new(ResultCode::NotSupported, message));
        }
    }
    Ok(octets)
}

/// Decodes a KEYINFO to the values of the fields of the key `id`.
pub fn key_values(array: &Array, id: u32, octets: &[u8]) -> Result<Vec<Value>, ValueError> {
    let fields = fields(array, id)?;
    if let [kind] = fields[..] {
        let octets = if kind.is_variable() {
            decode::unwrapped(octets).unwrap_or(octets)
        } else {
            octets
        };
        return Ok(vec![decode::full(kind, octets)?]);
    }
    let mut values = Vec::new();
    decode::whole(octets, |rest| {
        for kind in fields {
            values.push(decode::full_within(kind, rest)?);
        }
        Ok(Value::Absent)
    })?;
    Ok(values)
}

/// The values of the fields of a key in a row; `None` if the row lacks a field.
pub fn key_of_row<'v>(array: &Array, key: &Key, row: &'v Value) -> Option<Vec<&'v Value>> {
    let field = |path: &Vec<u32>| {
        let (mut kind, mut value) = (&array.element, row);
        for id in path {
            let part = member(kind.members(), *id)?;
            (kind, value) = (&part.kind, value.get(&part.name)?);
        }
        Some(value)
    };
    key.fields.iter().map(field).collect()
}

/// The index of the row in which the fields of the key `id` have these values; `rows` must have the form that
/// [`decode`](super::decode) returns.
pub fn find_row(array: &Array, rows: &Value, id: u32, values: &[Value]) -> Option<u32> {
    let key = array.key(id)?;
    let is_it = |row: &Value| {
        key_of_row(array, key, row).is_some_and(|of_row| of_row.into_iter().eq(values))
    };
    match rows {
        Value::List(rows) => rows
            .iter()
            .zip(0..)
            .find(|(row, _)| is_it(row))
            .map(|(_, n)| n),
        Value::Struct(rows) if array.is_map() => {
            let [Value::Text(wanted)] = values else {
                return None;
            };
            rows.iter()
                .zip(0..)
                .find(|((name, _), _)| name == wanted)
                .map(|(_, n)| n)
        }
        Value::Struct(rows) => {
            let (index, _) = rows.iter().find(|(_, row)| is_it(row))?;
            index.parse().ok()
        }
        _ => None,
    }
}
