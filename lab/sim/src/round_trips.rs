//! The round trips of the TCP connections that pass a port, as [`weir_path::round_trips`] measures them.

use weir_base::Instant;
use weir_packet::FlowKey;
use weir_path::egress::port::Link;
use weir_path::round_trips::{RoundTrip, RoundTrips, Segment};

use crate::flight::{Content, Flight};
use crate::tcp::Flags;

/// The round trips of a port.
pub(crate) struct Measured {
    round_trips: RoundTrips,
    link: Link,
    /// Bytes that the port has sent, on the wire.
    sent: u64,
    /// Round trips that were not taken yet.
    pub(crate) taken: Vec<RoundTrip>,
}

impl Measured {
    /// No round trips yet, of a port with this link.
    pub(crate) fn new(link: Link, secret: (u64, u64)) -> Self {
        Self {
            round_trips: RoundTrips::new(secret),
            link,
            sent: 0,
            taken: Vec::new(),
        }
    }

    /// Records that the port sends a packet of `len` bytes (layer 2) at `at`.
    pub(crate) fn sent(&mut self, at: Instant, key: &FlowKey, flight: &Flight, len: u32) {
        if let Some(segment) = segment(flight) {
            self.round_trips.sent(at, key, &segment, self.sent);
        }
        self.sent += self.link.wire_bytes(len.into());
    }

    /// Records that a packet arrives from the other end of the link.
    pub(crate) fn received(&mut self, at: Instant, key: &FlowKey, flight: &Flight) {
        if let Some(segment) = segment(flight) {
            let round_trip = self.round_trips.received(at, key, &segment);
            self.taken.extend(round_trip);
        }
    }
}

/// A segment as on a wire: 32-bit numbers, and Linux's millisecond clock.
fn segment(flight: &Flight) -> Option<Segment> {
    let Content::Tcp(segment) = &flight.content else {
        return None;
    };
    let has = |flag| segment.flags.contains(flag);
    if !has(Flags::TIMESTAMPS) || has(Flags::SYN) || has(Flags::FIN) || has(Flags::RST) {
        return None;
    }
    Some(Segment {
        sequence: segment.sequence as u32,
        acknowledgment: has(Flags::ACK).then_some(segment.acknowledgment as u32),
        payload: segment.payload,
        timestamps: (segment.timestamp / 1000, segment.echo / 1000),
    })
}
