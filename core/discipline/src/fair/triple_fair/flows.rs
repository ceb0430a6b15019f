//! Maps flows to their queues, and selects the queue that a new flow takes over.
//!
//! ```text
//!  hash --> set [ a | b | - | c | - | - | - | d ]     1024 sets of 8 flows: four times as many places as queues
//!                 |       |
//!  queues       [ 17 ]  [ 4 ]    idle      0 1 1 0 1 ..    a bit for each queue: it is empty
//!                                recent    0 0 1 0 1 ..    it became empty after the hand had passed its word
//!                                familiar  0 0 1 0 0 ..    its flow is familiar, and has sent lately
//! ```
//!
//! The clock algorithm with a second chance selects the queue to evict: a hand goes over the words of bits, and takes
//! the queues that have been empty since the hand passed them last. In a flood the hand comes round between two packets
//! of a call. So familiar flows of trusted sources keep their queues for one to two seconds of silence: new flows of
//! trusted sources take these queues only if no other queue is idle, and strangers never do. Flows that the index
//! cannot distinguish share a queue, in order.

use weir_base::{Instant, Span};

use super::layout::FLOWS;
use super::places::{Places, WAYS};

/// Sets: a flow finds its set full with a probability of 1 in 4000 when all queues are taken.
const SETS: usize = 4 * FLOWS / WAYS;
/// Words of a bit for each queue.
const WORDS: usize = FLOWS / 64;
/// A flow whose queue has been empty for this time, or for up to twice as long, is no longer familiar.
const FAMILIAR_FOR: Span = Span::from_secs(1);
/// No place.
const NONE: u16 = u16::MAX;

/// The flows with queues.
#[derive(Debug)]
pub(super) struct Flows {
    index: Places<SETS>,
    /// The ways in use of each set, a bit for each.
    taken: Box<[u8; SETS]>,
    /// The queue of the flow at each place.
    queues: Box<[u16; SETS * WAYS]>,
    /// The place of each queue's flow, among all ways of all sets.
    places: Box<[u16; FLOWS]>,
    idle: [u64; WORDS],
    recent: [u64; WORDS],
    familiar: [u64; WORDS],
    /// The word where the hand is.
    hand: usize,
    /// When the familiar flows were last aged.
    aged: Instant,
}

impl Flows {
    /// No flow is known; all queues are idle.
    pub(super) fn new() -> Self {
        Self {
            index: Places::new(),
            taken: Box::new([0; SETS]),
            queues: Box::new([0; SETS * WAYS]),
            places: Box::new([NONE; FLOWS]),
            idle: [u64::MAX; WORDS],
            recent: [0; WORDS],
            familiar: [0; WORDS],
            hand: 0,
            aged: Instant::ZERO,
        }
    }

