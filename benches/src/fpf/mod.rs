//! Flexible packet forwarding as its paper measures it, in memory: Beben et al., "A Scalable and Flexible Packet
//! Forwarding Method for Future Internet Networks", sections III and V.
//!
//! - [`throughput`]: the highest rate without loss, beside IPv6 (Figures 4 and 5)
//! - [`conformance`]: whether packets go as the paper says (Figure 1, the header)
//!
//! Both call the plane that a worker owns, or the functions that it calls.

pub mod conformance;
pub mod throughput;
