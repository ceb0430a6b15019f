//! The way of a packet through the router, as one-way stages.
//!
//! Read in this order to ride with a packet: [`parse`], [`classify`], [`forward`], [`port`]; and
//! [`step`] for how they are joined.
//!
//! - [`tables`]: the interfaces, routes and neighbours that `forward` looks into
//! - [`icmp_error`]: what a router answers when it cannot forward, and how often
//! - [`fragment`]: IPv4 fragmentation
//!
//! This crate knows no sockets, threads or clocks. Whoever drives it hands in bytes and the time.

pub mod tables;