    /// The queue of the flow with this hash.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        let place = self.index.find(hash)?;
        Some(usize::from(self.queues[place]))
    }

    /// Gives an idle queue to the flow with this hash, which has none; returns the queue, and whether another flow had
    /// it. `None` if all queues, or all queues of this flow's full set, hold packets, or if a stranger would have to
    /// take the queue of a familiar flow.
    pub(super) fn claim(
        &mut self,
        hash: u64,
        for_stranger: bool,
        now: Instant,
    ) -> Option<(usize, bool)> {
        if now.since(self.aged) >= FAMILIAR_FOR {
            self.aged = now;
            self.age();
        }
        let set = Places::<SETS>::set(hash);
        let queue = match self.taken[set] {
            u8::MAX => self.idle_of(set, for_stranger)?,
            _ => self.oldest(for_stranger)?,
        };
        let before = usize::from(self.places[queue]);
        let evicted = before != usize::from(NONE);
        if evicted {
            self.index.remove(before);
            self.taken[before / WAYS] &= !(1 << (before % WAYS));
        }
        let way = self.taken[set].trailing_ones() as usize % WAYS;
        let place = set * WAYS + way;
        self.taken[set] |= 1 << way;
        self.index.put(place, hash);
        self.queues[place] = queue as u16;
        self.places[queue] = place as u16;
        self.familiar[queue / 64] &= !(1 << (queue % 64));
        Some((queue, evicted))
    }

    /// Marks a queue as holding packets.
    #[inline]
    pub(super) fn wakes(&mut self, queue: usize) {
        self.idle[queue / 64 % WORDS] &= !(1 << (queue % 64));
    }

    /// Marks a queue as empty.
    #[inline]
    pub(super) fn rests(&mut self, queue: usize, is_familiar: bool) {
        self.familiar[queue / 64 % WORDS] |= u64::from(is_familiar) << (queue % 64);
        self.idle[queue / 64 % WORDS] |= 1 << (queue % 64);
        self.recent[queue / 64 % WORDS] |= 1 << (queue % 64);
    }

    /// A queue that has been idle for long.
    fn oldest(&mut self, for_stranger: bool) -> Option<usize> {
        // In the second round no unfamiliar queue is recent, in the fourth no queue is, and in the fifth no queue is
        // spared.
        let rounds = if for_stranger { 2 } else { 5 };
        for step in 0..rounds * WORDS {
            let word = self.hand;
            let old = self.idle[word] & !self.recent[word] & !self.familiar[word];
            if old != 0 {
                return Some(64 * word + old.trailing_zeros() as usize);
            }
            if step < 2 * WORDS {
                self.recent[word] &= self.familiar[word]
            } else {
                self.familiar[word] &= std::mem::take(&mut self.recent[word])
            }
            self.hand = (word + 1) % WORDS;
        }
        None
    }

    /// Ends the familiarity of flows that have been idle since the previous call.
    fn age(&mut self) {
        for (familiar, recent) in self.familiar.iter_mut().zip(&mut self.recent) {
            *familiar &= std::mem::take(recent);
        }
    }

    /// An idle queue of a flow in a full set.
    #[cold]
    fn idle_of(&self, set: usize, for_stranger: bool) -> Option<usize> {
        let queues = &self.queues[set * WAYS..][..WAYS];
        let mut queues = queues.iter().map(|queue| usize::from(*queue));
        let spared = |word: usize| self.familiar[word] * u64::from(for_stranger);
        queues.find(|queue| (self.idle[queue / 64] & !spared(queue / 64)) >> (queue % 64) & 1 == 1)
    }

    /// Whether a flow has this queue.
    #[cfg(test)]
    pub(super) fn has(&self, queue: usize) -> bool {
        let place = usize::from(self.places[queue]);
        self.taken[place / WAYS] >> (place % WAYS) & 1 == 1
            && usize::from(self.queues[place]) == queue
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        self.index.state_bytes()
            + size_of_val(&*self.taken)
            + size_of_val(&*self.queues)
            + size_of_val(&*self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn who_has_been_idle_for_long_is_evicted_first() {
        let mut flows = Flows::new();
        let hash = |flow: u64| flow.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for flow in 0..FLOWS as u64 {
            let (queue, evicted) = flows.claim(hash(flow), false, Instant::ZERO).unwrap();
            assert!(!evicted);
            flows.wakes(queue);
        }
        assert_eq!(
            flows.claim(hash(999), false, Instant::ZERO),
            None,
            "all hold packets"
        );
        for flow in 0..FLOWS as u64 {
            flows.rests(flows.find(hash(flow)).unwrap(), false);
        }
        // One flow sends repeatedly while other flows come and go: it is not evicted.
        for other in 1000..3000 {
            let queue = flows
                .find(hash(7))
                .expect("a flow that sends keeps its queue");
            flows.wakes(queue);
            flows.rests(queue, false);
            let (queue, evicted) = flows.claim(hash(other), false, Instant::ZERO).unwrap();
            assert!(evicted);
            flows.wakes(queue);
            flows.rests(queue, false);
        }
    }

    #[test]
    fn a_stranger_does_not_take_the_queue_of_a_familiar_flow() {
        let mut flows = Flows::new();
        let hash = |flow: u64| flow.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut now = Instant::ZERO + FAMILIAR_FOR;
        let sends = |flows: &mut Flows, flow, is_familiar, for_stranger, now| {
            let queue = flows.find(hash(flow));
            let queue = queue.or_else(|| Some(flows.claim(hash(flow), for_stranger, now)?.0))?;
            flows.wakes(queue);
            flows.rests(queue, is_familiar);
            Some(queue)
        };
        // Half of the queues are of familiar flows. Strangers have the other half, whatever arrives.
        let familiar = FLOWS as u64 / 2;
        let of_familiar: Vec<_> = (0..familiar)
            .map(|flow| sends(&mut flows, flow, true, false, now))
            .collect();
        for stranger in 0..50_000 {
            let queue = sends(&mut flows, 100_000 + stranger, false, true, now);
            assert!(queue.is_some() && !of_familiar.contains(&queue));
        }
        // A flow that sends within the time stays familiar; others do not.
        for _ in 0..3 {
            now += FAMILIAR_FOR;
            assert_eq!(sends(&mut flows, 7, true, false, now), of_familiar[7]);
            for stranger in 0..2000 {
                sends(&mut flows, 200_000 + stranger, false, true, now);
            }
        }
        assert_eq!(flows.find(hash(7)), of_familiar[7]);
        let left = (0..familiar).filter(|flow| flows.find(hash(*flow)).is_some());
        assert!(left.count() < 100);
    }

    proptest! {
        /// Compares with a map: a flow with packets keeps its queue, and no queue has two flows. Few sets are
        /// used, so that some are full.
        #[test]
        fn whoever_holds_packets_keeps_its_queue(
            calls in prop::collection::vec((0_u64..400, any::<bool>()), 0..2000),
            sets in 1_u64..200,
        ) {
            let mut flows = Flows::new();
            let mut holds = BTreeMap::new();
            for (flow, rests) in calls {
                let hash = (2 * flow) << 32 | (flow % sets) << 24;
                let found = flows.find(hash);
                if let Some(queue) = holds.get(&hash) {
                    prop_assert_eq!(found, Some(*queue));
                    if rests {
                        flows.rests(*queue, false);
                        holds.remove(&hash);
                    }
                    continue;
                }
                let set = Places::<SETS>::set;
                let of_set = holds.keys().filter(|other| set(**other) == set(hash)).count();
                match found.or_else(|| Some(flows.claim(hash, false, Instant::ZERO)?.0)) {
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
