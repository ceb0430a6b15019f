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
//! | rows | index and row, each | `List` where the indices are 0, 1, ..; else a `Struct` with the indices as names |
//! | rows that are values by names | the same | `Struct` |
//!
//! [`encode`] writes FULLDATA where every member has a value, else SPARSEDATA. [`decode`] reads both. It checks the
//! layout, not the ranges: [`check`] does, before a peer's value is used.
//!
//! *Decision*: fixed-size members are packed without padding, as captured peers do. The RFCs do not say how a
//! FULLDATA within a FULLDATA is aligned behind a packed member; where one would begin at an offset that is no
//! multiple of four, we write SPARSEDATA, which every reader understands alike.
//!
//! *Decision*: read as well are up to three octets of zero behind a value (captured peers count the padding), rows that
//! are wrapped in a FULLDATA of their own, and a packed struct within an ILV.
//!
//! Work and memory are bounded by the number of octets: every value costs at least one.

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
    /// Where in the value: names of members and indices of rows, from the outside in.
    pub at: Vec<String>,
    /// The result code for the answer.
    pub code: ResultCode,
    /// The error in a sentence, with what is permitted.
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

    /// The same, within a member or row.
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

/// A value as the data of a path; FULLDATA where that is possible, else SPARSEDATA.
pub fn encode(kind: &Kind, value: &Value) -> Result<Content, ValueError> {
    encode::content(kind, value)
}

/// The parts of a structure or of a table as SPARSEDATA has them, each with its identifier; none of a single value.
pub fn encode_parts(kind: &Kind, value: &Value) -> Result<Vec<Ilv>, ValueError> {
    match kind.resolved() {
        Kind::Struct(_) | Kind::Union(_) | Kind::Array(_) => encode::parts(kind, value),
        _ => Ok(Vec::new()),
    }
}

/// Checks that a value is of this layout and within its ranges.
pub fn check(kind: &Kind, value: &Value) -> Result<(), ValueError> {
    encode(kind, value).map(drop)
}

/// The value that the data of a path has. Ranges are not checked: see [`check`].
pub fn decode(kind: &Kind, content: &Content) -> Result<Value, ValueError> {
    decode::content(kind, content)
}

/// The values of several components as if they were the members of one struct: what an event reports.
pub fn encode_members(members: &[Component], value: &Value) -> Result<Content, ValueError> {
    encode::members(members, value)
}

/// The same, read back.
pub fn decode_members(members: &[Component], content: &Content) -> Result<Value, ValueError> {
    decode::members(members, content)
}

/// The value that a person means by a text; octets in hexadecimal with or without colons, or an IP address of their
/// number. Structs and tables are no single text: their members are.
pub fn parse(kind: &Kind, text: &str) -> Result<Value, ValueError> {
    scalar::parse(kind, text)
}
