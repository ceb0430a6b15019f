//! ForCES on real machines: control and forwarding elements with sockets, threads and clocks.
//!
//! - [`ce`]: the running control element
//! - [`fe`]: a running router as a forwarding element of control elements
//! - [`tml`]: transports of ForCES messages between the two
//! - [`snmp`]: devices that are not weir, sampled by SNMP

pub mod ce;
pub mod fe;
pub mod snmp;
pub mod tml;
