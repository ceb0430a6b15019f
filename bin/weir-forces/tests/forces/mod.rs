//! `weir ce` and `weir fe` as processes: faults of one of them, of the link, of a peer or of an operator.
//!
//! Each test builds its own hosts. Where network namespaces are not permitted, it prints that and skips.

#[cfg(feature = "etcd")]
mod cluster;
mod disabled;
mod enrol;
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
mod texts;
mod tutorial;
mod wire;
