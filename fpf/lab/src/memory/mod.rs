//! Flexible packet forwarding as its paper measures it, in memory: Beben et al., "A Scalable and Flexible Packet
//! Forwarding Method for Future Internet Networks", sections III and V.
//!
//! - [`throughput`]: the highest rate without loss, compared with IPv6 (Figures 4 and 5)
//! - [`conformance`]: forwarding checked against the paper (Figure 1, the header)
//! - [`encapsulation`]: cost of encapsulation by number of flows (Figure 6)
//! - [`headers`]: cost of parse, lookup and rewrite by protocol
//! - [`implicit`]: flows while the classifier finds their class (section III.B.2)
//!
//! All call the plane that a worker owns, or the functions that the worker calls.

pub mod conformance;
pub mod encapsulation;
pub mod headers;
pub mod implicit;
pub mod throughput;
