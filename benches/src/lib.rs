//! Measurements for people; nothing here asserts a number.
//!
//! - [`discipline`]: what a discipline costs a packet, in memory
//! - [`flow_cache`]: how well LRU-FQ knows the largest flows
//! - [`forwarding`]: what the whole path costs in memory
//! - [`live`]: what forwarding costs on real interfaces, against a copy loop and the kernel
//! - [`overload`]: what honest traffic keeps beside a flood that is too much for the processor
//! - [`pacing`]: how well a paced port keeps its rate
//! - [`simulator`]: how many packets it carries in a second of processor time
//! - [`testbed`]: the three hosts in a row that both run on

pub mod discipline;
pub mod flow_cache;
pub mod forwarding;
pub mod live;
pub mod overload;
pub mod pacing;
pub mod simulator;
pub mod testbed;
