//! A queue from which any packet can be drawn, in constant time.
//!
//! ```text
//!  cells    [ 0 | 1 | 2 | 3 ]      without holes, so that a number below their count draws one
//!  order    2 -> 0 -> 3 -> 1       links both ways
//! ```
//!
//! A packet that leaves is replaced by the one in the last cell, and the links of its neighbours follow.

use weir_base::Tally;
use weir_packet::Packet;

/// No cell.
const NONE: u32 = u32::MAX;

/// A packet that waits, with the entry of its flow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The flow's entry in the table of flows.
    pub(crate) flow: u32,
    /// The packet.
    pub(crate) packet: Packet,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Urn {
    cells: Vec<Cell>,
    head: u32,
    tail: u32,
    tally: Tally,
}

#[derive(Debug)]
struct Cell {
    waiting: Waiting,
    previous: u32,
    next: u32,
}

impl Urn {
    /// An empty queue with room for `packets` packets, which is allocated now.
    pub(crate) fn new(packets: usize) -> Self {
        Self {
            cells: Vec::with_capacity(packets),
            head: NONE,
            tail: NONE,
            tally: Tally::ZERO,
        }
    }

    /// Ensures room for `packets` packets in total.
    pub(crate) fn reserve(&mut self, packets: usize) {
        self.cells.reserve(packets.saturating_sub(self.cells.len()));
    }

    /// Packets and bytes queued.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// The number of packets.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Queues a packet at the end.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        self.tally.count(waiting.packet.bytes());
        let at = self.cells.len() as u32;
        self.cells.push(Cell {
            waiting,
            previous: self.tail,
            next: NONE,
        });
        let tail = std::mem::replace(&mut self.tail, at);
        match tail {
            NONE => self.head = at,
            _ => self.cells[tail as usize].next = at,
        }
    }

    /// Takes the packet at the head.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        match self.head {
            NONE => None,
            head => Some(self.take(head as usize)),
        }
    }

    /// The cell that `draw`, from the whole range of `u64`, picks: each packet with the same probability.
    pub(crate) fn draw(&self, draw: u64) -> Option<usize> {
        let at = ((u128::from(draw) * self.cells.len() as u128) >> 64) as usize;
        (at < self.cells.len()).then_some(at)
    }

    /// The flow of the packet in a cell.
    pub(crate) fn flow(&self, at: usize) -> u32 {
        self.cells[at].waiting.flow
    }

    /// The packet in a cell.
    pub(crate) fn packet(&self, at: usize) -> &Packet {
        &self.cells[at].waiting.packet
    }

    /// Takes the packet in a cell.
    pub(crate) fn take(&mut self, at: usize) -> Waiting {
        let Cell { previous, next, .. } = self.cells[at];
        self.link(previous, next);
        let cell = self.cells.swap_remove(at);
        if let Some(moved) = self.cells.get(at) {
            let Cell { previous, next, .. } = *moved;
            self.link(previous, at as u32);
            self.link(at as u32, next);
        }
        self.tally.uncount(cell.waiting.packet.bytes());
        cell.waiting
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>()
    }

    /// Makes two cells neighbours; `NONE` means an end of the queue.
    #[inline]
    fn link(&mut self, previous: u32, next: u32) {
        match previous {
            NONE => self.head = next,
            _ => self.cells[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            _ => self.cells[next as usize].previous = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use weir_base::Instant;
    use weir_packet::Slot;

    fn waiting(id: u64) -> Waiting {
        Waiting {
            flow: id as u32 % 7,
            packet: Packet::new(id, Slot(0), id as u32 % 1000, Instant::ZERO),
        }
    }

    #[test]
    fn a_cell_fits_a_cache_line() {
        assert!(size_of::<Cell>() <= 64, "{}", size_of::<Cell>());
    }

    #[test]
    fn every_packet_can_be_drawn() {
        let mut urn = Urn::new(5);
        assert_eq!(urn.draw(u64::MAX), None);
        (0..5).for_each(|id| urn.push(waiting(id)));
        let drawn: BTreeSet<_> = (0..100).map(|n| urn.draw(n * (u64::MAX / 99))).collect();
        assert_eq!(drawn, (0..5).map(Some).collect());
    }

    proptest! {
        /// Compares with a vector in the order of arrival.
        #[test]
        fn behaves_as_a_vector(calls in prop::collection::vec((0_u8..10, any::<u64>()), 0..400)) {
            let mut urn = Urn::new(0);
            let mut order: Vec<Waiting> = Vec::new();
            for (id, (call, draw)) in calls.into_iter().enumerate() {
                let id = id as u64;
                match call {
                    0..5 => {
                        urn.push(waiting(id));
                        order.push(waiting(id));
                    }
                    5..8 => {
                        let first = (!order.is_empty()).then(|| order.remove(0));
                        prop_assert_eq!(urn.pop(), first);
                    }
                    _ => match urn.draw(draw) {
                        None => prop_assert!(order.is_empty()),
                        Some(at) => {
                            let flow = urn.flow(at);
                            let taken = urn.take(at);
                            prop_assert_eq!(flow, taken.flow);
                            let place = order.iter().position(|w| *w == taken);
                            prop_assert!(place.is_some());
                            order.remove(place.unwrap_or(0));
                        }
                    },
                }
                let bytes = order.iter().map(|w| w.packet.bytes()).sum();
                prop_assert_eq!(urn.tally(), Tally { packets: order.len() as u64, bytes });
                prop_assert_eq!(urn.len(), order.len());
            }
        }
    }
}
