//! A forwarding element (FE) without I/O: what `weir fe` adds to a router, so that control elements (CEs) steer it.
//!
//! - [`exception`]: packets to and from the CE

pub mod exception;
