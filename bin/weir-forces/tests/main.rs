//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod bird;
#[path = "../../weir/tests/common/mod.rs"]
mod common;
mod controllers;
mod exceptions;
mod explain;
mod fe;
mod forces;
mod fpf;
#[path = "../../weir/tests/promtool/mod.rs"]
mod promtool;
mod router;
#[allow(dead_code)] // uses a part
#[path = "../../weir/tests/lifecycle/stream.rs"]
mod stream;
