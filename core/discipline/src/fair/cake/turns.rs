//! CAKE's DRR++: the order of turns of sparse, bulk and decaying flows.
//!
//! ```text
//!             packet arrives
//!   none ---------------------> sparse ---- turn used up, packets left ----> bulk <--+ packet
//!    ^                          ^    \                                        |      | arrives
//!    |     packet arrives       |     `--- turn used up, empty ---------> sparse ----+
//!    +-- at rest -- decaying <--+------------------- found empty -------------+      waiting
//! ```
//!
//! The lists are served in this order: one visit to a decaying flow, then new flows, then old ones. Bulk flows, and
//! sparse ones that wait for the end of the turn that they used up, are in the list of old flows. A flow's share of a
//! round is the quantum, divided by the bulk flows of its busier host.
//!
//! Source: Linux `net/sched/sch_cake.c`, `cake_enqueue`, `cake_dequeue`, `cake_get_flow_quantum`.

use rand::Rng;
use weir_base::Stream;

use super::QUEUES;
use super::isolation::{Hosts, Isolation};
use crate::aqm::cobalt;
use crate::parts::lists::Lists;

/// The lists.
const NEW: usize = 0;
const OLD: usize = 1;
const DECAYING: usize = 2;

/// The state of a flow in the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Set {
    /// In no list: the queue is empty, and its AQM is at rest.
    #[default]
    None,
    /// A new flow within its first turn.
    Sparse,
    /// A flow whose queue ran empty after its turn was used up. It waits among the old flows, but does not count as
    /// bulk.
    SparseWaiting,
    /// A flow with more packets than its turns can send.
    Bulk,
    /// The queue is empty, and its AQM is not at rest yet.
    Decaying,
}

/// One queue's state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Bytes that it may still send in this turn; negative if its last packet was longer.
    deficit: i64,
    pub(super) set: Set,
    /// The places where its hosts are counted.
    hosts: [u16; 2],
    pub(super) cobalt: cobalt::State,
}

/// Numbers of flows by state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) sparse: u64,
    pub(super) bulk: u64,
    pub(super) decaying: u64,
}

/// The flows, the lists and the hosts.
#[derive(Debug)]
pub(super) struct Turns {
    flows: Box<[Flow]>,
    lists: Lists,
    /// Sending and receiving hosts.
    hosts: [Hosts; 2],
    isolation: Isolation,
    /// Bytes of a turn of a flow that is alone at its hosts.
    quantum: u64,
    pub(super) counts: Counts,
}

impl Turns {
    /// No flow is known; `quantum` is the bytes of a turn of a flow that is alone at its hosts.
    pub(super) fn new(isolation: Isolation, quantum: u64) -> Self {
        Self {
            flows: vec![Flow::default(); QUEUES].into_boxed_slice(),
            lists: Lists::new(QUEUES, 3),
            hosts: [(); 2].map(|()| Hosts::new(QUEUES)),
            isolation,
            quantum,
            counts: Counts::default(),
        }
    }

    /// A flow's state.
    pub(super) fn flow(&self, at: usize) -> &Flow {
        &self.flows[at]
    }

    /// The state of a flow's AQM, to change.
    pub(super) fn cobalt(&mut self, at: usize) -> &mut cobalt::State {
        &mut self.flows[at].cobalt
    }

    /// Sets the bytes of a turn.
    pub(super) fn set_quantum(&mut self, bytes: u64) {
        self.quantum = bytes;
    }

    /// Gives a queue to a flow whose hosts have these hashes.
    pub(super) fn assign(&mut self, at: usize, hashes: [Option<u64>; 2]) {
        let bulk = self.flows[at].set == Set::Bulk;
        if bulk {
            self.count_hosts(at, false);
        }
        for (end, hash) in hashes.into_iter().enumerate() {
            if let Some(hash) = hash {
                self.flows[at].hosts[end] = self.hosts[end].place(hash);
            }
        }
        if bulk {
            self.count_hosts(at, true);
        }
    }

