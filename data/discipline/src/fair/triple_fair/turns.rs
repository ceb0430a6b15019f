//! The order of the queues that wait for a turn: the least start tag first.
//!
//! A binary heap over one array of words, each of which holds a tag and the number of a queue. A queue that is served
//! and still has packets moves down from the top, in one pass.

/// Bits for the number of a queue.
const NUMBER_BITS: u32 = 9;
/// The greatest tag that has room beside the number of a queue.
pub(super) const TAG_MAX: u64 = u64::MAX >> NUMBER_BITS;
/// Queues that can be told apart.
pub(super) const QUEUES_MAX: usize = 1 << NUMBER_BITS;

/// The queues that wait.
#[derive(Debug)]
pub(super) struct Turns(Vec<u64>);

impl Turns {
    /// Nobody waits. Memory for `queues` queues is allocated now.
    pub(super) fn new(queues: usize) -> Self {
        Self(Vec::with_capacity(queues))
    }

    /// Tag and number of the queue whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        self.0.first().map(|word| unpack(*word))
    }

    /// A queue waits for a turn.
    pub(super) fn push(&mut self, tag: u64, queue: usize) {
        let word = pack(tag, queue);
        let mut at = self.0.len();
        self.0.push(word);
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.0[parent] <= word {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = word;
    }

    /// The queue whose turn it was no longer waits.
    pub(super) fn pop(&mut self) {
        if let Some(last) = self.0.pop()
            && !self.0.is_empty()
        {
            self.sink(last);
        }
    }

    /// The queue whose turn it was waits for another one, with this tag.
    #[inline]
    pub(super) fn again(&mut self, tag: u64, queue: usize) {
        self.sink(pack(tag, queue));
    }

    /// Subtracts `from` from all tags, down to zero. The order of the others stays.
    pub(super) fn rebase(&mut self, from: u64) {
        for word in &mut self.0 {
            let (tag, queue) = unpack(*word);
            *word = pack(tag.saturating_sub(from), queue);
        }
        // Tags that became equal are ordered by the queues' numbers.
        self.0.sort_unstable();
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }

    /// Puts a word in the place of the first one, and moves it down.
    fn sink(&mut self, word: u64) {
        let heap = &mut self.0[..];
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
        /// Compares with a sorted list.
        #[test]
        fn the_least_tag_is_first(calls in prop::collection::vec((0_u8..8, 0_u64..50), 0..300)) {
            let mut turns = Turns::new(QUEUES_MAX);
            let mut list: Vec<(u64, usize)> = Vec::new();
            let mut number = 0;
            for (call, tag) in calls {
                match call {
                    0..4 if list.len() < QUEUES_MAX => {
                        while list.iter().any(|(_, queue)| *queue == number) {
                            number = (number + 1) % QUEUES_MAX;
                        }
                        turns.push(tag, number);
                        list.push((tag, number));
                    }
                    4..6 if !list.is_empty() => {
                        turns.pop();
                        list.remove(0);
                    }
                    6 if !list.is_empty() => {
                        let queue = list.remove(0).1;
                        turns.again(tag, queue);
                        list.push((tag, queue));
                    }
                    7 => {
                        turns.rebase(tag);
                        list.iter_mut().for_each(|(t, _)| *t = t.saturating_sub(tag));
                    }
                    _ => {}
                }
                list.sort_unstable();
                prop_assert_eq!(turns.first(), list.first().copied());
            }
        }
    }
}
