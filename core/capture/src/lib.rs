//! Captures: the simulator and the live router write the same pcapng; pcap and pcapng are read.
//!
//! ```text
//! section header    "weir"
//! interface         name, Ethernet, nanoseconds, rate if it has one      one for each port or link
//! packet            stamp, length, first bytes, direction                one for each packet
//!   comment         "dropped: queue-full (The queue was full.)" or "marked: congestion"
//! statistics        number of packets that the capture itself missed     one for each interface
//! ```
//!
//! Wireshark shows the comments and filters by them: `frame.comment contains "dropped"`.
//!
//! The writer appends to a vector that the caller owns and empties, the reader takes bytes from the caller; neither
//! opens a file.

mod reader;
mod writer;

pub use reader::{Fault, Frame, RECORD_MAX, ReadError, Reader, Step};
pub use weir_packet::{Direction, Fate};
pub use writer::{Interface, SNAP_MAX, Seen, Writer};
