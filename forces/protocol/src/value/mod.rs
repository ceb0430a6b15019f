//! Values of components on the wire (RFC 5810, 7.1.8 and appendix C; RFC 5812, 4.5).
//!
//! ```text
//!  FULLDATA: every member, in order          SPARSEDATA: some members, each with its ID
//! +-----+------------------------+-----+    +----+--------+---------+----+--------+---------+
//! | a   | FULLDATA: text, padded | c   |    | ID | length | value   | ID | length | value   |
//! +-----+------------------------+-----+    +----+--------+---------+----+--------+---------+
//! rows: | index | row | index | row |        rows: the index is the ID; a struct within is a series of ILVs
//! ```
//!
//! | layout | octets | [`Value`] |
//! |---|---|---|
//! | number | 1, 2, 4 or 8 | `Whole`, `Negative`; the name as `Text` where the number has one |
//! | flag | 1: 0 or 1 | `Flag` |
//! | number with a fraction | 4 or 8, IEEE 754 | `Real` |
//! | octets | as they are | `Text` of hexadecimal pairs with colons: `0a:00:00:01` |
//! | text | UTF-8 | `Text` |
//! | struct | its members, without padding | `Struct` |
//! | union | always SPARSEDATA with one member | `Struct` with one member |
//! | rows | index and row, each | `List` if the indices are 0, 1, ..; otherwise a `Struct` with the indices as names |
//! | rows of a map | the same | `Struct` |
//!
//! [`encode`] writes FULLDATA if every member has a value, otherwise SPARSEDATA. [`decode`] reads both. It checks the
//! layout but not the ranges; call [`check`] before using a peer's value.
//!
//! *Decision*: fixed-size members are packed without padding, as by captured peers. The RFCs do not define the
//! alignment of a FULLDATA within a FULLDATA after a packed member; where such a FULLDATA would begin at an offset that
//! is not a multiple of four, we write SPARSEDATA, which has only one interpretation.
//!
//! *Decision*: we also read up to three zero octets after a value (captured peers count the padding), rows that are
//! wrapped in another FULLDATA, and a packed struct within an ILV.
//!
//! The number of octets bounds work and memory, because every value takes at least one octet.

mod decode;
mod encode;
mod key;
mod scalar;

use std::fmt;

use weir_model::Value;

use crate::schema::{Component, Kind};
use crate::wire::{Content, Ilv, ResultCode};

pub use self::key::{find_row, key_bytes, key_of_row, key_values};

/// A value that does not fit its layout, or octets that do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// Position within the value: names of members and indices of rows, from the outermost inwards.
    pub at: Vec<String>,
    /// The result code for the answer.
    pub code: ResultCode,
    /// The error, in one sentence, with the permitted values.
    pub message: String,
}

impl ValueError {
    /// An error about a whole value.
    pub(crate) fn new(code: ResultCode, message: impl Into<String>) -> Self {
        Self {
            at: Vec::new(),
            code,
            message: message.into(),
        }
    }

    /// Adds the member or row that contains the error.
    fn within(mut self, name: &str) -> Self {
        self.at.insert(0, name.to_owned());
        self
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at.join("."))?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ValueError {}

/// Encodes a value as the data of a path: as FULLDATA if possible, otherwise as SPARSEDATA.
pub fn encode(kind: &Kind, value: &Value) -> Result<Content, ValueError> {
    encode::content(kind, value)
}

/// Encodes the parts of a structure or table as for SPARSEDATA, with their identifiers; empty for a single value.
pub fn encode_parts(kind: &Kind, value: &Value) -> Result<Vec<Ilv>, ValueError> {
    match kind.resolved() {
        Kind::Struct(_) | Kind::Union(_) | Kind::Array(_) => encode::parts(kind, value),
        _ => Ok(Vec::new()),
    }
}

/// Checks that a value has this layout and is within its ranges.
pub fn check(kind: &Kind, value: &Value) -> Result<(), ValueError> {
    encode(kind, value).map(drop)
}

/// Decodes the data of a path. Ranges are not checked: see [`check`].
pub fn decode(kind: &Kind, content: &Content) -> Result<Value, ValueError> {
    decode::content(kind, content)
}

/// Encodes the values of several components as members of one struct, as in the report of an event.
pub fn encode_members(members: &[Component], value: &Value) -> Result<Content, ValueError> {
    encode::members(members, value)
}

/// Decodes the data that [`encode_members`] encodes.
pub fn decode_members(members: &[Component], content: &Content) -> Result<Value, ValueError> {
    decode::members(members, content)
}

/// Parses a value that a user has written. Octets are hexadecimal, with or without colons, or an IP address of the same
/// length. Structs and tables are an error: their members are parsed one by one.
pub fn parse(kind: &Kind, text: &str) -> Result<Value, ValueError> {
    scalar::parse(kind, text)
}
