//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod elements;
mod scenarios;
#[allow(dead_code)] // the tests of the simulator use the others
#[path = "../../../lab/sim/tests/engine/support.rs"]
mod support;
