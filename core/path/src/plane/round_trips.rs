//! Round trips of the TCP connections that pass a port, as [`crate::round_trips`] measures them.
//!
//! ```text
//!  step(now) -> outbox ---- sent ----> [ RoundTrips ]
//!  frame from the link -- received ->  [            ] -- round trips --> taken by the controller of the port's rate
//! ```
//!
//! A segment counts as sent when it leaves the port's queue, so its delay there is not part of a round trip. A frame
//! from the link counts when it arrives, even if it is dropped later. A port without measurement costs one test per
//! frame.

use weir_base::Instant;

use crate::classify::flow_key;
use crate::headers;
use crate::plane::step::Arrival;
use crate::plane::{Mode, Plane, PlanePort};
use crate::round_trips::{RoundTrip, RoundTrips, Segment};

/// Maximum round trips that wait to be taken; more are dropped. The router handles fewer frames in one poll iteration.
const WAITING_MAX: usize = 64;

/// The round trips of a port.
pub(crate) struct Measured {
    round_trips: RoundTrips,
    waiting: Vec<RoundTrip>,
}

impl PlanePort {
    /// Bytes on the wire so far: bytes that left the queue, and bytes of the kernel that are charged to the port.
    pub fn on_the_wire(&self) -> u64 {
        self.port.on_wire()
    }
}

impl Plane {
    /// Starts or stops measuring round trips of the TCP connections that cross a port.
    pub fn measure_round_trips(&mut self, number: usize, wanted: bool) {
        let slot = &mut self.ports[number];
        if !wanted {
            slot.round_trips = None;
        } else if slot.round_trips.is_none() {
            let streams = self.streams.below("port").below(&slot.name);
            slot.round_trips = Some(Box::new(Measured {
                round_trips: RoundTrips::new(streams.hash_key("round-trips")),
                waiting: Vec::with_capacity(WAITING_MAX),
            }));
        }
    }

    /// Takes the round trips of a port that were measured since the last call.
    pub fn take_round_trips(&mut self, number: usize) -> impl Iterator<Item = RoundTrip> {
        let measured = self.ports[number].round_trips.as_mut();
        measured.into_iter().flat_map(|m| m.waiting.drain(..))
    }

    /// Records the frames of a port's outbox from index `first` on, which left the queue at `now`.
    #[inline(never)] // ports without measurement do not get here
    pub(crate) fn measure_sent(&mut self, number: usize, first: usize, now: Instant) {
        let slot = &mut self.ports[number];
        let mut sent = slot.on_the_wire();
        let link = *slot.port.link();
        let Some(measured) = &mut slot.round_trips else {
            return;
        };
        let leaving = slot.outbox.range(first..);
        let leaving: u64 = leaving.map(|packet| link.wire_bytes(packet.bytes())).sum();
        sent = sent.saturating_sub(leaving);
        for packet in slot.outbox.range(first..) {
            let frame = self.pool.frame(packet);
            let headers = headers::peek(frame);
            if let Some(segment) = Segment::parse(frame, &headers) {
                let key = flow_key(frame, &headers);
                measured.round_trips.sent(now, &key, &segment, sent);
            }
            sent += link.wire_bytes(packet.bytes());
        }
    }

    /// The port whose round trips end with frames that arrive at this port: itself; in mode "queue" the port that sends
    /// through the same interface.
    #[inline]
    pub(crate) fn measured_at(&self, ingress: usize) -> Option<usize> {
        let arrived = &self.ports[ingress];
        if arrived.mode != Mode::Queue {
            return arrived.round_trips.as_ref().map(|_| ingress);
        }
        let mut ports = self.ports.iter().enumerate();
        let sends = ports.find(|(number, port)| {
            let is_other = *number != ingress;
            is_other
                && port.round_trips.is_some()
                && port.configured_interface == arrived.configured_interface
        });
        sends.map(|(number, _)| number)
    }

    /// Records the answer to frames of a port.
    #[inline(never)]
    pub(crate) fn measure_arrival(&mut self, number: usize, frame: &[u8], arrival: &Arrival) {
        let Some(measured) = &mut self.ports[number].round_trips else {
            return;
        };
        let headers = headers::peek(frame);
        let Some(segment) = Segment::parse(frame, &headers) else {
            return;
        };
        let key = flow_key(frame, &headers);
        let round_trip = measured.round_trips.received(arrival.at, &key, &segment);
        let is_room = measured.waiting.len() < WAITING_MAX;
        measured.waiting.extend(round_trip.filter(|_| is_room));
    }
}
