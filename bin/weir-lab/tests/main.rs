//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod adjacency;
#[path = "../../weir/tests/common/mod.rs"]
mod common;
mod files;
mod lab;
mod schema;
mod soak;
