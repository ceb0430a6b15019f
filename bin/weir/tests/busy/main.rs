//! Routers on a machine that is busy. These tests make it so, and would disturb others in one program.
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)] // uses a part
#[path = "../lifecycle/stream.rs"]
mod stream;

mod changes;
mod load;
mod starved;
