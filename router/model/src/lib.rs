//! Requests to a router and its answers, as plain values.
//!
//! A configuration file becomes a list of [`Change`]s, and an operator's request to a running router a list of
//! [`Operation`]s. [`Class`]es declare the readable components, and a router answers with [`Value`]s. Requests to
//! [`capture`] and to [`observe`] packets are plain values too. Nothing here knows how a router is built.

pub mod capture;
pub mod certificate;
pub mod change;
pub mod class;
pub mod column;
pub mod explain;
pub mod fault;
pub mod metric;
pub mod observe;
pub mod operation;
pub mod path;
pub mod path_service;
pub mod schema;
pub mod section;
pub mod service;
pub mod target;
pub mod typed;
pub mod value;
pub mod watch;

pub use change::{ApplyReport, Change, ChangeRequest, ChangeValue, DeleteRequest};
pub use class::{Class, Component};
pub use explain::RouteExplanation;
pub use fault::Fault;
pub use operation::Operation;
pub use path::{ComponentPath, ElementPath};
pub use path_service::{NetworkReport, PathReport, PathRequest};
pub use section::{Section, Set};
pub use service::{
    FilterRequest, QueueRequest, RouteReport, RouteRequest, RouteVerb, RouteWish, ServiceRequest,
};
pub use target::{Discard, Target};
pub use value::Value;
