//! Probes of a port to a reflector, with which a controller measures the delay of the link behind the port.
//!
//! ```text
//!   prober ── past the port's queue ──▶ [ modem ] ─▶ line ─▶ .. ─▶ reflector, a host
//!     ◀─────────────────────── as any packet ───────────────────────┘
//! ```
//!
//! A probe is a packet of the router itself: it bypasses the port's queue, which is charged for it, and waits in the
//! modem like any other packet.

use weir_base::Instant;
use weir_packet::{Ecn, Reason, Shared};

use super::{Event, Fabric};
use crate::flight::{Content, Flight};
use crate::frame::Frame;
use crate::id::EndpointId;
use crate::id::PortId;
use crate::route::Hop;
use crate::wire::Sender;

/// Length of a probe without link-layer and IP headers: an ICMP echo with 16 bytes.
pub(crate) const PROBE_BYTES: u32 = 24;
/// The traffic and the flow of a probe, which no meter counts.
pub(crate) const NO_TRAFFIC: u32 = u32::MAX;

/// A port and a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProberId(pub(crate) u32);

/// An answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The probe's number.
    pub number: u64,
    /// Time of arrival.
    pub at: Instant,
}

/// The probes of a port to a reflector.
#[derive(Debug)]
pub(crate) struct Prober {
    pub(crate) port: PortId,
    pub(crate) to: EndpointId,
    /// The first hop after the port's link.
    pub(crate) hop: Hop,
    pub(crate) key: Shared,
    /// Length of the link-layer and IP headers in bytes.
    pub(crate) headers: u32,
    /// Answers that were not taken yet.
    pub(crate) echoes: Vec<Echo>,
}

impl Fabric {
    pub(crate) fn add_prober(&mut self, prober: Prober) -> ProberId {
        self.probers.push(prober);
        ProberId(self.probers.len() as u32 - 1)
    }

    /// Sends the probe with this number.
    pub fn probe(&mut self, ProberId(id): ProberId, number: u64) {
        let prober = &self.probers[id as usize];
        let flight = Flight {
            to: prober.to,
            sent: self.now,
            traffic: NO_TRAFFIC,
            flow: NO_TRAFFIC,
            content: Content::Probe { number },
        };
        let (id, len) = (prober.port, prober.headers + PROBE_BYTES);
        let frame = Frame {
            slot: self.flights.create(flight, prober.key),
            hop: prober.hop,
            len,
            ecn: Ecn::NotCapable,
            ..Frame::default()
        };
        let wire = &mut self.wires[id.0 as usize];
        let Sender::Stepped(stepped) = &mut wire.sender else {
            unreachable!("a prober's port has a line");
        };
        stepped.port.charge(u64::from(len), self.now);
        let line = stepped.line.as_deref_mut();
        let sent = line.and_then(|line| line.send(u64::from(len), self.now));
        let Some((sending, arrival)) = sent else {
            return self.discard(id, &frame, Reason::Impaired);
        };
        if wire.ring.is_empty() {
            self.events.push(arrival, Event::Arrive(id).into());
        }
        wire.ring.push(Frame {
            arrival,
            start: sending.start,
            ..frame
        });
    }

    /// Records the answer to a probe.
    pub(crate) fn answered(&mut self, ProberId(id): ProberId, flight: &Flight) {
        if let Content::Probe { number } = flight.content {
            let at = self.now;
            self.probers[id as usize].echoes.push(Echo { number, at });
        }
    }

    /// Takes the answers since the last call.
    pub fn echoes(&mut self, ProberId(id): ProberId) -> Vec<Echo> {
        std::mem::take(&mut self.probers[id as usize].echoes)
    }
}
