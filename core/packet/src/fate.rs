//! The fates of packets: drops and marks, and the counters for them.
//!
//! Only [`DropCounters::discard`] creates a [`Discarded`]: a stage that must return a [`Discarded`] cannot forget to count.

use weir_base::{Instant, Tally};

use crate::packet::{Ecn, Packet, Slot};
use crate::reason::Reason;

/// Why a packet was marked rather than dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MarkReason {
    /// The discipline's AQM would have dropped it.
    Congestion,
}

/// The fate of a packet at the point of capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The packet passed.
    #[default]
    Passed,
    /// The packet passed, and the router itself marked it "congestion experienced".
    Marked,
    /// The packet was dropped there.
    Dropped(Reason),
}

/// The direction of a packet through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the link.
    Inbound,
    /// To the link, even if the packet was dropped before it was sent.
    Outbound,
}

/// Proof that a packet was dropped and counted; only [`DropCounters::discard`] creates one.
#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::manual_non_exhaustive)] // the private field forbids making one within this crate too
pub struct Discarded {
    /// The reason for the drop.
    pub reason: Reason,
    /// Length of the frame, in bytes.
    pub bytes: u64,
    _private: (),
}

/// The counters of dropped and marked packets.
#[derive(Debug)]
pub struct DropCounters {
    ends: [Tally; Reason::COUNT],
    all: Tally,
    marks: Tally,
    freed: Vec<Freed>,
}

/// A dropped packet, while its bytes are still in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The slot of its bytes and its flow key.
    pub slot: Slot,
    /// The reason for the drop.
    pub reason: Reason,
    /// Length of the frame, in bytes.
    pub len: u32,
    /// Time at which it arrived at its queue, or at the router if it never reached a queue.
    pub since: Instant,
}

impl Default for DropCounters {
    fn default() -> Self {
        Self {
            ends: [Tally::ZERO; Reason::COUNT],
            all: Tally::ZERO,
            marks: Tally::ZERO,
            freed: Vec::new(),
        }
    }
}

impl DropCounters {
    /// Drops a packet. Its slot goes back to the pool at the next [`Self::freed`].
    pub fn discard(&mut self, packet: Packet, reason: Reason) -> Discarded {
        let bytes = packet.bytes();
        self.count_frame(bytes, reason);
        self.freed.push(Freed {
            slot: packet.slot,
            reason,
            len: packet.len,
            since: packet.enqueued,
        });
        Discarded {
            reason,
            bytes,
            _private: (),
        }
    }

    /// Counts a frame that was dropped before it became a packet.
    pub fn count_frame(&mut self, bytes: u64, reason: Reason) {
        self.ends[reason as usize].count(bytes);
        self.all.count(bytes);
    }

    /// Marks a packet "congestion experienced" if it is ECN-capable; returns whether it is marked now.
    pub fn mark(&mut self, packet: &mut Packet, why: MarkReason) -> bool {
        let MarkReason::Congestion = why;
        if packet.ecn == Ecn::NotCapable {
            return false;
        }
        packet.ecn = Ecn::Congested;
        self.marks.count(packet.bytes());
        true
    }

    /// Packets and bytes dropped for `reason` so far.
    pub fn ended(&self, reason: Reason) -> Tally {
        self.ends[reason as usize]
    }

    /// Packets and bytes dropped for any reason so far.
    pub fn all_ended(&self) -> Tally {
        self.all
    }

    /// Packets and bytes marked so far.
    pub fn marked(&self) -> Tally {
        self.marks
    }

    /// The items that the next [`Self::freed`] will return: the bytes of these packets are still in the pool.
    pub fn to_be_freed(&self) -> &[Freed] {
        &self.freed
    }

    /// The packets that were dropped since the last call; the caller returns their slots to the pool.
    pub fn freed(&mut self) -> std::vec::Drain<'_, Freed> {
        self.freed.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_number_name_and_sentence() {
        let mut names = Vec::new();
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            assert!(reason.sentence().ends_with('.'));
            names.push(reason.name());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::COUNT);
    }

    #[test]
    fn a_discard_is_counted_and_frees_the_slot() {
        let mut fates = DropCounters::default();
        let packet = Packet::new(0, Slot(7), 100, Instant::ZERO);
        let discarded = fates.discard(packet, Reason::QueueFull);
        assert_eq!(discarded.bytes, 100);
        assert_eq!(fates.ended(Reason::QueueFull), Tally::one(100));
        let expected = [Freed {
            slot: Slot(7),
            reason: Reason::QueueFull,
            len: 100,
            since: Instant::ZERO,
        }];
        assert_eq!(fates.to_be_freed(), expected);
        let freed: Vec<_> = fates.freed().collect();
        assert_eq!(freed, expected);
        assert_eq!(fates.to_be_freed(), []);
    }

    #[test]
    fn only_ecn_capable_packets_are_marked() {
        let mut fates = DropCounters::default();
        let mut packet = Packet::new(0, Slot(0), 100, Instant::ZERO);
        assert!(!fates.mark(&mut packet, MarkReason::Congestion));
        packet.ecn = Ecn::Capable0;
        assert!(fates.mark(&mut packet, MarkReason::Congestion));
        assert_eq!(packet.ecn, Ecn::Congested);
        assert_eq!(fates.marked(), Tally::one(100));
    }
}
