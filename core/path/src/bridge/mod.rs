//! The network layer of ports that look no route up: a bump in the wire, and the queue of an interface.
//!
//! The layer validates nothing. It reads headers only for the flow key and for congestion marks, behind tags, PPPoE and
//! MPLS ([`encapsulation`](crate::link::encapsulation)); a frame that it does not understand, malformed or not, has the
//! family [`Family::Link`](weir_packet::Family::Link). A tag that arrived out of band is inserted again. The frame
//! leaves through the other bridged port, or, where the kernel forwards, through the port at which it arrived.

use weir_packet::{Packet, Pool, Reason};

use crate::egress::{Departure, Exit, Rewrites};
use crate::headers::{self, Parsed};

/// Reads the headers of a packet, and sets its ECN field from them.
#[inline]
pub fn parse(pool: &Pool, mut packet: Packet) -> Parsed {
    let headers = headers::peek(pool.frame(&packet));
    packet.ecn = headers.ecn;
    Parsed { packet, headers }
}

/// Of two bridged ports, the port across. If there are not exactly two, a frame has no destination.
#[inline]
pub fn other(mut ports: impl Iterator<Item = usize>, ingress: usize) -> Result<usize, Reason> {
    match [ports.next(), ports.next(), ports.next()] {
        [Some(first), Some(second), None] if second == ingress => Ok(first),
        [Some(_), Some(second), None] => Ok(second),
        _ => Err(Reason::NotAPort),
    }
}

/// Sends a frame unchanged through a port.
#[inline]
pub fn forward(port: usize) -> Departure {
    Departure {
        rewrites: Rewrites::default(),
        exit: Exit::Port(port),
    }
}
