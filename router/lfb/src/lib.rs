//! The bridge from model to data: one file for each class of logical functional block.
//!
//! ```text
//!  changes --check--> Plan --commit--> data          reports <--get-- data
//! ```
//!
//! Each class declares its components in one table, checks what is asked of them, puts it in
//! force, and reports. A set of changes is checked whole before anything of it is put in force.
//!
//! - [`router`]: the box: its mode, its socket, its pool
//! - [`port`]: a port: its interface, its rate
//! - [`auto_rate`]: a port that finds its rate
//! - [`queue`]: a port's queue discipline
//! - [`fe`]: a forwarding element and its control elements
//! - [`redirect`]: packets for a control element, and at which rate
//! - [`fpf`]: flexible packet forwarding: its interfaces, rules and encapsulations
//! - [`named`]: sections with a name of the operator's: ports, and the parts of FPF
//! - [`section`]: all but the FE's as sections of a configuration
//! - [`plan`]: all of them together
//! - [`packet_filter`]: which packets captures and observers want
//! - `operation`: setting and deleting in a plan
//! - [`class`]: what each block declares and reports
//! - [`mac`]: MAC addresses as text

pub mod auto_rate;
pub mod class;
pub mod fe;
pub mod fpf;
pub mod mac;
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
