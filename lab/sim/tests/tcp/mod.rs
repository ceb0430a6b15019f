//! The TCP model as a whole: two connections, a delay, and losses on the path.

mod ecn;
mod handshake;
mod properties;
mod recovery;
mod storms;
mod support;
mod throughput;
mod timeout;
mod window;
