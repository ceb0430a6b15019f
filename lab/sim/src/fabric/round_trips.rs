//! The round trips of the TCP connections that pass a port, as [`weir_path::round_trips`] measures them.

use weir_base::Instant;
use weir_packet::FlowKey;
use weir_path::egress::port::Link;
use weir_path::round_trips::{RoundTrip, RoundTrips, Segment};

use super::Fabric;
use crate::flight::{Content, Flight};
use crate::frame::Frame;
use crate::network::PortId;
use crate::tcp::Flags;

/// The round trips of a port.
pub(crate) struct Measured {
    round_trips: RoundTrips,
    link: Link,
    /// Bytes that the port has sent, on the wire.
    sent: u64,
    /// Round trips that were not taken yet.
    taken: Vec<RoundTrip>,
}

impl Measured {
    /// Records that the port sends a packet of `len` bytes (layer 2) at `at`.
    pub(crate) fn sent(&mut self, at: Instant, key: &FlowKey, flight: &Flight, len: u32) {
        if let Some(segment) = segment(flight) {
            self.round_trips.sent(at, key, &segment, self.sent);
        }
        self.sent += self.link.wire_bytes(len.into());
    }
}

impl Fabric {
    /// Measures round trips of the TCP connections that pass a port, which must have a line.
    pub fn measure_round_trips(&mut self, port: PortId, secret: (u64, u64)) {
        let stepped = self.wires[port.0 as usize].stepped();
        stepped.round_trips = Some(Box::new(Measured {
            round_trips: RoundTrips::new(secret),
            link: *stepped.port.link(),
            sent: 0,
            taken: Vec::new(),
        }));
        self.wires[other_end(port)].is_measured = true;
    }

    /// Takes the round trips of a port that were measured since the last call.
    pub fn round_trips(&mut self, port: PortId) -> Vec<RoundTrip> {
        let measured = self.wires[port.0 as usize].stepped().round_trips.as_mut();
        measured.map_or(Vec::new(), |measured| std::mem::take(&mut measured.taken))
    }

    /// Records the arrival of a frame from `port` at the port at the other end.
    pub(crate) fn measure_arrival(&mut self, port: PortId, frame: &Frame) {
        let measured = self.wires[other_end(port)].stepped().round_trips.as_mut();
        let flight = self.flights.get(frame.slot);
        if let (Some(measured), Some(segment)) = (measured, segment(flight)) {
            let key = self.flights.keys.key_at(frame.slot);
            let round_trip = measured.round_trips.received(self.now, key, &segment);
            measured.taken.extend(round_trip);
        }
    }
}

/// The index of the port at the other end of a link: both ends of a link are added together.
fn other_end(port: PortId) -> usize {
    port.0 as usize ^ 1
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
