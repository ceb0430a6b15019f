//! Many queues in one fixed block of memory: packets in cells, linked into chains.
//!
//! ```text
//!  cells   [ 0 | 1 | 2 | 3 | 4 | 5 ]       chain a: 1 -> 4      chain b: 2
//!  links   [ 3 | 4 | . | 5 | . | . ]       spare:   0 -> 3 -> 5
//! ```
//!
//! A chain costs its head, tail and tally; a packet costs a cell. Nothing is allocated per packet: the cell that
//! became spare last is used next, so that it is warm in the cache. The links are in a separate array, because cells
//! with a link would be larger by a sixth to keep their alignment.

use weir_base::Tally;
use weir_packet::Packet;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// The cells.
#[derive(Debug)]
pub(crate) struct Slab {
    cells: Vec<Option<Packet>>,
    /// The next cell after each cell, in its chain or in the list of spare cells.
    links: Vec<u32>,
    spare: u32,
}

/// A queue whose packets are in a [`Slab`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
    tally: Tally,
}

impl Chain {
    /// The empty queue.
    pub(crate) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        tally: Tally::ZERO,
    };

    /// Packets and bytes queued.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

impl Slab {
    /// Cells for `packets` packets, which are allocated now.
    pub(crate) fn new(packets: usize) -> Self {
        Self {
            cells: Vec::with_capacity(packets),
            links: Vec::with_capacity(packets),
            spare: NONE,
        }
    }

    /// Ensures room for `packets` packets in total.
    pub(crate) fn reserve(&mut self, packets: usize) {
        self.cells.reserve(packets.saturating_sub(self.cells.len()));
        self.links.reserve(packets.saturating_sub(self.links.len()));
    }

    /// Queues a packet at the end of `chain`.
    pub(crate) fn push(&mut self, chain: &mut Chain, packet: Packet) {
        chain.tally.count(packet.bytes());
        if self.spare == NONE {
            self.add_spare();
        }
        let at = self.spare;
        self.cells[at as usize] = Some(packet);
        self.spare = std::mem::replace(&mut self.links[at as usize], NONE);
        if chain.head == NONE {
            chain.head = at;
        } else {
            self.links[chain.tail as usize] = at;
        }
        chain.tail = at;
    }

    /// Adds a cell, which becomes the only spare cell.
    #[cold]
    fn add_spare(&mut self) {
        self.spare = self.cells.len() as u32;
        self.cells.push(None);
        self.links.push(NONE);
    }

    /// Takes the packet at the head of `chain`.
    pub(crate) fn pop(&mut self, chain: &mut Chain) -> Option<Packet> {
        if chain.head == NONE {
            return None;
        }
        let at = chain.head;
        let packet = self.cells[at as usize].take()?;
        chain.head = std::mem::replace(&mut self.links[at as usize], self.spare);
        self.spare = at;
        chain.tally.uncount(packet.bytes());
        Some(packet)
    }

    /// Like [`Self::pop`], for a caller that passes the packet on without reading it. The packet is moved as a whole,
    /// because memory that was written in pieces is slow to read as one.
    #[inline(never)]
    pub(crate) fn pop_whole(&mut self, chain: &mut Chain) -> Option<Packet> {
        let at = chain.head;
        let cell = self.cells.get_mut(at as usize)?;
        let link = self.links.get_mut(at as usize)?;
        chain.tally.uncount(cell.as_ref()?.bytes());
        chain.head = std::mem::replace(link, self.spare);
        self.spare = at;
        cell.take()
    }

    /// The packet at the head of `chain`.
    pub(crate) fn front(&self, chain: &Chain) -> Option<&Packet> {
        self.cells.get(chain.head as usize)?.as_ref()
    }

    /// Queues all of `other` behind `chain`, in order.
    pub(crate) fn append(&mut self, chain: &mut Chain, other: Chain) {
        if other.is_empty() {
            return;
        }
        if chain.head == NONE {
            *chain = other;
            return;
        }
        self.links[chain.tail as usize] = other.head;
        chain.tail = other.tail;
        chain.tally += other.tally;
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<Option<Packet>>()
            + self.links.capacity() * size_of::<u32>()
    }

    /// Cells in use or spare: the maximum number of packets that were ever held at once.
    #[cfg(test)]
    pub(crate) fn cells(&self) -> usize {
        self.cells.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use weir_base::Instant;
    use weir_packet::Slot;

    fn packet(id: u64) -> Packet {
        Packet::new(id, Slot(0), id as u32 % 1000, Instant::ZERO)
    }

    #[test]
    fn a_packet_costs_forty_four_bytes() {
        assert_eq!(size_of::<Option<Packet>>() + size_of::<u32>(), 44);
    }

    proptest! {
        /// Compares three chains with three `VecDeque`s; cells are reused.
        #[test]
        fn chains_are_queues(calls in prop::collection::vec((0_usize..3, 0_u8..8), 0..300)) {
            let mut slab = Slab::new(0);
            let mut chains = [Chain::EMPTY; 3];
            let mut queues: [VecDeque<Packet>; 3] = Default::default();
            let mut most = 0;
            for (id, (which, call)) in calls.into_iter().enumerate() {
                let id = id as u64;
                match call {
                    0..4 => {
                        slab.push(&mut chains[which], packet(id));
                        queues[which].push_back(packet(id));
                    }
                    4..6 => prop_assert_eq!(slab.pop(&mut chains[which]), queues[which].pop_front()),
                    6 => prop_assert_eq!(slab.pop_whole(&mut chains[which]), queues[which].pop_front()),
                    _ => {
                        let other = (which + 1) % 3;
                        let moved = std::mem::replace(&mut chains[other], Chain::EMPTY);
                        slab.append(&mut chains[which], moved);
                        let moved = std::mem::take(&mut queues[other]);
                        queues[which].extend(moved);
                    }
                }
                let mut held = 0;
                for (chain, queue) in chains.iter().zip(&queues) {
                    let bytes = queue.iter().map(Packet::bytes).sum();
                    prop_assert_eq!(chain.tally(), Tally { packets: queue.len() as u64, bytes });
                    prop_assert_eq!(slab.front(chain), queue.front());
                    prop_assert_eq!(chain.is_empty(), queue.is_empty());
                    held += queue.len();
                }
                most = most.max(held);
                prop_assert_eq!(slab.cells(), most);
            }
        }
    }
}
