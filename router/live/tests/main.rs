//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod af_packet;
mod common;
mod fpm;
mod guard;
mod install;
mod kernel_tables;
mod netfilter;
mod superframes;
mod tap;
mod transit;
mod tun;
mod turns;
