//! The path of a packet through the router, as one-way stages.
//!
//! Read in this order to follow a packet: [`link`], [`ip`], [`fpf`] or [`bridge`], [`classify`], [`egress`]. [`plane`] owns
//! the state and joins the stages; [`headers`] is what one stage hands to the next. [`exception`] has the packets that a
//! control element takes over. [`round_trips`] measures the way behind a port by the TCP connections that pass it,
//! [`talkers`] who sends how much through it.
//!
//! This crate knows no sockets, threads or clocks. Its caller hands in bytes and the time.

pub mod bridge;
pub mod classify;
pub mod egress;
pub mod exception;
pub mod fpf;
pub mod headers;
pub mod ip;
pub mod link;
pub mod plane;
pub mod round_trips;
pub mod talkers;
mod weighted;
