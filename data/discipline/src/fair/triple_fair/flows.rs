//! Which flow has which queue, and which queue another flow may have.
//!
//! ```text
//!  hash --> set [ a | b | - | c | - | - | - | d ]     128 sets of 8 flows: four times as many places as queues
//!                 |       |
//!  queues       [ 17 ]  [ 4 ]    idle    0 1 1 0 1 ..    a bit for each queue: it is empty
//!                                recent  0 0 1 0 1 ..    it became empty after the hand had passed its word
//! ```
//!
//! A set is compared at once, so that neither a search nor a change has a loop or a branch that depends on the flow. A
//! queue to evict is found as by a clock with a second chance: a hand goes over the words of bits, and takes the queues
//! that have been empty since it passed them last.
//!
//! A flow is known by 39 bits of its keyed hash. Two of the 256 flows that have queues are mistaken for one with a
//! probability of `2^-24`, and share a queue then, in order; nobody can cause that without the key.

use super::queue::FLOWS;

/// Flows of a set.
const WAYS: usize = 8;
/// Sets: a flow finds its set full with a probability of 1 in 4000 when all queues are taken.
const SETS: usize = 4 * FLOWS / WAYS;
/// Words of a bit for each queue.
const WORDS: usize = FLOWS / 64;
/// No place.
const NONE: u16 = u16::MAX;

/// The flows with queues.
#[derive(Debug)]
pub(super) struct Flows {
    sets: Box<[Set]>,
    /// The place of each queue's flow, among all ways of all sets.
    places: Box<[u16; FLOWS]>,
    idle: [u64; WORDS],
    recent: [u64; WORDS],
    /// The word where the hand is.
    hand: usize,
}

/// Flows with hashes alike.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    /// The high half of each hash.
    tags: [u32; WAYS],
    queues: [u8; WAYS],
    /// A bit for each way in use.
    taken: u8,
}

/// The ways of a set that have this tag, a bit for each: all are compared at once, without a branch.
#[inline]
pub(super) fn matches<const WAYS: usize>(tags: &[u32; WAYS], tag: u32) -> u32 {
    let same = tags.iter().enumerate();
    same.fold(0, |same, (way, other)| {
        same | u32::from(*other == tag) << way
    })
}

impl Flows {
    /// No flow is known; all queues are idle.
    pub(super) fn new() -> Self {
        Self {
            sets: vec![Set::default(); SETS].into_boxed_slice(),
            places: Box::new([NONE; FLOWS]),
            idle: [u64::MAX; WORDS],
            recent: [0; WORDS],
            hand: 0,
        }
    }

