//! Single values: numbers, flags, text and octets.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_model::Value;

use super::ValueError;
use crate::schema::{Integer, Kind, Number};
use crate::wire::ResultCode;

impl Number {
    /// Converts a number to a value: its name, if it has one.
    pub fn value(&self, number: i128) -> Value {
        match self.names.iter().find(|named| named.value == number) {
            Some(named) => named.name.as_str().into(),
            None => match (u64::try_from(number), i64::try_from(number)) {
                (Ok(whole), _) => Value::Whole(whole),
                (_, Ok(negative)) => negative.into(),
                _ => Value::Absent, // does not fit 64 bits
            },
        }
    }

    /// Converts a value to a number within the ranges; text is a name of a number, or its digits.
    pub fn number(&self, value: &Value) -> Result<i128, ValueError> {
        let number = match value {
            Value::Whole(number) => Some((*number).into()),
            Value::Negative(number) => Some((*number).into()),
            Value::Text(text) => {
                let named = self.names.iter().find(|named| named.name == *text);
                named.map(|named| named.value).or_else(|| digits(text))
            }
            _ => None,
        };
        let number = number.ok_or_else(|| wrong(value, &self.in_words()))?;
        let (least, most) = self.base.range();
        let permits = |(least, most): &(i128, i128)| (least..=most).contains(&&number);
        let in_ranges = self.ranges.is_empty() || self.ranges.iter().any(permits);
        if permits(&(least, most)) && in_ranges {
            Ok(number)
        } else {
            Err(wrong(value, &self.in_words()))
        }
    }

    /// Describes the permitted values.
    fn in_words(&self) -> String {
        const NAMES_SHOWN: usize = 16;
        let range = |(least, most): &(i128, i128)| {
            if least == most {
                least.to_string()
            } else {
                format!("from {least} to {most}")
            }
        };
        let ranges: Vec<_> = if self.ranges.is_empty() {
            vec![range(&self.base.range())]
        } else {
            self.ranges.iter().map(range).collect()
        };
        let names = self.names.iter().take(NAMES_SHOWN);
        let names: Vec<_> = names.map(|named| named.name.as_str()).collect();
        if names.is_empty() {
            format!("an integer {}", ranges.join(" or "))
        } else {
            format!(
                "one of {}, or an integer {}",
                names.join(", "),
                ranges.join(" or ")
            )
        }
    }
}

/// Parses an integer in decimal, or in hexadecimal after `0x`.
fn digits(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) if hex.len() <= 16 => u64::from_str_radix(hex, 16).ok().map(i128::from),
        _ => text.parse().ok(),
    }
}

fn wrong(value: &Value, permitted: &str) -> ValueError {
    let given = match value {
        Value::Text(text) => format!("\"{text}\""),
        Value::Whole(number) => number.to_string(),
        Value::Negative(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Flag(on) => on.to_string(),
        Value::Absent => "nothing".to_owned(),
        Value::List(_) => "a list".to_owned(),
        Value::Struct(_) => "a structure".to_owned(),
    };
    let message = format!("the value is {given}, but must be {permitted}");
    ValueError::new(ResultCode::ValueOutOfRange, message)
}

/// Appends the octets of a single value; panics for layouts with several values.
pub(super) fn encode(kind: &Kind, value: &Value, to: &mut Vec<u8>) -> Result<(), ValueError> {
    match kind {
        Kind::Number(number) => {
            let octets = number.number(value)?.to_be_bytes();
            to.extend(&octets[octets.len() - number.base.octets()..]);
        }
        Kind::Flag => match value {
            Value::Flag(on) => to.push((*on).into()),
            Value::Whole(number @ 0..=1) => to.push(*number as u8), // fits: 0 or 1
            _ => return Err(wrong(value, "true or false")),
        },
        Kind::Real32 => to.extend((real(value)? as f32).to_be_bytes()),
        Kind::Real64 => to.extend(real(value)?.to_be_bytes()),
        Kind::Text(most) => {
            let text = text(value)?;
            check_len(text.len(), *most)?;
            to.extend(text.as_bytes());
        }
        Kind::Bytes(len) => {
            let octets = octets_of(value)?;
            if octets.len() != *len as usize {
                return Err(wrong(
                    value,
                    &format!("{len} octets, like {}", example(*len)),
                ));
            }
            to.extend(octets);
        }
        Kind::Octets(most) => {
            let octets = octets_of(value)?;
            check_len(octets.len(), *most)?;
            to.extend(octets);
        }
        Kind::Array(_) | Kind::Struct(_) | Kind::Union(_) | Kind::Alias(_) => {
            unreachable!("a layout of several values")
        }
    }
    Ok(())
}

fn check_len(len: usize, most: Option<u32>) -> Result<(), ValueError> {
    match most {
        Some(most) if len > most as usize => {
            let message = format!("the value has {len} octets, but may have at most {most}");
            Err(ValueError::new(ResultCode::ContentsTooLong, message))
        }
        _ => Ok(()),
    }
}

fn real(value: &Value) -> Result<f64, ValueError> {
    match value {
        Value::Real(number) => Ok(*number),
        Value::Whole(number) => Ok(*number as f64),
        Value::Negative(number) => Ok(*number as f64),
        _ => Err(wrong(value, "a number")),
    }
}

/// Converts a value to text. A setting whose type the class does not define is written as text.
fn text(value: &Value) -> Result<String, ValueError> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        Value::Whole(number) => Ok(number.to_string()),
        Value::Negative(number) => Ok(number.to_string()),
        Value::Real(number) => Ok(number.to_string()),
        Value::Flag(on) => Ok(on.to_string()),
        Value::Absent | Value::List(_) | Value::Struct(_) => Err(wrong(value, "a string")),
    }
}

