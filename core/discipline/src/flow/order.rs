//! Keeps the order of flows that cross from one queue of LRU-FQ to the other.
//!
//! ```text
//!   up:    miss queue  [ x a x a x ]                  a gate before the first `a` of the hit queue: it opens
//!          hit queue   [ b b | a b ]                  when the last `a` of the miss queue has left
//!
//!   down:  a flow stays in the hit queue as long as one of its packets waits there
//! ```
//!
//! A closed gate never stops both queues: what it waits for came before all that is behind it. The gate holds up the
//! other hogs, too, but only while the miss queue is served, and their start tags make good for it later.

use std::collections::VecDeque;

/// The numbers of a flow's latest packets, counted from 1 in each queue: in the hit queue, in the miss queue.
pub(crate) type Latest = [u64; 2];

/// How far the queues are, for the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Packets that left the hit queue. A flow with a later one is not replaced in the cache.
    pub(crate) hit_left: u64,
    /// Packets that came to the miss queue. Of a flow that is admitted now, all waiting packets are among them.
    pub(crate) miss_came: u64,
}

impl Progress {
    /// For flows that need not keep their order.
    pub(crate) const ANY: Self = Self {
        hit_left: u64::MAX,
        miss_came: 0,
    };
}

/// The gates of the hit queue.
#[derive(Debug)]
pub(super) struct Gates(VecDeque<Gate>);

/// Before a packet of the hit queue.
#[derive(Clone, Copy, Debug)]
struct Gate {
    /// The number of this packet.
    before: u64,
    /// The number of the packet of the miss queue that must have left.
    until: u64,
}

impl Gates {
    /// No gates. Memory for a hit queue of `limit` packets is allocated now.
    pub(super) fn new(limit: usize) -> Self {
        Self(VecDeque::with_capacity(limit))
    }

    /// A packet with this number comes to the hit queue; a packet of its flow has this number in the miss queue.
    pub(super) fn come(&mut self, number: u64, missed: u64) {
        if self.0.back().is_none_or(|gate| gate.until < missed) {
            self.0.push_back(Gate {
                before: number,
                until: missed,
            });
        }
    }

    /// Whether the next packet of the hit queue, with this number, may leave; `left` packets have left the miss queue.
    pub(super) fn is_open(&self, number: u64, left: u64) -> bool {
        let shut = |gate: &Gate| gate.before == number && gate.until > left;
        !self.0.front().is_some_and(shut)
    }

    /// The packet with this number left the hit queue.
    pub(super) fn leave(&mut self, number: u64) {
        if self.0.front().is_some_and(|gate| gate.before == number) {
            self.0.pop_front();
        }
    }

    /// Those of before a change.
    pub(super) fn take_over(&mut self, old: Self) {
        self.0.extend(old.0);
    }

    /// The hit queue was emptied.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Gate>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_opens_when_the_packet_before_it_has_left() {
        let mut gates = Gates::new(4);
        gates.come(3, 7);
        gates.come(4, 5); // the gate before packet 3 holds for it, too
        gates.come(5, 9);
        assert!(gates.is_open(2, 0));
        assert!(!gates.is_open(3, 6));
        assert!(gates.is_open(3, 7));
        gates.leave(3);
        assert!(gates.is_open(4, 7));
        gates.leave(4);
        assert!(!gates.is_open(5, 8));
        assert!(gates.is_open(5, 9));
        assert_eq!(gates.state_bytes(), 4 * 16);
    }
}
