//! Keeps the order of flows that cross from one queue of LRU-FQ to the other.
//!
//! ```text
//!   up:    miss queue  [ x a x a x ]                  a gate before the first `a` of the hit queue: it opens
//!          hit queue   [ b b | a b ]                  when the last `a` of the miss queue has left
//!
//!   down:  a flow stays in the hit queue as long as one of its packets waits there
//! ```
//!
//! A closed gate never stops both queues, because the packet that it waits for arrived before all packets behind the
//! gate. The gate delays the other hogs too, but only while the miss queue is served, and their start tags
//! compensate for it later.

use std::collections::VecDeque;

/// The numbers of a flow's latest packets, counted from 1 in each queue: in the hit queue, in the miss queue.
pub(crate) type Latest = [u64; 2];

/// Progress of the queues, for the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Packets that left the hit queue. A flow with a later packet there is not replaced in the cache.
    pub(crate) hit_left: u64,
    /// Packets that entered the miss queue. They include all waiting packets of a flow that is admitted now.
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

/// A gate before a packet of the hit queue.
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

    /// Handles packet `number` of the hit queue, whose flow has packet `missed` in the miss queue.
    pub(super) fn come(&mut self, number: u64, missed: u64) {
        if self.0.back().is_none_or(|gate| gate.until < missed) {
            self.0.push_back(Gate {
                before: number,
                until: missed,
            });
        }
    }

    /// Whether packet `number`, the next of the hit queue, may leave; `left` packets have left the miss queue.
    pub(super) fn is_open(&self, number: u64, left: u64) -> bool {
        let shut = |gate: &Gate| gate.before == number && gate.until > left;
        !self.0.front().is_some_and(shut)
    }

    /// Records that packet `number` left the hit queue.
    pub(super) fn leave(&mut self, number: u64) {
        if self.0.front().is_some_and(|gate| gate.before == number) {
            self.0.pop_front();
        }
    }

    /// Takes over the gates from before a change of parameters.
    pub(super) fn take_over(&mut self, old: Self) {
        self.0.extend(old.0);
    }

    /// Removes all gates, because the hit queue was emptied.
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
        gates.come(4, 5); // the gate before packet 3 also covers packet 4
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
