//! A value of a component, in a router's answers and in JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_base::{Rate, Span, Tally};

/// A value of a component.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value; `null` in JSON.
    Absent,
    /// True or false.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A whole number below zero.
    Negative(i64),
    /// A number with a fraction.
    Real(f64),
    /// A text.
    Text(String),
    /// Values without names: the rows of a table.
    List(Vec<Value>),
    /// Values with names, in their order.
    Struct(Vec<(Cow<'static, str>, Value)>),
}

impl Value {
    /// The value at a dotted path of names, if it exists.
    pub fn get(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |value, name| match value {
            Self::Struct(members) => members.iter().find(|(n, _)| n == name).map(|(_, v)| v),
            _ => None,
        })
    }

    /// The rows of a list; empty for any other value.
    pub fn rows(&self) -> &[Self] {
        match self {
            Self::List(rows) => rows,
            _ => &[],
        }
    }

    /// The whole number at a path.
    pub fn whole(&self, path: &str) -> Option<u64> {
        match self.get(path)? {
            Self::Whole(number) => Some(*number),
            _ => None,
        }
    }

    /// The number at a path, whole or not.
    pub fn real(&self, path: &str) -> Option<f64> {
        match self.get(path)? {
            Self::Whole(number) => Some(*number as f64),
            Self::Negative(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            _ => None,
        }
    }

    /// The text at a path.
    pub fn text(&self, path: &str) -> Option<&str> {
        match self.get(path)? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The value in one line, if its texts are lines.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("-"),
            Self::Flag(flag) => flag.fmt(f),
            Self::Whole(number) => number.fmt(f),
            Self::Negative(number) => number.fmt(f),
            Self::Real(number) => write!(f, "{number:?}"), // as in JSON
            Self::Text(text) => f.write_str(text),
            Self::List(rows) => {
                let rows: Vec<_> = rows.iter().map(Self::to_string).collect();
                write!(f, "[{}]", rows.join(", "))
            }
            Self::Struct(members) => {
                let member = |(name, value): &(_, Self)| format!("{name}={value}");
                let members: Vec<_> = members.iter().map(member).collect();
                f.write_str(&members.join(" "))
            }
        }
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        u64::try_from(number).map_or(Self::Negative(number), Self::Whole)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Rate> for Value {
    /// In bits a second.
    fn from(rate: Rate) -> Self {
        Self::Whole(rate.as_bps())
    }
}

impl From<Span> for Value {
    /// In seconds.
    fn from(span: Span) -> Self {
        Self::Real(span.as_secs_f64())
    }
}

impl From<Tally> for Value {
    /// As [`COUNT`](crate::class::COUNT) and [`HELD`](crate::class::HELD) declare it.
    fn from(tally: Tally) -> Self {
        Self::Struct(vec![
            ("packets".into(), tally.packets.into()),
            ("bytes".into(), tally.bytes.into()),
        ])
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent => to.serialize_none(),
            Self::Flag(flag) => to.serialize_bool(*flag),
            Self::Whole(number) => to.serialize_u64(*number),
            Self::Negative(number) => to.serialize_i64(*number),
            Self::Real(number) => to.serialize_f64(*number),
            Self::Text(text) => to.serialize_str(text),
            Self::List(values) => to.collect_seq(values),
            Self::Struct(members) => to.collect_map(members.iter().map(|(n, v)| (n, v))),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a component")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Absent)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Real(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = from.next_element()? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = from.next_entry::<String, Value>()? {
            members.push((name.into(), value));
        }
        Ok(Value::Struct(members))
    }
}
