//! What a packet is while the router holds it, and every way it can end.
//!
//! - [`packet`]: the move-only descriptor that queues pass around
//! - [`key`]: flow keys, what they can be projected to, and the keyed hash over them
//! - [`pool`]: where the bytes and the flow key of each held packet stay
//! - [`fate`]: the reasons for a loss or a mark, and the books that count them
//!
//! This crate does not know what a port, a queue or a socket is.

pub mod fate;
pub mod key;
pub mod packet;
pub mod pool;

pub use fate::{Direction, Discarded, Fate, Fates, MarkReason, Reason};
pub use key::{Family, FlowKey, KeyKind, Keys, Shared};
pub use packet::{Class, Ecn, Packet, Slot};
pub use pool::Pool;
