//! Controllers: decisions of a control element about many elements, as state machines without I/O.
//!
//! ```text
//!               ┌──────────────────── Runner ───────────────────┐
//!   elements ◀──┤ polls      ┌──────────────┐                   │
//!            ──▶│ samples ──▶│  Controller  │──orders──▶ changes├──▶ elements
//!               └────────────┴──────────────┴───────────────────┘
//! ```
//!
//! Each controller is one file with the shape of a discipline: manual page, parameters, state machine, tests. A
//! [`Runner`] has one controller, and schedules the requests to each element with their deadlines. Its driver (an actor
//! of the simulator, a thread that talks to routers, a control element) carries out the requests; this crate uses
//! neither a clock nor a socket.
//!
//! - [`contract`]: samples, orders, and the requirements for a controller
//! - [`spec`]: the closed list of controllers
//! - [`runner`]: rounds of polls and changes between a controller and its elements
//! - [`backpressure`]: the controller of RS-RED
//! - [`flow_control`]: limits for the redirects of forwarding elements
//! - [`sent_orders`]: the orders sent to elements, so that no order is sent twice

pub mod backpressure;
pub mod contract;
pub mod flow_control;
mod members;
pub mod runner;
pub mod sent_orders;
pub mod spec;

pub use contract::{Controller, GAUGES_MAX, Manual, Order, QueueName, QueueSample, Role, Sample};
pub use runner::Runner;
pub use spec::Spec;
