//! A sketch of the flows that may have packets in a queue that many flows share, and of their number.
//!
//! ```text
//!  packets of the queue   [ new new new | old old old ]  --> out
//!                             |              |
//!  a bit for each flow      256 bits       256 bits        cleared when the last old packet has left
//! ```
//!
//! A flow whose bit is set stays in the queue, so that it keeps its order, even if a queue of its own becomes free
//! meanwhile. A flow with the bit of another flow stays too, which costs it only a queue of its own.

/// Words of a generation in the sketch of a host's queue.
pub(super) const WORDS_OF_HOST: usize = 4;
/// Words of a generation in the sketch of a bin: in a flood hundreds of flows wait in each bin, and with fewer words
/// most new flows would have the bit of one of them.
pub(super) const WORDS_OF_BIN: usize = 64;

/// The bits of two generations.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    new: Box<[u64]>,
    old: Box<[u64]>,
    /// Bits set in each generation.
    set: [u16; 2],
    /// Packets in the queue.
    held: u32,
    /// Packets of these that arrived before the latest change of generations.
    old_held: u32,
}

impl Sketch {
    /// An empty sketch, with this many words per generation.
    pub(super) fn new(words: usize) -> Self {
        Self {
            new: vec![0; words].into(),
            old: vec![0; words].into(),
            set: [0; 2],
            held: 0,
            old_held: 0,
        }
    }

    /// Forgets all flows, and their number.
    pub(super) fn clear(&mut self) {
        self.new.fill(0);
        self.old.fill(0);
        (self.set, self.held, self.old_held) = ([0; 2], 0, 0);
    }

    /// Records that a packet of the flow with this hash joined the queue.
    pub(super) fn come(&mut self, hash: u64) {
        let (word, bit) = self.place(hash);
        self.set[0] += u16::from(self.new[word] & bit == 0);
        self.new[word] |= bit;
        self.held += 1;
    }

    /// Records that packets left the queue at its head.
    pub(super) fn leave(&mut self, packets: u64) {
        self.held -= packets as u32;
        self.old_held = self.old_held.saturating_sub(packets as u32);
        if self.old_held == 0 {
            // All packets that set the old bits have left.
            std::mem::swap(&mut self.old, &mut self.new);
            self.new.fill(0);
            self.set = [0, self.set[0]];
            self.old_held = self.held;
        }
        if self.held == 0 {
            self.old.fill(0); // the number of flows stays, as an estimate for the next packets
        }
    }

    /// Whether the flow with this hash may have packets in the queue.
    pub(super) fn has(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        (self.new[word] | self.old[word]) & bit != 0
    }

    /// The approximate number of flows, at least 1. `n` set bits of `m` come from `m ln(m / (m - n))` flows;
    /// the code has the first terms of this series.
    pub(super) fn flows(&self) -> u32 {
        let (n, m) = (
            u64::from(self.set[0].max(self.set[1])),
            64 * self.new.len() as u64,
        );
        (n + n * n / (2 * m) + n * n * n / (3 * m * m)).max(1) as u32
    }

    /// Word and bit of a flow.
    fn place(&self, hash: u64) -> (usize, u64) {
        ((hash >> 6) as usize % self.new.len(), 1 << (hash % 64))
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        size_of_val(&*self.new) + size_of_val(&*self.old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn flows_are_about_as_many_as_came() {
        let mut sketch = Sketch::new(WORDS_OF_HOST);
        assert_eq!(sketch.flows(), 1);
        for flow in 0..100_u64 {
            sketch.come(
                flow.wrapping_mul(0x9E37_79B9_7F4A_7C15).swap_bytes()
                    ^ flow.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 31,
            );
        }
        assert!((85..115).contains(&sketch.flows()), "{}", sketch.flows());
        sketch.leave(100);
        assert!(sketch.flows() > 85);
    }

    #[test]
    fn few_new_flows_are_mistaken_for_one_of_a_bin_in_a_flood() {
        let hash = |flow: u64| flow.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ flow << 7;
        let mut sketch = Sketch::new(WORDS_OF_BIN);
        for flow in 0..600 {
            sketch.come(hash(flow));
            if flow >= 200 {
                sketch.leave(1);
            }
        }
        let mistaken = (1000..2000).filter(|flow| sketch.has(hash(*flow))).count();
        assert!(mistaken < 200, "{mistaken} of 1000");
    }

    proptest! {
        /// A flow with a packet in the queue is known; an empty queue knows no flow.
        #[test]
        fn nobody_who_waits_is_forgotten(calls in prop::collection::vec((any::<u8>(), 0_u64..4), 0..400)) {
            let mut sketch = Sketch::new(WORDS_OF_HOST);
            let mut queue = VecDeque::new();
            for (hash, call) in calls {
                let hash = u64::from(hash) * 0x0101_0101;
                if call < 2 {
                    sketch.come(hash);
                    queue.push_back(hash);
                } else {
                    let packets = call.min(queue.len() as u64);
                    queue.drain(..packets as usize);
                    if packets > 0 {
                        sketch.leave(packets);
                    }
                }
                for waits in &queue {
                    prop_assert!(sketch.has(*waits));
                }
                if queue.is_empty() {
                    prop_assert!(!sketch.has(hash));
                }
            }
        }
    }
}
