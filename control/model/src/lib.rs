//! What can be asked of a router, and what it reports, as plain values.
//!
//! A configuration file, an operator's request and (one day) a control element's message all
//! become the same list of [`Change`]s; statistics come back as the values in [`report`]; a
//! [`capture`] is asked for by value too. Nothing here knows how a router is built.

pub mod capture;
pub mod change;
pub mod report;

pub use change::{Change, ChangeRequest, ChangeValue, ComponentPath, Fault};