    /// The queue of the flow with this hash.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        let set = &self.sets[set(hash)];
        let same = matches(&set.tags, tag(hash)) & u32::from(set.taken);
        (same != 0).then(|| usize::from(set.queues[same.trailing_zeros() as usize % WAYS]))
    }

    /// Gives an idle queue to the flow with this hash, which has none; returns the queue, and whether another flow had
    /// it. None if all hold packets, or all of this flow's set.
    pub(super) fn claim(&mut self, hash: u64) -> Option<(usize, bool)> {
        let set = set(hash);
        let queue = match self.sets[set].taken {
            u8::MAX => self.idle_of(set)?,
            _ => self.oldest()?,
        };
        let place = usize::from(self.places[queue]);
        let evicted = place != usize::from(NONE);
        if evicted {
            self.sets[place / WAYS].taken &= !(1 << (place % WAYS));
        }
        let ways = &mut self.sets[set];
        let way = ways.taken.trailing_ones() as usize % WAYS;
        ways.taken |= 1 << way;
        ways.tags[way] = tag(hash);
        ways.queues[way] = queue as u8;
        self.places[queue] = (set * WAYS + way) as u16;
        Some((queue, evicted))
    }

    /// A queue holds packets from now on.
    #[inline]
    pub(super) fn wakes(&mut self, queue: usize) {
        self.idle[queue / 64 % WORDS] &= !(1 << (queue % 64));
    }

    /// A queue is empty from now on.
    #[inline]
    pub(super) fn rests(&mut self, queue: usize) {
        self.idle[queue / 64 % WORDS] |= 1 << (queue % 64);
        self.recent[queue / 64 % WORDS] |= 1 << (queue % 64);
    }

    /// An idle queue that has been so for long.
    fn oldest(&mut self) -> Option<usize> {
        // In the second round nothing is recent.
        for _ in 0..=2 * WORDS {
            let word = self.hand;
            let old = self.idle[word] & !self.recent[word];
            if old != 0 {
                return Some(64 * word + old.trailing_zeros() as usize);
            }
            self.recent[word] = 0;
            self.hand = (word + 1) % WORDS;
        }
        None
    }

    /// An idle queue of a flow in a full set.
    fn idle_of(&self, set: usize) -> Option<usize> {
        let queues = self.sets[set].queues.into_iter().map(usize::from);
        let mut idle = queues.filter(|queue| self.idle[queue / 64] >> (queue % 64) & 1 == 1);
        idle.next()
    }

    /// Whether a flow has this queue.
    #[cfg(test)]
    pub(super) fn has(&self, queue: usize) -> bool {
        let place = usize::from(self.places[queue]);
        let set = self.sets.get(place / WAYS);
        set.is_some_and(|set| {
            set.taken >> (place % WAYS) & 1 == 1 && usize::from(set.queues[place % WAYS]) == queue
        })
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        size_of_val(&*self.sets) + size_of_val(&*self.places)
    }
}

fn set(hash: u64) -> usize {
    hash as usize % SETS
}

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn who_has_been_idle_for_long_is_evicted_first() {
        let mut flows = Flows::new();
        let hash = |flow: u64| flow << 32 | flow;
        for flow in 0..FLOWS as u64 {
            let (queue, evicted) = flows.claim(hash(flow)).unwrap();
            assert!(!evicted);
            flows.wakes(queue);
        }
        assert_eq!(flows.claim(hash(999)), None, "all hold packets");
        for flow in 0..FLOWS as u64 {
            flows.rests(flows.find(hash(flow)).unwrap());
        }
        // One flow sends again and again while others come and go: it is not evicted.
        for other in 1000..3000 {
            let queue = flows
                .find(hash(7))
                .expect("a flow that sends keeps its queue");
            flows.wakes(queue);
            flows.rests(queue);
            let (queue, evicted) = flows.claim(hash(other)).unwrap();
            assert!(evicted);
            flows.wakes(queue);
            flows.rests(queue);
        }
    }

    proptest! {
        /// Compares with a map: whoever holds packets keeps its queue, and no queue has two flows. Few sets are
        /// used, so that some are full.
        #[test]
        fn whoever_holds_packets_keeps_its_queue(
            calls in prop::collection::vec((0_u64..400, any::<bool>()), 0..2000),
            sets in 1_u64..200,
        ) {
            let mut flows = Flows::new();
            let mut holds = BTreeMap::new();
            for (flow, rests) in calls {
                let hash = (flow + 1) << 32 | flow % sets;
                let found = flows.find(hash);
                if let Some(queue) = holds.get(&hash) {
                    prop_assert_eq!(found, Some(*queue));
                    if rests {
                        flows.rests(*queue);
                        holds.remove(&hash);
                    }
                    continue;
                }
                let of_set = holds.keys().filter(|other| set(**other) == set(hash)).count();
                match found.or_else(|| Some(flows.claim(hash)?.0)) {
                    Some(queue) => {
                        prop_assert!(holds.values().all(|other| *other != queue));
                        prop_assert_eq!(flows.find(hash), Some(queue));
                        flows.wakes(queue);
                        holds.insert(hash, queue);
                    }
                    None => prop_assert!(holds.len() == FLOWS || of_set == WAYS),
                }
            }
        }
    }
}
