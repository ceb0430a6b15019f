//! A FIFO before a link with a delay, without events of its own.
//!
//! ```text
//!  offered ──▶ admit: room? ── yes ──▶ ring: waits, is sent, travels ──▶ arrives
//!                       └──── no ───▶ dropped
//! ```
//!
//! A FIFO decides about a packet on arrival, and no later arrival changes the packet's departure. So the start and the
//! end of its transmission are known immediately, and the only event needed is its arrival at the next node. The
//! backlog is counted on demand: the frames in the ring that start later.
//!
//! The result is bit-identical to that of a [`Port`](weir_path::egress::port::Port) with a `fifo` (the tests compare
//! the two). In both, the link starts a frame after everything else at that instant: a frame that starts *now* still
//! occupies a place in the queue.
//!
//! Events of one instant are handled in the order of their scheduling, and that order must be the same too. A port
//! schedules an arrival when it starts a frame while no other frame travels; otherwise the arrival of the previous
//! frame schedules it. If a link has a delay, a frame that had to wait always starts while the previous one travels. So
//! only a link with a delay has a plain queue, and only a frame with no frame before it needs a step at its instant.

use weir_base::{Instant, Tally};
use weir_discipline::metered::Ledger;
use weir_discipline::{Spec, SpecMismatch, fifo};
use weir_path::egress::port::{Link, Transmission};
use weir_path::egress::transmitter::Transmitter;

use crate::frame::Ring;

/// A drop-tail queue with its transmitter. Its packets are in the ring of the wire.
#[derive(Debug)]
pub(crate) struct AnalyticFifo {
    /// Maximum packets that may wait.
    limit: usize,
    /// The parameters that set the limit.
    spec: Box<Spec>,
    transmitter: Transmitter,
    received: Tally,
    dropped: Tally,
    /// No frame before this position of the ring waits.
    waiting_from: usize,
}

impl AnalyticFifo {
    /// Whether a discipline is a FIFO, whose departures can be computed in advance.
    pub(crate) fn can_be(spec: &Spec) -> bool {
        spec.kind() == fifo::MANUAL.name
    }

    /// An empty queue with the parameters of a `fifo`.
    pub(crate) fn new(spec: Spec, link: Link, now: Instant) -> Self {
        debug_assert!(Self::can_be(&spec), "{spec:?}");
        Self {
            limit: spec.limit(),
            spec: Box::new(spec),
            transmitter: Transmitter::new(link, now),
            received: Tally::ZERO,
            dropped: Tally::ZERO,
            waiting_from: 0,
        }
    }

    /// Offers a packet of `bytes` bytes at `now`; returns the time of its transmission, or `None` if the queue is full.
    #[inline(always)]
    pub(crate) fn admit(&mut self, bytes: u64, now: Instant, ring: &Ring) -> Option<Transmission> {
        self.received.count(bytes);
        // The ring is short most of the time, and then its packets need not be counted.
        if ring.len() >= self.limit && self.waiting(now, ring) >= self.limit {
            self.dropped.count(bytes);
            return None;
        }
        Some(self.transmitter.send(bytes, now))
    }

    /// Records that the first frame has left the ring.
    #[inline]
    pub(crate) fn popped(&mut self) {
        self.waiting_from = self.waiting_from.saturating_sub(1);
    }

    /// Number of packets that the link has not started before `now`.
    #[inline(never)]
    fn waiting(&mut self, now: Instant, ring: &Ring) -> usize {
        while let Some(frame) = ring.get(self.waiting_from)
            && frame.start < now
        {
            self.waiting_from += 1;
        }
        ring.len() - self.waiting_from
    }

    /// The backlog after all events due at `now`.
    pub(crate) fn backlog(&self, now: Instant, ring: &Ring) -> Tally {
        let lengths = self.lengths(now, ring);
        lengths.fold(Tally::ZERO, |sum, len| sum + Tally::one(len))
    }

