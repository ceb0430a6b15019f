//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod association;
mod ce_promises;
mod chaos;
mod common;
mod fe_promises;
mod fixtures;
mod library;
mod request;
mod schema;
mod transaction;
mod values;
mod wire;
mod world;
mod write;
