//! The bridge from model to data: one file for each class of logical functional block (LFB).
//!
//! ```text
//!  changes --check--> Plan --commit--> data          reports <--get-- data
//! ```
//!
//! Each class declares its components in one table, checks requested values, applies them, and
//! reports. A set of changes is checked as a whole before any of it is applied.
//!
//! - [`router`]: the router itself: its mode, its socket, its pool
//! - [`port`]: a port: its interface, its rate
//! - [`auto_rate`]: a port that finds its rate
//! - [`queue`]: a port's queue discipline
//! - [`fe`]: a forwarding element and its control elements
//! - [`redirect`]: packets for a control element, and their maximum rate
//! - [`layers`]: the network layers next to IP
//! - [`named`]: sections that the operator names: ports, and sections of layers
//! - [`section`]: the sections of a configuration, except those of an FE
//! - [`plan`]: a whole checked configuration
//! - [`packet_filter`]: packet filters of captures and observers
//! - `operation`: setting and deleting in a plan
//! - [`class`]: the declaration and the reports of each LFB

pub mod auto_rate;
pub mod class;
pub mod fe;
pub mod layers;
pub mod named;
mod operation;
pub mod packet_filter;
pub mod plan;
pub mod port;
pub mod queue;
pub mod redirect;
pub mod router;
pub mod section;

pub use plan::Plan;