    /// The lengths of the packets in the backlog.
    fn lengths<'a>(&self, now: Instant, ring: &'a Ring) -> impl Iterator<Item = u64> + use<'a> {
        let frames = (self.waiting_from..ring.len()).filter_map(|place| ring.get(place));
        let waiting = frames.filter(move |frame| frame.start > now);
        waiting.map(|frame| u64::from(frame.len))
    }

    /// Bytes on the wire that the link has started to send.
    pub(crate) fn on_wire(&self, now: Instant, ring: &Ring) -> u64 {
        let waiting = self
            .lengths(now, ring)
            .map(|len| self.link().wire_bytes(len));
        self.transmitter.on_wire() - waiting.sum::<u64>()
    }

    /// The ledger after all events due at `now`.
    pub(crate) fn ledger(&self, now: Instant, ring: &Ring) -> Ledger {
        Ledger {
            received: self.received,
            sent: self.received - self.dropped - self.backlog(now, ring),
            dropped: self.dropped,
            marked: Tally::ZERO,
        }
    }

    /// The link.
    pub(crate) fn link(&self) -> &Link {
        self.transmitter.link()
    }

    /// The current parameters.
    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Changes the parameters. A lower limit does not drop queued packets.
    pub(crate) fn set(&mut self, spec: Spec) -> Result<(), SpecMismatch> {
        if !Self::can_be(&spec) {
            return Err(SpecMismatch {
                in_place: self.spec.kind(),
                offered: spec.kind(),
            });
        }
        self.limit = spec.limit();
        *self.spec = spec;
        Ok(())
    }

    /// Bytes of memory used by the discipline: its packets are in the ring.
    pub(crate) fn state_bytes(&self) -> usize {
        size_of_val(self)
    }

    /// The gauges of `fifo`.
    pub(crate) fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("full", self.dropped.packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use proptest::prelude::*;
    use weir_base::setting::Scalar;
    use weir_base::{Rate, Span, Streams};
    use weir_packet::{DropCounters, Keys, Packet, Slot};
    use weir_path::egress::port::Port;

    const DELAY: Span = Span::from_nanos(1);

    /// Offers packets of these lengths after these times to a plain queue and to a port; compares the packets sent and
    /// their times, the ledgers and the backlogs.
    fn compare(
        limit: i64,
        rate: Option<Rate>,
        packets: &[(u64, u32)],
    ) -> Result<(), TestCaseError> {
        let link = Link {
            rate,
            framing: weir_base::Framing::bytes(-14),
            frame_bytes_max: 1514,
        };
        let limit = Scalar::Integer(limit);
        let spec = Spec::check("fifo", [("limit", &limit)]).unwrap();
        let (mut plain, mut ring) = (
            AnalyticFifo::new(spec.clone(), link, Instant::ZERO),
            Ring::default(),
        );
        let mut port = Port::new(spec, link, Instant::ZERO, &Streams::new(1));
        let (keys, mut fates) = (Keys::new(packets.len(), (1, 2)), DropCounters::default());
        let (mut planned, mut sent) = (Vec::new(), Vec::new());
        let mut step = |port: &mut Port, now| {
            let mut departed = |packet: Packet, sending| sent.push((packet.slot, sending));
            port.step(now, &keys, &mut fates, usize::MAX, &mut departed)
        };
        let (mut now, mut wake) = (Instant::ZERO, None);
        for (number, (gap, len)) in packets.iter().enumerate() {
            let at = now + Span::from_nanos(*gap);
            // All events due before the packet arrives; and if it arrives later, all events due now.
            while let Some(due) = wake.filter(|due| *due < at) {
                wake = step(&mut port, due);
            }
            if at > now {
                prop_assert_eq!(port.queue().ledger(), plain.ledger(wake_before(at), &ring));
                prop_assert_eq!(
                    port.queue().backlog(),
                    plain.backlog(wake_before(at), &ring)
                );
                while ring.get(0).is_some_and(|frame| frame.arrival < at) {
                    plain.popped();
                    ring.pop();
                }
            }
            now = at;
            let slot = Slot(number as u32);
            if let Some(sending) = plain.admit(u64::from(*len), now, &ring) {
                planned.push((slot, sending));
                ring.push(Frame {
                    arrival: sending.end + DELAY,
                    start: sending.start,
                    slot,
                    len: *len,
                    ..Frame::default()
                });
            }
            port.offer(Packet::new(number as u64, slot, *len, now));
            let is_last_of_instant = packets.get(number + 1).is_none_or(|(gap, _)| *gap > 0);
            if is_last_of_instant {
                wake = step(&mut port, now);
            }
        }
        while let Some(due) = wake {
            wake = step(&mut port, due);
        }
        prop_assert_eq!(planned, sent);
        Ok(())
    }

    /// The latest instant before this one.
    fn wake_before(at: Instant) -> Instant {
        at.before(Span::from_nanos(1))
    }

    proptest! {
        /// Gaps of whole serialisation times make ends, starts and arrivals coincide.
        #[test]
        fn a_plain_queue_sends_what_a_port_sends_and_when(
            limit in 1_i64..6,
            rate in prop::option::of(prop::sample::select(vec![8_000_000_000, 1_000_000_000, 999_999_937])),
            packets in prop::collection::vec((prop::sample::select(vec![0, 1, 40, 80, 100, 800]), prop::sample::select(vec![54, 114, 1014])), 1..80),
        ) {
            compare(limit, rate.map(Rate::from_bps), &packets)?;
        }
    }
}
