//! The way of a packet through the router, as one-way stages.
//!
//! Read in this order to ride with a packet: [`parse`], [`classify`], [`forward`], [`port`]; and
//! [`step`] for how they are joined.
//!
//! - [`plane`]: everything that a packet touches, owned in one place
//! - [`tables`]: the interfaces, routes and neighbours that `forward` looks into
//! - [`source_check`]: whether a packet may come from where it says
//! - [`icmp_error`], [`error_budget`]: what a router answers when it cannot forward, and how often
//! - [`ways`]: a cache of the ways out, by destination
//! - [`rewrite`]: what a router writes into the headers of what it forwards
//! - [`waiting`]: packets whose neighbour is not known yet
//! - [`questions`]: which neighbours are asked for at the same time
//! - [`fragment`]: IPv4 fragmentation
//! - [`transmitter`]: the link behind a port: when each frame starts, and when the link is free again
//! - [`offload`]: what a sender left to hardware, and [`segment`]: superframes cut into frames
//! - [`watch`]: what a capture sees, without its form
//!
//! This crate knows no sockets, threads or clocks. Whoever drives it hands in bytes and the time.

pub mod classify;
pub mod error_budget;
pub mod forward;
pub mod fragment;
pub mod icmp_error;
pub mod offload;
pub mod parse;
pub mod plane;
pub mod port;
pub mod questions;
pub mod rewrite;
pub mod segment;
pub mod source_check;
pub mod step;
pub mod tables;
pub mod transmitter;
pub mod waiting;
pub mod watch;
pub mod ways;
