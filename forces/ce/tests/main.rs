//! The tests of this crate: one program.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod agent;
mod control;
mod controllers;
mod etcd;
mod network;
