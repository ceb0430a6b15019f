//! A forwarding element (FE) without I/O: what `weir fe` adds to a router, so that control elements (CEs) steer it.
//!
//! - [`agent`]: the state machine; [`contract`]: its parameters and effects
//! - [`filter`]: conditions and filters of events; `event`: the sampling of watched components
//! - [`exception`]: packets to and from the CE
//! - [`fib`]: the forwarding tables that a CE writes, and the routes that follow
//! - `blocks`, `object`, `protocol`, `settings`: classes, and where their values are; `property`: subscriptions
//! - `own`: the state that a CE can write; `view`: everything that it can read
//! - `tables`: the forwarding tables as blocks
//! - `tree`: reads and changes a part of a value; `request`: requests as lists of paths
//!
//! Nothing here opens a socket, starts a thread or reads a clock.

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
