//! The way of a packet through the router, as one-way stages.
//!
//! Read in this order to ride with a packet: [`parse`], [`classify`], [`ip`], [`egress`]; and
//! [`plane`] for what it touches, and how the stages are joined.
//!
//! This crate knows no sockets, threads or clocks. Whoever drives it hands in bytes and the time.

pub mod classify;
pub mod egress;
pub mod ip;
pub mod link;
pub mod parse;
pub mod plane;

pub use egress::{fragment, port, rewrite, transmitter};
pub use ip::resolution as questions;
pub use ip::{error_budget, forward, icmp_error, source_check, tables, waiting};
pub use link::{offload, segment};
pub use plane::{step, watch};
