//! `weir router` on a hostile network, beside the kernel's own forwarding.
//!
//! Each test builds its own hosts (see `weir_benches::testbed`) and skips, saying so, where
//! network namespaces are not permitted.
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod bench;
#[path = "../common/mod.rs"]
mod common;
mod errors;
mod frames;
mod neighbours;
mod scan;
mod sources;
