//! The packet while the router holds it, and every way in which it can end.
//!
//! - [`packet`]: the move-only descriptor that queues pass around
//! - [`key`]: flow keys, their projections, and the keyed hash over them
//! - [`pool`]: the memory for the bytes and the flow key of each held packet
//! - [`fate`]: the reasons for a loss or a mark, and the counters for them; `remedy` has the advice about each
//!
//! This crate does not know what a port, a queue or a socket is.

pub mod fate;
pub mod key;
pub mod packet;
pub mod pool;
mod remedy;
mod sip;

pub use fate::{Direction, Discarded, Fate, Fates, Freed, MarkReason, Reason};
pub use key::{Family, FlowKey, KeyKind, Keys, Shared};
pub use packet::{Class, Ecn, Packet, Queue, Slot};
pub use pool::Pool;
