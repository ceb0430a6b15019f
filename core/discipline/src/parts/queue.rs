//! One queue of packets, first in, first out.

use std::collections::VecDeque;

use weir_base::Tally;
use weir_packet::Packet;

/// The packets, and their bytes.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) packets: VecDeque<Packet>,
    pub(crate) backlog: Tally,
}

impl Queue {
    /// An empty queue with memory for `limit` packets.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            packets: VecDeque::with_capacity(limit),
            backlog: Tally::ZERO,
        }
    }

    /// Packets queued.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Queues a packet.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet) {
        self.backlog.count(packet.bytes());
        self.packets.push_back(packet);
    }

    /// Takes the packet at the head.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.backlog.uncount(packet.bytes());
        Some(packet)
    }

    /// Ensures memory for `limit` packets in total.
    pub(crate) fn reserve(&mut self, limit: usize) {
        let more = limit.saturating_sub(self.len());
        self.packets.reserve(more);
    }

    /// Hands over all packets.
    pub(crate) fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.backlog = Tally::ZERO;
        self.packets.drain(..).for_each(out);
    }

    /// Bytes of memory allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.packets.capacity() * size_of::<Packet>()
    }
}
