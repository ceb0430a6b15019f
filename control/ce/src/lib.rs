//! A control element (CE) without I/O: what `weir ce` is. It steers forwarding elements (FEs).
//!
//! - [`configuration`]: the file of a CE, checked
//! - [`desired`]: the desired state of an FE

pub mod configuration;
pub mod desired;
