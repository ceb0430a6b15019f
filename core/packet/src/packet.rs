//! The descriptor that represents a packet in every queue.

use weir_base::Instant;

/// Spare bytes before a frame in its slot.
pub const HEADROOM: usize = 64;

/// The index of a packet's bytes and flow key in the [`Pool`](crate::Pool).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot(pub u32);

/// The traffic class of a packet, which the discipline of its port assigns; zero until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class(pub u8);

/// The queue that a forwarding rule names for a packet, at a discipline that has it; zero leaves the choice to the
/// discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Queue(pub u8);

/// The ECN field of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable: a mark is not possible, only a drop.
    #[default]
    NotCapable,
    /// ECT(1): ECN-capable, and the L4S identifier (RFC 9331).
    Capable1,
    /// ECT(0): ECN-capable.
    Capable0,
    /// CE: congestion experienced.
    Congested,
}

impl Ecn {
    /// From the two bits of the header.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotCapable,
            0b01 => Self::Capable1,
            0b10 => Self::Capable0,
            _ => Self::Congested,
        }
    }

    /// The two bits of the header.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Capable1 => 0b01,
            Self::Capable0 => 0b10,
            Self::Congested => 0b11,
        }
    }
}

/// A packet that the router holds: move-only, one cache line at most.
///
/// The bytes (or, in sim, the segment) and the parsed flow key are in the pool at `slot`. A packet ends in exactly one
/// of two ways: a port sends it, or [`DropCounters::discard`] takes it together with the reason.
///
/// [`DropCounters::discard`]: crate::DropCounters::discard
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    /// Serial number within the habitat, for traces and for breaking ties.
    pub id: u64,
    /// Time of arrival at the router.
    pub arrived: Instant,
    /// Time of arrival at the queue of its egress port; only the port writes this.
    pub enqueued: Instant,
    /// Length of the layer-2 frame in bytes, without the frame check sequence.
    pub len: u32,
    /// The slot of its bytes and flow key.
    pub slot: Slot,
    /// Offset of the frame in its slot, in bytes; only the [`Pool`](crate::Pool) writes this.
    pub start: u16,
    /// Traffic class.
    pub class: Class,
    /// The queue that a forwarding rule names for it.
    pub queue: Queue,
    /// ECN field, copied from the header; the port writes a mark back into the bytes.
    pub ecn: Ecn,
    /// Frames that it becomes on the wire: more than one for a superframe that the device cuts.
    pub frames: u8,
    /// Bytes by which these frames are longer than `len` together, because each has the headers.
    pub extra: u16,
}

impl Packet {
    /// A packet of `len` bytes at `slot` that arrived at `arrived`.
    pub const fn new(id: u64, slot: Slot, len: u32, arrived: Instant) -> Self {
        Self {
            id,
            arrived,
            enqueued: arrived,
            len,
            slot,
            start: HEADROOM as u16,
            class: Class(0),
            queue: Queue(0),
            ecn: Ecn::NotCapable,
            frames: 1,
            extra: 0,
        }
    }

    /// The length of its frame on the wire, or of all its frames, in the type that counters use.
    pub const fn bytes(&self) -> u64 {
        self.len as u64 + self.extra as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_has_at_most_forty_bytes() {
        assert!(size_of::<Packet>() <= 40, "{}", size_of::<Packet>());
    }

    #[test]
    fn ecn_bits_survive_a_round_trip() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
        }
    }
}
