//! Routers on a busy machine. These tests create the load, and would disturb other tests in the same program.
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)] // uses a part
#[path = "../lifecycle/stream.rs"]
mod stream;

mod changes;
mod load;
mod starved;
