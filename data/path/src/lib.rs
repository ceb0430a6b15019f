//! The path of a packet through the router, as one-way stages.
//!
//! Read in this order to ride with a packet: [`link`], [`ip`] or [`bridge`], [`classify`], [`egress`]; and
//! [`plane`] for what it touches, and how the stages are joined. [`headers`] is what the stages hand on.
//!
//! This crate knows no sockets, threads or clocks. Whoever drives it hands in bytes and the time.

pub mod bridge;
pub mod classify;
pub mod egress;
pub mod headers;
pub mod ip;
pub mod link;
pub mod plane;

// Former paths of these modules.
pub use egress::port;
pub use ip::{forward, source_check, tables, waiting};
pub use link::{offload, segment};
pub use plane::{step, watch};

/// Former path of [`plane::Mode`].
pub mod parse {
    pub use crate::plane::Mode;
}

/// Former path and name of [`ip::resolution::NeighbourRequest`].
pub mod questions {
    pub use crate::ip::resolution::NeighbourRequest as Order;
}
