//! A control element (CE) without I/O: what `weir ce` is. It steers forwarding elements (FEs).
//!
//! ```text
//!   operators ---Request--->  +---------+  ---Store--->  what survives a restart
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
//! - [`exception`]: what becomes of packets that FEs redirect
//! - [`network`]: a network of FEs that runs, its failures, and requests for paths
//! - [`path`]: paths of flexible packet forwarding: a network, and the configuration of its elements
//! - [`route`]: routes, and the rows of forwarding tables that they become
//! - [`service`]: services as operations on blocks of FEs
//! - [`tables`]: the tables that the CE has itself
//!
//! Nothing here opens a socket, waits or reads a clock.

mod codec;
pub mod configuration;
pub mod contract;
pub mod control;
pub mod controller;
pub mod desired;
mod directory;
pub mod exception;
mod leaf;
pub mod network;
pub mod path;
pub mod route;
pub mod service;
mod settings;
pub mod tables;

pub use control::Control;
