//! The link layer of a received frame.
//!
//! - [`offload`]: what the sender left to hardware
//! - [`segment`]: a superframe cut into the frames that a wire carries

pub mod offload;
pub mod segment;
