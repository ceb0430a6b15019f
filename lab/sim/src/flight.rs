//! The content of packets in virtual time: a modelled segment or datagram without bytes.

use weir_base::{Instant, Span};
use weir_packet::{Keys, Packet, Shared, Slot};
use weir_path::egress::port::Transmission;
use weir_wire::chunk;

use crate::frame::Frame;
use crate::id::EndpointId;
use crate::route::Hop;
use crate::tcp::Segment;

/// A packet's content, from the host that sends it to the host that receives it.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// The receiving endpoint.
    pub to: EndpointId,
    /// Time of sending.
    pub sent: Instant,
    /// The traffic whose meter counts the packet.
    pub traffic: u32,
    /// The flow of the packet.
    pub flow: u32,
    /// The content.
    pub content: Content,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// A TCP segment.
    Tcp(Segment),
    /// A datagram.
    Datagram {
        /// Bytes of payload.
        payload: u32,
    },
    /// An interest in a named chunk, or its data.
    Chunk(Chunk),
    /// A probe of a port to a reflector, or the answer to it. Meters and watches do not count it.
    Probe {
        /// The number of the probe.
        number: u64,
    },
}

/// A datagram that requests or carries a named chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The name.
    pub name: u64,
    /// Bytes of the content; `None` in an interest.
    pub content: Option<u32>,
}

impl Content {
    /// Whether the content is traffic rather than a probe.
    pub fn counts(&self) -> bool {
        !matches!(self, Self::Probe { .. })
    }

    /// Bytes of payload.
    pub fn payload(&self) -> u32 {
        match self {
            Self::Tcp(segment) => segment.payload,
            Self::Datagram { payload } => *payload,
            Self::Chunk(chunk) => chunk::HEADER_LEN as u32 + chunk.content.unwrap_or(0),
            Self::Probe { .. } => 0,
        }
    }
}

/// The content and flow keys of all packets in flight, by slot.
#[derive(Debug)]
pub struct Flights {
    /// The flow keys.
    pub(crate) keys: Keys,
    flights: Vec<Flight>,
    labels: Vec<Label>,
    free: Vec<Slot>,
    next_id: u64,
}

/// Data of a packet at a stepped port, next to its descriptor: small enough to stay in a cache.
#[derive(Clone, Copy, Debug)]
struct Label {
    id: u64,
    /// The next hop at the other end of the link.
    hop: Hop,
}

impl Flights {
    /// No packets yet; `secret` is the key of flow hashes.
    pub(crate) fn new(secret: (u64, u64)) -> Self {
        Self {
            keys: Keys::new(0, secret),
            flights: Vec::new(),
            labels: Vec::new(),
            free: Vec::new(),
            next_id: 0,
        }
    }

    /// Creates a packet that carries `flight`, and returns its slot.
    #[inline]
    pub(crate) fn create(&mut self, flight: Flight, key: Shared) -> Slot {
        let label = Label {
            id: self.next_id,
            hop: Hop::default(),
        };
        self.next_id += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.flights[slot.0 as usize] = flight;
                self.labels[slot.0 as usize] = label;
                slot
            }
            None => {
                self.flights.push(flight);
                self.labels.push(label);
                Slot(self.flights.len() as u32 - 1)
            }
        };
        self.keys.set_shared(slot, key);
        slot
    }

    /// The flow keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Creates a copy of the packet at a slot, and returns its slot.
    pub fn duplicate(&mut self, slot: Slot) -> Slot {
        let key = self.keys.shared_at(slot);
        self.create(*self.get(slot), key)
    }

    /// Gives the packet at a slot another content.
    pub fn replace(&mut self, slot: Slot, flight: Flight, key: Shared) {
        self.flights[slot.0 as usize] = flight;
        self.keys.set_shared(slot, key);
    }

    /// Gives the packet at a slot another receiver.
    pub fn readdress(&mut self, slot: Slot, to: EndpointId) {
        self.flights[slot.0 as usize].to = to;
    }

    /// The descriptor of a frame, for a port at which it arrives at `now`.
    #[inline]
    pub(crate) fn packet(&mut self, frame: &Frame, now: Instant) -> Packet {
        let label = &mut self.labels[frame.slot.0 as usize];
        label.hop = frame.hop;
        Packet {
            class: frame.class,
            queue: frame.queue,
            ecn: frame.ecn,
            ..Packet::new(label.id, frame.slot, frame.len, now)
        }
    }

    /// The frame of a packet that a port sends and that then travels for `delay`.
    #[inline]
    pub(crate) fn frame(&self, packet: &Packet, sending: Transmission, delay: Span) -> Frame {
        Frame {
            arrival: sending.end + delay,
            start: sending.start,
            slot: packet.slot,
            hop: self.labels[packet.slot.0 as usize].hop,
            len: packet.len,
            class: packet.class,
            queue: packet.queue,
            ecn: packet.ecn,
        }
    }

    /// The content of the packet at `slot`.
    #[inline]
    pub fn get(&self, slot: Slot) -> &Flight {
        &self.flights[slot.0 as usize]
    }

    /// Frees the slot of a packet that was delivered or lost.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Number of packets created so far.
    pub(crate) fn created(&self) -> u64 {
        self.next_id
    }

    /// Number of packets in flight.
    pub(crate) fn under_way(&self) -> usize {
        self.flights.len() - self.free.len()
    }
}
