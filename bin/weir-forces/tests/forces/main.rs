//! `weir ce` and `weir fe` as processes: faults of one of them, of the link, of a peer or of an operator.
//!
//! Each test builds its own hosts. Where network namespaces are not permitted, it prints that and skips.
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

#[path = "../../../weir/tests/common/mod.rs"]
mod common;
mod disabled;
mod foreign;
mod fpf;
mod hostile;
mod impostors;
mod kills;
mod mistakes;
mod network;
mod reload;
mod rotation;
mod routes;
mod services;
mod stage;
mod store;
mod strangers;
#[allow(dead_code)] // uses a part
#[path = "../../../weir/tests/lifecycle/stream.rs"]
mod stream;
mod texts;
mod tutorial;
mod wire;
