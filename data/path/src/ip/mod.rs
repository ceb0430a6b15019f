//! The network layer of a routed port: IPv4 and IPv6.
//!
//! - [`parse`]: its headers, or why it is not forwarded
//! - [`forward`]: where a packet goes
//! - [`tables`]: the interfaces, routes and neighbours that it looks into; [`next_hop_cache`]: a cache before them
//! - [`source_check`]: whether a packet may come from where it says
//! - [`waiting`]: packets whose neighbour is not known yet; [`resolution`]: which neighbours are asked for
//! - [`icmp_error`], [`error_budget`]: what a router answers when it cannot forward, and how often

pub mod error_budget;
pub mod forward;
pub mod icmp_error;
pub mod next_hop_cache;
pub mod parse;
pub mod resolution;
pub mod source_check;
pub mod tables;
pub mod waiting;
