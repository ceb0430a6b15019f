//! A control element (CE) without I/O, the core of `weir ce`. It steers forwarding elements (FEs).
//!
//! ```text
//!   operators ---Request--->  +---------+  ---Store--->  state that survives a restart
//!             <---Answer----  | Control |  <--stored---
//!   links     ---messages-->  |         |
//!             <--messages---  +---------+
//! ```
//!
//! - [`configuration`]: the file of a CE, checked
//! - [`contract`]: inputs and outputs as plain values
//! - [`control`]: the state machine
//! - [`controller`]: controllers that steer queues of FEs
//! - [`desired`]: the desired state of an FE
//! - [`election`]: the election of a leader among several CEs
//! - [`explain`]: why packets to a destination do not leave an FE
//! - [`exception`]: handling of packets that FEs redirect
//! - [`network`]: a running network of FEs, its failures, and requests for paths
//! - [`route`]: routes, and the rows of forwarding tables that they compile to
//! - [`router`]: routing suites that route for FEs
//! - [`service`]: services as operations on LFBs of FEs
//!
//! Nothing here opens a socket, waits or reads a clock.

mod codec;
pub mod configuration;
pub mod contract;
pub mod control;
pub mod controller;
pub mod desired;
mod directory;
pub mod election;
pub mod exception;
pub mod explain;
mod leaf;
pub mod network;
pub mod route;
pub mod router;
mod sections;
pub mod service;
mod settings;

pub use control::Control;
