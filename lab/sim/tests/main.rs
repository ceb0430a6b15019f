//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod agreement;
mod engine;
mod tcp;
