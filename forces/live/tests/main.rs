//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

#[path = "../../../router/live/tests/common/mod.rs"]
mod common;
mod enrol;
mod exceptions;
mod sctp;
mod snmp;
mod tml;
mod tml_attacks;
mod tml_conformance;
mod tml_flood;
