//! Start, stop, hang, rename: what becomes of packets while a router comes and goes, on real interfaces.
//! Every packet of a numbered stream is counted where it should arrive.
//!
//! Each test builds its own hosts and skips, saying so, where network namespaces are not permitted.
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

#[path = "../common/mod.rs"]
mod common;
mod handover;
mod hang;
mod interface;
mod many;
mod once;
mod signals;
mod socket;
mod stream;
mod untaken;