    /// Handles a packet that arrived in a queue.
    pub(super) fn arrive(&mut self, at: usize, stream: &mut Stream) {
        match self.flows[at].set {
            Set::None | Set::Decaying => {
                if self.flows[at].set == Set::Decaying {
                    self.lists.take(at);
                }
                self.lists.put(at, NEW);
                self.put_in(at, Set::Sparse);
                self.flows[at].deficit = self.turn(at, 1, stream);
            }
            Set::SparseWaiting => self.put_in(at, Set::Bulk),
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// The flow that has the turn. `decay` is whether a decaying flow may have it first, and becomes false.
    pub(super) fn next(
        &mut self,
        is_empty: impl Fn(usize) -> bool,
        decay: &mut bool,
        stream: &mut Stream,
    ) -> Option<usize> {
        let mut turned = 0;
        loop {
            let first = if std::mem::take(decay) {
                [DECAYING, NEW, OLD]
            } else {
                [NEW, OLD, DECAYING]
            };
            let at = first.iter().find_map(|list| self.lists.bottom(*list))?;
            if self.flows[at].deficit > 0 {
                return Some(at);
            }
            if self.flows[at].set == Set::Sparse {
                let set = if is_empty(at) {
                    Set::SparseWaiting
                } else {
                    Set::Bulk
                };
                self.put_in(at, set);
            }
            self.flows[at].deficit += self.turn(at, 1, stream);
            self.lists.raise(at, OLD);
            turned += 1;
            if turned > QUEUES {
                self.skip_rounds(stream);
                turned = 0;
            }
        }
    }

    /// Charges a packet that a flow sends.
    pub(super) fn charge(&mut self, at: usize, bytes: u64) {
        self.flows[at].deficit -= bytes as i64;
    }

    /// Handles a flow that was found empty at its turn; `rests` is whether its AQM is at rest.
    pub(super) fn leave(&mut self, at: usize, rests: bool) {
        if rests {
            self.lists.take(at);
            self.put_in(at, Set::None);
        } else {
            self.lists.raise(at, DECAYING);
            self.put_in(at, Set::Decaying);
        }
    }

    /// Grants at once the rounds in which no flow would get as far as a packet. In the last round each flow had a turn
    /// and none sent, so all are in the list of old flows, and their shares stay the same.
    fn skip_rounds(&mut self, stream: &mut Stream) {
        let missing = |at: usize| (1 - self.flows[at].deficit).max(0) as u64;
        let rounds = |at: usize| (missing(at) << 16) / self.share(at);
        let Some(least) = self.lists.upwards(OLD).map(rounds).min() else {
            return;
        };
        let mut next = self.lists.bottom(OLD);
        while let Some(at) = next {
            self.flows[at].deficit += self.turn(at, least, stream);
            next = self.lists.above(at);
        }
    }

    /// The bytes of this many turns of a flow: in whole bytes, with chance for the rest, so that it is right on
    /// average.
    fn turn(&self, at: usize, turns: u64, stream: &mut Stream) -> i64 {
        let chance = stream.next_u64() & 0xffff;
        ((self.share(at) * turns + chance) >> 16) as i64
    }

    /// The bytes of a turn of a flow, in 65536ths.
    fn share(&self, at: usize) -> u64 {
        let [source, destination] = self.loads(at);
        self.quantum * (65535 / u64::from(source.max(destination)))
    }

    /// Bulk flows of a flow's hosts, at least one: source and destination.
    pub(super) fn loads(&self, at: usize) -> [u32; 2] {
        let kinds = self.isolation.hosts();
        [0, 1].map(|end: usize| {
            let bulk = |_| self.hosts[end].bulk(self.flows[at].hosts[end]);
            u32::from(kinds[end].map_or(1, bulk).max(1))
        })
    }

    fn put_in(&mut self, at: usize, set: Set) {
        let before = std::mem::replace(&mut self.flows[at].set, set);
        if let Some(count) = self.counts.of(before) {
            *count -= 1;
        }
        if let Some(count) = self.counts.of(set) {
            *count += 1;
        }
        match (before == Set::Bulk, set == Set::Bulk) {
            (false, true) => self.count_hosts(at, true),
            (true, false) => self.count_hosts(at, false),
            _ => {}
        }
    }

    fn count_hosts(&mut self, at: usize, more: bool) {
        let ends = self.hosts.iter_mut().zip(self.isolation.hosts());
        for ((hosts, kind), place) in ends.zip(self.flows[at].hosts) {
            if kind.is_some() {
                hosts.count(place, more);
            }
        }
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        let hosts = self.hosts.iter().map(Hosts::state_bytes);
        size_of_val(&*self.flows) + self.lists.state_bytes() + hosts.sum::<usize>()
    }
}

impl Counts {
    fn of(&mut self, set: Set) -> Option<&mut u64> {
        match set {
            Set::None => None,
            Set::Sparse | Set::SparseWaiting => Some(&mut self.sparse),
            Set::Bulk => Some(&mut self.bulk),
            Set::Decaying => Some(&mut self.decaying),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_base::Streams;
    use weir_base::setting::Setting;

    use crate::params::Value;

    fn isolation(word: &'static str) -> Isolation {
        Isolation::of(&Setting::Word(word)).unwrap()
    }

    #[test]
    fn a_turn_is_divided_by_the_busier_host() {
        // Flow 0: host 1 to 2. Flows 1 to 3: host 3 to 2. The destination has four bulk flows.
        let mut stream = Streams::new(1).stream("cake");
        let mut turns = Turns::new(isolation("triple-isolate"), 1514);
        for (at, source) in [(0, 1), (1, 3), (2, 3), (3, 3)] {
            turns.assign(at, [Some(source), Some(2)]);
            turns.arrive(at, &mut stream);
            turns.put_in(at, Set::Bulk);
        }
        assert_eq!(turns.share(0), 1514 * (65535 / 4));
        turns.isolation = isolation("dual-srchost");
        assert_eq!(turns.share(0), 1514 * 65535);
        assert_eq!(turns.share(1), 1514 * (65535 / 3));
        // 65535/3 * 1514 / 65536 = 504.66: 504 or 505, 505 in two of three turns.
        let turn = (0..30_000).map(|_| turns.turn(1, 1, &mut stream));
        let sum: i64 = turn.sum();
        assert!((sum - 15_139_700).abs() < 300, "{sum}");
    }

    #[test]
    fn a_decaying_flow_is_visited_once_and_new_flows_go_first() {
        let mut stream = Streams::new(1).stream("cake");
        let mut turns = Turns::new(isolation("flows"), 1514);
        for at in 0..3 {
            turns.arrive(at, &mut stream);
        }
        let mut next = |turns: &mut Turns, decay: &mut bool| {
            let empty = |at| at == 2;
            turns.next(empty, decay, &mut stream)
        };
        turns.leave(2, false);
        turns.charge(0, 1514);
        let mut decay = true;
        assert_eq!(next(&mut turns, &mut decay), Some(2));
        assert!(!decay);
        // Flow 0 has used up its turn: it is bulk, behind flow 1, which is new.
        assert_eq!(next(&mut turns, &mut decay), Some(1));
        assert_eq!(turns.flow(0).set, Set::Bulk);
        turns.leave(1, true);
        assert_eq!(next(&mut turns, &mut decay), Some(0));
        let Counts {
            sparse,
            bulk,
            decaying,
        } = turns.counts;
        assert_eq!((sparse, bulk, decaying), (0, 1, 1));
    }

    #[test]
    fn a_flow_that_ran_empty_in_debt_waits_for_its_turn_as_a_sparse_one() {
        let mut stream = Streams::new(1).stream("cake");
        let mut turns = Turns::new(isolation("flows"), 1514);
        for at in 0..2 {
            turns.arrive(at, &mut stream);
        }
        turns.charge(0, 2000);
        let mut decay = false;
        let next = turns.next(|at| at == 0, &mut decay, &mut stream);
        assert_eq!(next, Some(1));
        assert_eq!(turns.flow(0).set, Set::SparseWaiting);
        turns.arrive(0, &mut stream);
        assert_eq!(turns.flow(0).set, Set::Bulk);
    }

    #[test]
    fn rounds_without_a_packet_are_granted_at_once() {
        // A thousand flows of one host owe 1500 bytes and have turns of 1.48: one more than a thousand rounds. The last
        // of them owes 20 bytes less, and so comes 13 rounds before the others.
        let mut stream = Streams::new(1).stream("cake");
        let mut turns = Turns::new(isolation("dual-srchost"), 1514);
        for at in 0..1000 {
            turns.assign(at, [Some(1), None]);
            turns.arrive(at, &mut stream);
            turns.put_in(at, Set::Bulk);
            turns.flows[at].deficit = -1500;
            turns.lists.raise(at, OLD);
        }
        turns.flows[999].deficit = -1480;
        let next = turns.next(|_| false, &mut false, &mut stream);
        assert_eq!(next, Some(999));
        assert!((1..=2).contains(&turns.flow(999).deficit));
        let deficits: Vec<i64> = (0..999).map(|at| turns.flow(at).deficit).collect();
        assert!(
            deficits.iter().all(|d| (-22..=-16).contains(d)),
            "{deficits:?}"
        );
    }

    proptest! {
        /// Counts of flows and of hosts are those of a walk over all flows, and a flow is in a list unless it is
        /// nowhere.
        #[test]
        fn counts_are_those_of_a_walk(calls in prop::collection::vec((0_u8..5, 0_usize..6, 1_u64..4000), 0..300)) {
            let mut stream = Streams::new(1).stream("cake");
            let mut turns = Turns::new(isolation("triple-isolate"), 1514);
            let mut packets = [0_u32; 6];
            for (call, at, bytes) in calls {
                if call < 3 {
                    if turns.flow(at).set == Set::None || bytes % 7 == 0 {
                        turns.assign(at, [Some(at as u64 % 2), Some(at as u64 % 3)]);
                    }
                    packets[at] += 1;
                    turns.arrive(at, &mut stream);
                } else {
                    let mut decay = call == 4;
                    let listed = (0..6).any(|at| turns.flow(at).set != Set::None);
                    let next = turns.next(|at| packets[at] == 0, &mut decay, &mut stream);
                    prop_assert_eq!(next.is_some(), listed);
                    match next {
                        Some(at) if packets[at] > 0 => {
                            packets[at] -= 1;
                            turns.charge(at, bytes);
                        }
                        Some(at) => turns.leave(at, bytes % 2 == 0),
                        None => {}
                    }
                }
                let sets = |set: Set| (0..6).filter(|at| turns.flow(*at).set == set).count() as u64;
                prop_assert_eq!(turns.counts.sparse, sets(Set::Sparse) + sets(Set::SparseWaiting));
                prop_assert_eq!(turns.counts.bulk, sets(Set::Bulk));
                prop_assert_eq!(turns.counts.decaying, sets(Set::Decaying));
                let listed: usize = (0..3).map(|list| turns.lists.upwards(list).count()).sum();
                prop_assert_eq!(listed as u64, 6 - sets(Set::None));
                for end in 0..2 {
                    let all: u16 = (0..QUEUES).map(|place| turns.hosts[end].bulk(place as u16)).sum();
                    prop_assert_eq!(u64::from(all), sets(Set::Bulk));
                }
            }
        }
    }
}
