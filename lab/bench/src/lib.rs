//! Measurements for people to read; nothing here asserts a number.
//!
//! - [`classifier`]: cost of the flow-aware classifier by number of flows, in memory
//! - [`discipline`]: cost of a discipline per packet, in memory
//! - [`flow_cache`]: how well LRU-FQ finds the largest flows
//! - [`forwarding`]: cost of the whole path, in memory
//! - [`lookup`]: cost of routes by the size of the table
//! - [`live`]: cost of forwarding on real interfaces, compared with a copy loop and the kernel
//! - [`overload`]: the throughput of honest traffic under a flood that exceeds the processor's capacity
//! - [`pacing`]: how well a paced port keeps its rate
//! - [`simulator`]: how many packets the simulator carries in a second of processor time
//! - [`testbed`]: the three hosts in a row on which the live measurements run
//! - [`transfers`]: TCP between hosts with default offloads, compared with a copy loop and the kernel
//! - [`translation`]: cost of finding the host behind a translated address

pub mod classifier;
pub mod discipline;
pub mod flow_cache;
pub mod forwarding;
pub mod live;
pub mod lookup;
pub mod overload;
pub mod pacing;
pub mod simulator;
pub mod testbed;
pub mod transfers;
pub mod translation;
