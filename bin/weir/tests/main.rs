//! The tests of this crate: one program.

#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests fail like tests

mod autorate;
mod busy;
mod classify;
mod common;
mod gateway;
mod golden;
mod guest;
mod hostile;
mod init;
mod kernel;
mod lifecycle;
mod offloads;
mod operator;
mod oracle;
mod overload;
mod package;
mod page;
mod prometheus;
mod promtool;
mod queue;
mod router;
mod state;
mod unit;
