//! What a control element wants of many devices: controllers as state machines without I/O.
//!
//! ```text
//!   queues of the devices ──samples──▶ Controller ──orders──▶ the same queues
//!        (every period, by whatever carries them, with its delay and its losses)
//! ```
//!
//! One file for each controller, of the same shape as a discipline: a manual page, its parameters,
//! the state machine, tests. Whoever runs one (an actor of the simulator, a thread that talks to
//! routers) asks the queues once in each period and carries out the orders; here is no clock and no
//! socket.
//!
//! - [`contract`]: samples, orders, and what a controller promises
//! - [`spec`]: the closed list of controllers
//! - [`backpressure`]: the controller of RS-RED
//! - [`flow_control`]: what forwarding elements may redirect
//! - [`tml`]: what carrying messages costs, computed

pub mod backpressure;
pub mod contract;
pub mod flow_control;
pub mod spec;
pub mod tml;

pub use contract::{Controller, Manual, Order, READS_MAX, Role, Sample};
pub use spec::Spec;
