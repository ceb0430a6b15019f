//! A forwarding element (FE) without I/O: the part of `weir fe` that lets control elements (CEs) control a router.
//!
//! - [`agent`]: the state machine; [`contract`]: its parameters and effects
//! - [`filter`]: conditions and filters of events; `event`: the sampling of watched components
//! - [`exception`]: packets to and from the CE
//! - [`fib`]: the forwarding tables that a CE writes, and the resulting routes
//! - `blocks`, `object`, `protocol`, `settings`: LFB classes, and the sources of their values; `property`:
//!   subscriptions
//! - `own`: the state that a CE can write; `view`: the state that a CE can read
//! - `tables`: the forwarding tables as LFBs
//! - `tree`: reads and changes a part of a value; `request`: requests as lists of paths
//!
//! No module opens a socket, starts a thread or reads a clock.

pub mod agent;
mod blocks;
pub mod contract;
mod event;
pub mod exception;
pub mod fib;
pub mod filter;
mod object;
mod own;
mod property;
mod protocol;
mod request;
mod settings;
mod tables;
mod tree;
mod view;

pub use agent::Agent;
pub use contract::{
    ChangeTicket, Effect, Forwarding, Notice, Params, ReadTicket, RouteFailure, RouteTicket,
};
