//! Controllers: a control element's decisions about many elements, as state machines without I/O.
//!
//! ```text
//!               ┌──────────────────── Runner ───────────────────┐
//!   elements ◀──┤ polls      ┌──────────────┐                   │
//!            ──▶│ samples ──▶│  Controller  │──orders──▶ changes├──▶ elements
//!               └────────────┴──────────────┴───────────────────┘
//! ```
//!
//! One file for each controller, of the same shape as a discipline: a manual page, its parameters,
//! the state machine, tests. A [`Runner`] has one of them, and knows which element is to be asked for
//! what until when. Who drives it (an actor of the simulator, a thread that talks to routers, a control
//! element) carries its requests out; here is no clock and no socket.
//!
//! - [`contract`]: samples, orders, and what a controller promises
//! - [`spec`]: the closed list of controllers
//! - [`runner`]: rounds of polls and changes between a controller and elements that come and go
//! - [`backpressure`]: the controller of RS-RED
//! - [`flow_control`]: what forwarding elements may redirect
//! - [`told`]: what elements have been given, so that no order is sent twice
//! - [`tml`]: what carrying messages costs, computed

pub mod backpressure;
pub mod contract;
pub mod flow_control;
mod members;
pub mod runner;
pub mod spec;
pub mod tml;
pub mod told;

pub use contract::{Controller, GAUGES_MAX, Manual, Order, QueueName, QueueSample, Role, Sample};
pub use runner::Runner;
pub use spec::Spec;
