//! Transports of ForCES between control and forwarding elements.
//!
//! - [`sctp`]: three associations of SCTP (RFC 5811)

pub mod sctp;
