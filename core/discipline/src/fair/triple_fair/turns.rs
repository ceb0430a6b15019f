//! The order of the heavy queues: the lowest start tag first.
//!
//! ```text
//!  heap   [ 6 | 9 | 7 | .. ]      a word holds a tag and the number of a queue
//! ```
//!
//! A queue that is served and still has packets moves down from the top, in one pass.

/// Bits for the number of a queue.
const NUMBER_BITS: u32 = 12;
/// The largest tag that fits in a word next to the number of a queue.
pub(super) const TAG_MAX: u64 = u64::MAX >> NUMBER_BITS;
/// Maximum number of queues.
pub(super) const QUEUES_MAX: usize = 1 << NUMBER_BITS;

/// The queues that wait, with their tags.
#[derive(Debug)]
pub(super) struct Turns {
    heap: Vec<u64>,
}

impl Turns {
    /// No queue waits. Memory for `queues` queues is allocated now.
    pub(super) fn new(queues: usize) -> Self {
        Self {
            heap: Vec::with_capacity(queues),
        }
    }

    /// The least tag, and its queue.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        self.heap.first().copied().map(unpack)
    }

    /// Whether no queue waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Adds a queue with this tag.
    pub(super) fn push(&mut self, tag: u64, queue: usize) {
        let heap = &mut self.heap;
        let word = pack(tag, queue);
        let mut at = heap.len();
        heap.push(word);
        while at > 0 {
            let parent = (at - 1) / 2;
            if heap[parent] <= word {
                break;
            }
            heap[at] = heap[parent];
            at = parent;
        }
        heap[at] = word;
    }

    /// Removes the first queue.
    pub(super) fn pop(&mut self) {
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sink(last);
        }
    }

    /// Lets the first queue wait for another turn, with this tag.
    pub(super) fn again(&mut self, tag: u64) {
        if let Some((_, queue)) = self.first() {
            self.sink(pack(tag, queue));
        }
    }

    /// Subtracts `from` from all tags, down to zero. Tags above zero keep their order.
    pub(super) fn rebase(&mut self, from: u64) {
        for word in &mut self.heap {
            let (tag, queue) = unpack(*word);
            *word = pack(tag.saturating_sub(from), queue);
        }
        // Tags that became equal are ordered by the queues' numbers.
        self.heap.sort_unstable();
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<u64>()
    }

    /// Puts a word in the place of the first one, and moves it down.
    fn sink(&mut self, word: u64) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            let Some(pair) = heap.get(left..) else { break };
            let child = match pair {
                [a, b, ..] => left + usize::from(b < a),
                [_] => left,
                [] => break,
            };
            if heap[child] >= word {
                break;
            }
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = word;
    }
}

fn pack(tag: u64, queue: usize) -> u64 {
    debug_assert!(tag <= TAG_MAX && queue < QUEUES_MAX);
    tag << NUMBER_BITS | queue as u64
}

fn unpack(word: u64) -> (u64, usize) {
    (word >> NUMBER_BITS, word as usize % QUEUES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a list.
        #[test]
        fn the_least_tag_is_first(calls in prop::collection::vec((0_u8..12, 0_u64..50), 0..600)) {
            let mut turns = Turns::new(QUEUES_MAX);
            let mut list: Vec<(u64, usize)> = Vec::new();
            let mut number = 0;
            for (call, tag) in calls {
                match (call, turns.first()) {
                    (0..7, _) => {
                        turns.push(tag, number);
                        list.push((tag, number));
                        number += 1;
                    }
                    (7..9, Some((_, queue))) => {
                        turns.pop();
                        list.retain(|(_, other)| *other != queue);
                    }
                    (9..11, Some((_, queue))) => {
                        turns.again(tag);
                        list.retain(|(_, other)| *other != queue);
                        list.push((tag, queue));
                    }
                    (11, _) => {
                        turns.rebase(tag);
                        list.iter_mut().for_each(|(t, _)| *t = t.saturating_sub(tag));
                    }
                    _ => {}
                }
                let first = turns.first();
                prop_assert_eq!(first.map(|(tag, _)| tag), list.iter().map(|(tag, _)| *tag).min());
                prop_assert!(first.is_none_or(|first| list.contains(&first)));
                prop_assert_eq!(turns.is_empty(), list.is_empty());
            }
        }
    }
}
