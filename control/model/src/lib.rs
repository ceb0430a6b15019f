//! Requests to a router and its answers, as plain values.
//!
//! A configuration file, an operator's request and (one day) a control element's message all
//! become the same list of [`Change`]s. What can be read is declared by [`Class`]es, and comes back as
//! [`Value`]s; a [`capture`] is asked for by value too. Nothing here knows how a router is built.

pub mod capture;
pub mod change;
pub mod class;
pub mod class_path;
pub mod fault;
pub mod metric;
pub mod operation;
pub mod path;
pub mod schema;
pub mod section;
pub mod value;

pub use change::{ApplyReport, Change, ChangeRequest, ChangeValue, DeleteRequest};
pub use class::{Class, Component};
pub use class_path::{ClassPath, IdPath, NamePath, Step};
pub use fault::Fault;
pub use operation::Operation;
pub use path::ComponentPath;
pub use section::{Section, Set};
pub use value::Value;
