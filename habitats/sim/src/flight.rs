//! What packets carry in virtual time: a modelled segment or datagram instead of bytes.

use weir_base::Instant;
use weir_packet::Shared;
use weir_packet::{Keys, Packet, Slot};

use crate::EndpointId;
use crate::network::NodeId;
use crate::tcp::Segment;

/// What a packet carries, from the host that made it to the one that takes it.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// The endpoint that it is for.
    pub to: EndpointId,
    /// When the host made it.
    pub sent: Instant,
    /// The traffic that it counts for.
    pub traffic: u32,
    /// The flow that it is of.
    pub flow: u32,
    /// The content.
    pub content: Content,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// A TCP segment.
    Tcp(Segment),
    /// A datagram with so many bytes of payload.
    Datagram {
        /// Bytes of payload.
        payload: u32,
    },
}

impl Content {
    /// Bytes of payload.
    pub fn payload(&self) -> u32 {
        match self {
            Self::Tcp(segment) => segment.payload,
            Self::Datagram { payload } => *payload,
        }
    }
}

/// The content and flow keys of all packets under way, by slot.
#[derive(Debug)]
pub(crate) struct Flights {
    /// The flow keys.
    pub(crate) keys: Keys,
    /// Where each packet goes: the only thing that routers look at, and small enough to stay in
    /// a cache.
    destinations: Vec<NodeId>,
    flights: Vec<Flight>,
    free: Vec<Slot>,
    next_id: u64,
}

impl Flights {
    /// None yet; flow hashes under `secret`.
    pub(crate) fn new(secret: (u64, u64)) -> Self {
        Self {
            keys: Keys::new(0, secret),
            destinations: Vec::new(),
            flights: Vec::new(),
            free: Vec::new(),
            next_id: 0,
        }
    }

    /// A packet of `len` bytes that carries `flight`.
    pub(crate) fn create(
        &mut self,
        flight: Flight,
        destination: NodeId,
        key: Shared,
        len: u32,
    ) -> Packet {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.flights[slot.0 as usize] = flight;
                self.destinations[slot.0 as usize] = destination;
                slot
            }
            None => {
                self.flights.push(flight);
                self.destinations.push(destination);
                Slot(self.flights.len() as u32 - 1)
            }
        };
        self.keys.set_shared(slot, key);
        let id = self.next_id;
        self.next_id += 1;
        Packet::new(id, slot, len, flight.sent)
    }

    /// What the packet at `slot` carries.
    pub(crate) fn get(&self, slot: Slot) -> &Flight {
        &self.flights[slot.0 as usize]
    }

    /// The host that the packet at `slot` goes to.
    #[inline]
    pub(crate) fn destination(&self, slot: Slot) -> NodeId {
        self.destinations[slot.0 as usize]
    }

    /// Takes the slot of a packet that has ended.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Packets made so far.
    pub(crate) fn created(&self) -> u64 {
        self.next_id
    }

    /// Packets that are under way now.
    pub(crate) fn under_way(&self) -> usize {
        self.flights.len() - self.free.len()
    }
}
