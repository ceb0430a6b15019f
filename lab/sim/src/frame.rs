//! A packet between two nodes, and the ring that holds such packets.

use weir_base::Instant;
use weir_packet::{Class, Ecn, Queue, Slot};

use crate::route::Hop;

/// A packet that waits for a link or travels on it. Its size is half a cache line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    /// Time of arrival at the other end of the link.
    pub arrival: Instant,
    /// Time at which the link starts to send the frame.
    pub start: Instant,
    /// The slot that holds its content.
    pub slot: Slot,
    /// The next hop at the other end of the link.
    pub hop: Hop,
    /// The layer-2 length, in bytes.
    pub len: u32,
    /// The class of the packet.
    pub class: Class,
    /// The queue at the port.
    pub queue: Queue,
    /// The ECN field.
    pub ecn: Ecn,
}

/// A queue of frames that grows as needed.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// A power of two of places, or empty.
    places: Box<[Frame]>,
    /// Numbers of frames removed and added so far: positions, modulo the number of places.
    left: usize,
    come: usize,
}

impl Ring {
    /// Number of frames.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.come - self.left
    }

    /// Whether there are no frames.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.come == self.left
    }

    /// The frame at a position, counted from the first.
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&Frame> {
        if place >= self.len() {
            return None;
        }
        self.places.get(self.index(self.left + place))
    }

    /// The last frame.
    #[inline]
    pub(crate) fn last(&self) -> Option<&Frame> {
        self.get(self.len().wrapping_sub(1))
    }

    /// Adds a frame at the end.
    #[inline]
    pub(crate) fn push(&mut self, frame: Frame) {
        if self.len() == self.places.len() {
            self.grow();
        }
        let index = self.index(self.come);
        self.places[index] = frame;
        self.come += 1;
    }

    /// Takes the first frame.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Frame> {
        let frame = *self.get(0)?;
        self.left += 1;
        if self.is_empty() {
            (self.left, self.come) = (0, 0); // back to the start of its memory, which is in the cache
        }
        Some(frame)
    }

    /// Releases all memory if the ring is empty.
    pub(crate) fn relax(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    #[inline]
    fn index(&self, position: usize) -> usize {
        position & self.places.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self) {
        const FEW: usize = 4;
        let frames = (0..self.len()).filter_map(|place| self.get(place)).copied();
        let mut places: Vec<_> = frames.collect();
        let come = places.len();
        places.resize((2 * come).max(FEW), Frame::default());
        *self = Self {
            places: places.into_boxed_slice(),
            left: 0,
            come,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn a_ring_is_a_queue(steps in prop::collection::vec((0_u32..12, 0_u32..12), 1..60)) {
            let (mut ring, mut queue) = (Ring::default(), VecDeque::new());
            let mut number = 0;
            for (pushes, pops) in steps {
                for _ in 0..pushes {
                    number += 1;
                    ring.push(Frame { len: number, ..Frame::default() });
                    queue.push_back(number);
                }
                prop_assert_eq!(ring.last().map(|f| f.len), queue.back().copied());
                for _ in 0..pops {
                    prop_assert_eq!(ring.get(1).map(|f| f.len), queue.get(1).copied());
                    prop_assert_eq!(ring.pop().map(|f| f.len), queue.pop_front());
                }
                prop_assert_eq!((ring.len(), ring.is_empty()), (queue.len(), queue.is_empty()));
                ring.relax();
            }
        }
    }
}
