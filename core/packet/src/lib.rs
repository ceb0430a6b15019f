//! The packet while the router holds it, and every reason for dropping it.
//!
//! - [`packet`]: the move-only descriptor that queues pass on
//! - [`key`]: flow keys, their projections, and the keyed hash over them
//! - [`pool`]: the memory for the bytes and the flow key of each held packet
//! - [`reason`]: every reason for a loss; `remedy` has the advice about each
//! - [`fate`]: losses and marks, and the counters for them
//!
//! This crate does not know what a port, a queue or a socket is.

pub mod fate;
pub mod key;
pub mod packet;
pub mod pool;
pub mod reason;
mod remedy;
mod sip;

pub use fate::{Direction, Discarded, DropCounters, Fate, Freed, MarkReason};
pub use key::{Family, FlowKey, KeyKind, Keys, Shared};
pub use packet::{Class, Ecn, Packet, Queue, Slot};
pub use pool::{FrameBytes, LongBuffer, Pool};
pub use reason::Reason;
