//! The network layer of a routed port: IPv4 and IPv6.
//!
//! - [`parse`]: the headers of a packet, or the reason not to forward it
//! - [`forward`]: the forwarding decision
//! - [`tables`]: the interfaces, routes and neighbours that forwarding looks up; `route`: a route; `lookup`: longest
//!   prefix match; [`next_hop_cache`]: a cache in front of them
//! - [`source_check`]: whether a packet, above all its source, is acceptable at its ingress port
//! - [`neighbour_answer`]: answers to requests for the MAC addresses of a control element's addresses
//! - [`waiting`]: packets whose neighbour is not resolved yet; [`resolution`]: which neighbours are being resolved
//! - [`own_address`]: the address from which the router sends an error
//! - [`icmp_error`]: errors about packets that are not forwarded; [`icmp_cause`]: their causes; [`error_budget`]: their
//!   rate limits

pub mod error_budget;
pub mod forward;
pub mod icmp_cause;
pub mod icmp_error;
mod lookup;
pub mod neighbour_answer;
pub mod next_hop_cache;
pub mod own_address;
pub mod parse;
pub mod resolution;
mod route;
pub mod source_check;
pub mod tables;
pub mod waiting;
