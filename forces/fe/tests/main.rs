//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod events;
mod fpf;
mod requests;
mod routes;
mod standard;
mod transactions;
mod world;
