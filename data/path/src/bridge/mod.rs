//! The network layer of a bridged port: a bump in the wire.
//!
//! It refuses nothing. It reads headers only for the flow key, through two tags; a frame that it does not
//! understand, malformed or not, has the family [`Family::Link`](weir_packet::Family::Link). A tag that came
//! out of band is put back, and the frame leaves by the other port.

use weir_packet::{Packet, Pool};

use crate::egress::{Departure, Exit, Rewrites};
use crate::headers::{self, Parsed};

/// Reads the headers of a packet, and sets its ECN field from them.
#[inline]
pub fn parse(pool: &Pool, mut packet: Packet) -> Parsed {
    let headers = headers::peek(pool.frame(&packet));
    packet.ecn = headers.ecn;
    Parsed { packet, headers }
}

/// Sends a frame, whose tag came out of band if it had one, to the other port of its bridge.
#[inline]
pub fn forward(tag: Option<u16>, other: usize) -> Departure {
    Departure {
        rewrites: Rewrites {
            push_tag: tag,
            ..Rewrites::default()
        },
        exit: Exit::Port(other),
    }
}
