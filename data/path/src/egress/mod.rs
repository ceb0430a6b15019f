//! The way out of the router: headers rewritten, the queue, the link.
//!
//! - [`rewrite`]: what is written into headers
//! - [`fragment`]: IPv4 fragmentation
//! - [`port`]: a discipline in front of a link
//! - [`transmitter`]: when the link starts each frame, and when it is free again

pub mod fragment;
pub mod port;
pub mod rewrite;
pub mod transmitter;
