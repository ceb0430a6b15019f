//! The network layer of a bridged port: a bump in the wire.
//!
//! A bridge validates nothing. It reads headers only for the flow key, through two tags; a frame that it does not
//! understand, malformed or not, has the family [`Family::Link`](weir_packet::Family::Link). A tag that arrived out of
//! band is inserted again, and the frame leaves through the other bridged port.

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

/// Sends a frame from one of two bridged ports to the other; `tag` is a tag that arrived out of band. If there are not
/// exactly two bridged ports, the frame has no destination.
#[inline]
pub fn forward(
    mut ports: impl Iterator<Item = usize>,
    ingress: usize,
    tag: Option<u16>,
) -> Result<Departure, Reason> {
    let other = match [ports.next(), ports.next(), ports.next()] {
        [Some(first), Some(second), None] if second == ingress => first,
        [Some(_), Some(second), None] => second,
        _ => return Err(Reason::NotAPort),
    };
    Ok(Departure {
        rewrites: Rewrites {
            push_tag: tag,
            ..Rewrites::default()
        },
        exit: Exit::Port(other),
    })
}
