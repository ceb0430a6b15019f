//! HTTP/JSON on a Unix socket, for people and their tools.
//!
//! [`api`] has every path, what it takes and what it answers; those of tables come from their classes.
//!
//! A router whose forwarding thread does not answer gives 503.
//!
//! The service knows the model only; an [`Operator`] stands between it and the router. It is
//! bounded: connections, time, size of a request, changes a second. The socket belongs to its owner alone.

pub mod api;
pub mod client;
pub mod metrics;
pub mod openapi;
pub mod server;

pub use server::{Operator, Peer, Refusal, Service};