fn octets_of(value: &Value) -> Result<Vec<u8>, ValueError> {
    let octets = match value {
        Value::Text(text) => octets(text),
        _ => None,
    };
    octets.ok_or_else(|| {
        wrong(
            value,
            "octets in hexadecimal, like 0a:00:00:01, or an IP address",
        )
    })
}

/// Parses octets: hexadecimal pairs, with or without colons, or an IP address.
fn octets(text: &str) -> Option<Vec<u8>> {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(address.octets().to_vec());
    }
    let pair = |pair: &str| {
        if pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit()) {
            u8::from_str_radix(pair, 16).ok()
        } else {
            None
        }
    };
    if text.is_empty() {
        return Some(Vec::new());
    }
    let with_colons: Option<Vec<_>> = text.split(':').map(pair).collect();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let without = || {
        if digits.is_ascii() && digits.len().is_multiple_of(2) {
            (0..digits.len())
                .step_by(2)
                .map(|at| pair(&digits[at..at + 2]))
                .collect()
        } else {
            None
        }
    };
    let address = || Some(text.parse::<Ipv6Addr>().ok()?.octets().to_vec());
    with_colons.or_else(without).or_else(address)
}

fn example(len: u32) -> String {
    const SHOWN: u32 = 16;
    hexadecimal(&(0..len.min(SHOWN) as u8).collect::<Vec<_>>())
}

/// Formats octets as hexadecimal pairs with colons between them.
fn hexadecimal(octets: &[u8]) -> String {
    let mut text = String::with_capacity(3 * octets.len());
    for octet in octets {
        let colon = if text.is_empty() { "" } else { ":" };
        text.push_str(&format!("{colon}{octet:02x}"));
    }
    text
}

/// Number of octets of a single value of fixed size; `None` for text and octets, whose length varies.
pub(super) fn len(kind: &Kind) -> Option<usize> {
    match kind {
        Kind::Number(number) => Some(number.base.octets()),
        Kind::Flag => Some(1),
        Kind::Real32 => Some(4),
        Kind::Real64 => Some(8),
        Kind::Bytes(len) => Some(*len as usize),
        _ => None,
    }
}

/// Decodes a single value, which uses all octets.
pub(super) fn decode(kind: &Kind, octets: &[u8]) -> Result<Value, ValueError> {
    Ok(match kind {
        Kind::Number(number) => number.value(integer(number.base, octets)),
        Kind::Flag => match octets {
            [0] => Value::Flag(false),
            [1] => Value::Flag(true),
            _ => {
                let message = "the octet of a flag must be 0 or 1";
                return Err(ValueError::new(ResultCode::ValueOutOfRange, message));
            }
        },
        Kind::Real32 => Value::Real(f32::from_bits(integer(Integer::Uint32, octets) as u32).into()),
        Kind::Real64 => Value::Real(f64::from_bits(integer(Integer::Uint64, octets) as u64)),
        Kind::Bytes(_) => hexadecimal(octets).into(),
        Kind::Octets(most) => {
            check_len(octets.len(), *most)?;
            hexadecimal(octets).into()
        }
        Kind::Text(most) => {
            check_len(octets.len(), *most)?;
            let text = std::str::from_utf8(octets).map_err(|_| {
                ValueError::new(ResultCode::InvalidParameters, "a string must be UTF-8")
            })?;
            text.into()
        }
        Kind::Array(_) | Kind::Struct(_) | Kind::Union(_) | Kind::Alias(_) => {
            unreachable!("a layout of several values")
        }
    })
}

/// Decodes an integer, most significant octet first.
fn integer(base: Integer, octets: &[u8]) -> i128 {
    let negative = base.is_signed() && octets.first().is_some_and(|first| first & 0x80 != 0);
    let start = if negative { -1 } else { 0 };
    octets
        .iter()
        .fold(start, |number, octet| number << 8 | i128::from(*octet))
}

pub(super) fn parse(kind: &Kind, text: &str) -> Result<Value, ValueError> {
    let value = match kind.resolved() {
        Kind::Flag => text.parse().map(Value::Flag).ok(),
        Kind::Real32 | Kind::Real64 => text.parse().map(Value::Real).ok(),
        Kind::Array(_) | Kind::Struct(_) | Kind::Union(_) => {
            let names: Vec<_> = kind.members().iter().map(|m| m.name.as_str()).collect();
            let message = if names.is_empty() {
                "a table is set row by row".to_owned()
            } else {
                format!("a structure is set by its members: {}", names.join(", "))
            };
            return Err(ValueError::new(ResultCode::InvalidParameters, message));
        }
        _ => None,
    };
    let value = value.unwrap_or_else(|| text.into());
    // Encoding and decoding gives the value its canonical form.
    let mut octets = Vec::new();
    encode(kind.resolved(), &value, &mut octets)?;
    decode(kind.resolved(), &octets)
}
