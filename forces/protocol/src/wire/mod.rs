//! Wire format: for each format a view, which validates nothing, and a Repr, which is always valid.
//!
//! ```text
//!  message: header, then TLVs                        LFBselect
//! +--------+-----------+-----------+                +-------+----------+-----+-----------+
//! | header | LFBselect | LFBselect |  ------------> | class | instance | SET | PATH-DATA |--+
//! +--------+-----------+-----------+                +-------+----------+-----+-----------+  |
//!   24       or REDIRECT, or the results of                                                 |
//!            an association                          PATH-DATA                               |
//!                                                   +-------+-----+----------+-----------+  |
//!                                                   | flags | IDs | selector | data, or  |<-+
//!                                                   +-------+-----+----------+ PATH-DATA +--+
//! ```
//!
//! | module | format | source |
//! |---|---|---|
//! | [`header`] | the common header | RFC 5810, 6.1 |
//! | [`tlv`] | TLVs and ILVs, and the walks over them | RFC 5810, 6.2 and 6.3 |
//! | [`message`] | one file for each message | RFC 5810, 7.5 to 7.10 |
//! | [`select`] | LFBselect: an LFB, with the operations on it | RFC 5810, 7.1.5 |
//! | [`operation`] | SET, GET, DEL, REPORT, COMMIT and their responses | RFC 5810, 7.1.6 to 7.8 |
//! | [`path`] | PATH-DATA: a component, with keys, ranges and data | RFC 5810, 7.1; RFC 7391, 3.1 |
//! | [`result`] | RESULT and EXTENDEDRESULT | RFC 5810, 7.1.7; RFC 7391, 3.2 |
//! | [`result_code`] | their codes | RFC 5810, A.5; RFC 7391, 3.2.1 |
//! | [`redirect`] | packets and their metadata | RFC 5810, 7.9 |
//! | [`error`] | errors of all formats | |
//!
//! A view gives access to the fields of borrowed bytes; no getter of a checked view panics. A Repr owns its values and
//! knows its length. Writing a Repr cannot fail, because a Repr that would not fit a TLV or a message cannot be
//! constructed. Unknown codes become `Other(n)` and are written unchanged.
//!
//! Fields that receivers must ignore according to the RFCs (reserved bits, padding) are not preserved. Where the RFCs
//! contradict each other, a paragraph that begins with *Decision* states our choice.
//!
//! The length of a message bounds work and memory; [`path::NESTING_MAX`] bounds the nesting, and [`path::IDS_MAX`] the
//! IDs of a whole path.

#[macro_use]
mod macros;
pub(crate) mod bytes;

pub mod error;
pub mod header;
pub mod message;
pub mod operation;
pub mod path;
pub mod redirect;
pub mod result;
pub mod result_code;
pub mod select;
pub mod tlv;

pub use error::WireError;
pub use header::{Envelope, Id, IdKind, MessageKind};
pub use message::{Body, Message};
pub use operation::{Operation, OperationKind};
pub use path::{Content, PathData, Selector};
pub use result::Outcome;
pub use result_code::ResultCode;
pub use select::LfbSelect;
pub use tlv::Ilv;
