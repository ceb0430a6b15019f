//! Which flows may have packets in a queue that many flows share, and about how many flows they are.
//!
//! ```text
//!  packets of the queue   [ new new new | old old old ]  --> out
//!                             |              |
//!  a bit for each flow      256 bits       256 bits        cleared when the last old packet has left
//! ```
//!
//! A flow whose bit is set stays in the queue, so that it keeps its order, whatever becomes free meanwhile. A flow
//! that is mistaken for another one stays, too, which costs it nothing but its own queue.

/// Words of a generation.
const WORDS: usize = 4;
/// Bits of a generation.
const BITS: u64 = 64 * WORDS as u64;

/// The bits of two generations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sketch {
    new: [u64; WORDS],
    old: [u64; WORDS],
    /// Bits set in each.
    set: [u16; 2],
    /// Packets in the queue.
    held: u32,
    /// Those of them that came before the generations changed last.
    old_held: u32,
}

impl Sketch {
    /// A packet of the flow with this hash comes to the queue.
    pub(super) fn come(&mut self, hash: u64) {
        let (word, bit) = place(hash);
        self.set[0] += u16::from(self.new[word] & bit == 0);
        self.new[word] |= bit;
        self.held += 1;
    }

    /// Packets leave the queue, at its head.
    pub(super) fn leave(&mut self, packets: u64) {
        self.held -= packets as u32;
        self.old_held = self.old_held.saturating_sub(packets as u32);
        if self.old_held == 0 {
            // All packets that set the old bits have left.
            (self.old, self.set[1]) = (self.new, self.set[0]);
            (self.new, self.set[0]) = ([0; WORDS], 0);
            self.old_held = self.held;
        }
        if self.held == 0 {
            self.old = [0; WORDS]; // their number stays, as an estimate for what comes next
        }
    }

    /// Whether the flow with this hash may have packets in the queue.
    pub(super) fn has(&self, hash: u64) -> bool {
        let (word, bit) = place(hash);
        (self.new[word] | self.old[word]) & bit != 0
    }

    /// The number of flows, about: at least one. `n` bits of `m` come from `m ln(m / (m - n))` flows, of which
    /// these are the first terms.
    pub(super) fn flows(&self) -> u32 {
        let n = u64::from(self.set[0].max(self.set[1]));
        (n + n * n / (2 * BITS) + n * n * n / (3 * BITS * BITS)).max(1) as u32
    }
}

/// Word and bit of a flow.
fn place(hash: u64) -> (usize, u64) {
    ((hash >> 6) as usize % WORDS, 1 << (hash % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn flows_are_about_as_many_as_came() {
        let mut sketch = Sketch::default();
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

    proptest! {
        /// A flow with a packet in the queue is known; an empty queue knows no flow.
        #[test]
        fn nobody_who_waits_is_forgotten(calls in prop::collection::vec((any::<u8>(), 0_u64..4), 0..400)) {
            let mut sketch = Sketch::default();
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
