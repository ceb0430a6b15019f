//! A forwarding element (FE) without I/O: what `weir fe` adds to a router, so that control elements (CEs) steer it.
//!
//! - [`exception`]: packets to and from the CE
//! - [`fib`]: the forwarding tables that a CE writes, and the routes that follow

pub mod exception;
pub mod fib;
