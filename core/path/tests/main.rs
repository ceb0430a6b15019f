//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod exceptions;
mod observe;
mod plane;
mod round_trips;
mod segment;
mod superframes;
mod waiting;
