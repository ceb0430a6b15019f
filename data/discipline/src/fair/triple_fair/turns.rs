//! The order of the queues that wait for a turn: the least start tag first.
//!
//! ```text
//!  new    [ 5 | 5 | 7 | 8 ]    queues that begin to wait with the least tag that they may have, which never falls
//!  heap   [ 6 | 9 | 7 | .. ]   all others                  next: the lesser one of the two that are first
//! ```
//!
//! A word holds a tag and the number of a queue. Most queues of most links hold a single packet: they pass through the
//! list of new ones in constant time. The others are in a binary heap; one that is served and still has packets moves
//! down from the top, in one pass.

/// Bits for the number of a queue.
const NUMBER_BITS: u32 = 9;
/// The greatest tag that has room beside the number of a queue.
pub(super) const TAG_MAX: u64 = u64::MAX >> NUMBER_BITS;
/// Queues that can be told apart.
pub(super) const QUEUES_MAX: usize = 1 << NUMBER_BITS;
/// Room for new ones; when it is full, they go to the heap, too.
const NEW: usize = 128;
/// A word after all others.
const LAST: u64 = u64::MAX;

/// The queues that wait.
#[derive(Debug)]
pub(super) struct Turns {
    heap: Vec<u64>,
    /// A ring.
    new: Box<[u64; NEW]>,
    /// Where the first new one is, and their number.
    head: usize,
    count: usize,
}

/// The turn of a queue, until the order changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) tag: u64,
    pub(super) queue: usize,
    is_new: bool,
}

impl Turns {
    /// Nobody waits. Memory for `queues` queues is allocated now.
    pub(super) fn new(queues: usize) -> Self {
        Self {
            heap: Vec::with_capacity(queues),
            new: Box::new([LAST; NEW]),
            head: 0,
            count: 0,
        }
    }

    /// Whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<Turn> {
        let (new, other) = (self.first_new(), self.first_of_heap());
        let is_new = new <= other;
        let word = if is_new { new } else { other };
        let (tag, queue) = unpack(word);
        (word != LAST).then_some(Turn { tag, queue, is_new })
    }

    /// A queue waits for a turn, with a tag that is not less than that of any other one that came this way.
    #[inline]
    pub(super) fn push_new(&mut self, tag: u64, queue: usize) {
        if self.count == NEW {
            return self.push(tag, queue);
        }
        self.new[(self.head + self.count) % NEW] = pack(tag, queue);
        self.count += 1;
    }

    /// A queue waits for a turn.
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

    /// The queue whose turn it was no longer waits.
    #[inline]
    pub(super) fn pop(&mut self, turn: Turn) {
        if turn.is_new {
            self.pop_new();
        } else if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sink(last);
        }
    }

    /// The queue whose turn it was waits for another one, with this tag.
    #[inline]
    pub(super) fn again(&mut self, turn: Turn, tag: u64) {
        if turn.is_new {
            self.pop_new();
            self.push(tag, turn.queue);
        } else {
            self.sink(pack(tag, turn.queue));
        }
    }

    /// Subtracts `from` from all tags, down to zero. The order of the others stays.
    pub(super) fn rebase(&mut self, from: u64) {
        let rebase = |word: &mut u64| {
            let (tag, queue) = unpack(*word);
            *word = pack(tag.saturating_sub(from), queue);
        };
        self.heap.iter_mut().for_each(rebase);
        // Tags that became equal are ordered by the queues' numbers.
        self.heap.sort_unstable();
        self.new.rotate_left(self.head);
        self.head = 0;
        self.new[..self.count].iter_mut().for_each(rebase);
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<u64>() + size_of_val(&*self.new)
    }

    #[inline]
    fn first_new(&self) -> u64 {
        if self.count == 0 {
            LAST
        } else {
            self.new[self.head % NEW]
        }
    }

    #[inline]
    fn first_of_heap(&self) -> u64 {
        self.heap.first().copied().unwrap_or(LAST)
    }

    #[inline]
    fn pop_new(&mut self) {
        self.count -= 1;
        self.head = (self.head + 1) % NEW;
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
        /// Compares with a sorted list. New ones with equal tags leave in the order in which they came.
        #[test]
        fn the_least_tag_is_first(calls in prop::collection::vec((0_u8..12, 0_u64..50), 0..600)) {
            let mut turns = Turns::new(QUEUES_MAX);
            let mut list: Vec<(u64, usize)> = Vec::new();
            let (mut number, mut newest) = (0, 0);
            for (call, tag) in calls {
                match call {
                    0..7 if list.len() < QUEUES_MAX => {
                        while list.iter().any(|(_, queue)| *queue == number) {
                            number = (number + 1) % QUEUES_MAX;
                        }
                        let is_new = call < 4;
                        newest += if is_new { tag / 16 } else { 0 };
                        let tag = if is_new { newest } else { tag };
                        match is_new {
                            true => turns.push_new(tag, number),
                            false => turns.push(tag, number),
                        }
                        list.push((tag, number));
                        number = (number + 1) % QUEUES_MAX;
                    }
                    7..9 if !list.is_empty() => {
                        let first = turns.first().unwrap();
                        turns.pop(first);
                        list.retain(|(_, queue)| *queue != first.queue);
                    }
                    9..11 if !list.is_empty() => {
                        let first = turns.first().unwrap();
                        turns.again(first, tag);
                        list.retain(|(_, other)| *other != first.queue);
                        list.push((tag, first.queue));
                    }
                    11 => {
                        turns.rebase(tag);
                        newest = newest.saturating_sub(tag);
                        list.iter_mut().for_each(|(t, _)| *t = t.saturating_sub(tag));
                    }
                    _ => {}
                }
                let first = turns.first().map(|first| (first.tag, first.queue));
                prop_assert_eq!(first.map(|(tag, _)| tag), list.iter().map(|(tag, _)| *tag).min());
                prop_assert!(first.is_none_or(|first| list.contains(&first)));
            }
        }

        #[test]
        fn new_ones_with_equal_tags_take_turns_as_they_came(queues in prop::collection::vec(0_usize..300, 1..NEW)) {
            let mut turns = Turns::new(QUEUES_MAX);
            queues.iter().for_each(|queue| turns.push_new(3, *queue));
            for queue in queues {
                let first = turns.first().unwrap();
                prop_assert_eq!((first.tag, first.queue), (3, queue));
                turns.pop(first);
            }
        }
    }
}
