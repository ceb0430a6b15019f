//! The TCP model as a whole: two connections, a delay, and what gets lost on the way.

mod ecn;
mod handshake;
mod properties;
mod recovery;
mod storms;
mod support;
mod throughput;
mod timeout;
mod window;
