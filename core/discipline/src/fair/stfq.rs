//! Start-time fair queueing: packets leave in the order of their start tags.
//!
//! ```text
//!  start  = max(virtual time, finish of the flow's packet before)
//!  finish = start + length / weight               virtual time = start tag of the packet in service
//!
//!  flow a  [ 0..3 | 3..6 | 6..9 ]     weight 1
//!  flow b  [ 0..1 | 1..2 | 2..3 ]     weight 3       leaves: a b b b a b ...
//! ```
//!
//! Source: Goyal, Vin, Cheng, "Start-time Fair Queuing", IEEE/ACM Transactions on Networking,
//! October 1997, section II. `Clock` and `Tag` are the algorithm for any number of queues;
//! `Stfq` is the discipline over hashed flows.
//!
//! A packet needs no tag of its own. A packet that arrives at a non-empty queue starts at the finish of
//! the packet before it, because the virtual time is never beyond the start of a queued packet. So each
//! queue has one tag: the start of its head, or, when empty, the finish of the last packet that left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use weir_base::gauge::{Gauge, Unit};
use weir_base::{Instant, Streams};
use weir_packet::{KeyKind, Packet};

use crate::contract::{Cx, Manual};
use crate::fair::fair_queue::{FairQueue, Layout, Queues, Sharing};
use crate::fifo::LIMIT;
use crate::params::{Parameters, params};
use crate::parts::bins::{BUCKETS, KEY};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "stfq",
    id: 0x00F7_0211,
    purpose: "start-time fair queueing: equal bytes for each flow, smooth at any packet length",
    source: "Goyal, Vin, Cheng, IEEE/ACM Transactions on Networking, October 1997, section II",
    text: "\
Flows are hashed to queues. A packet's start tag is the virtual time at its arrival or the finish tag of
the previous packet in its queue, whichever is later; its finish tag is the start tag plus the length. The
packet with the lowest start tag leaves first, and the virtual time is its start tag. Finding it takes time
logarithmic in the number of queues that hold packets.

    flow a  [ 0..3 | 3..6 | 6..9 ]
    flow b  [ 0..1 | 1..2 | 2..3 ]       leaves: a b b b a ...

When the limit is reached, the longest queue (by bytes) loses its head packet, which is not charged for.
All flows have the same weight here; `lru_fq` has two queues with individual weights.

Defaults. 1024 queues are as many as in Linux's fq_codel. The limit is that of `fifo`, for all queues
together.

Deviations: the virtual time jumps to the largest finish tag when a packet arrives and none is queued,
even while the last packet is still being sent, because a discipline does not see the end of a
transmission; a flow can gain one packet by this. After a change of `key` or `buckets` the queued packets
leave before all others, so that a flow stays in order.

An attacker with one flow gets one share; with as many flows as queues, nearly everything. It cannot aim at
a queue: the hash is keyed.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "longest_flow", Unit::Packets, "packets dropped from the longest queue to make room"),
        Gauge::level(102, "active", Unit::One, "queues that hold packets, or were emptied to make room"),
    ],
};

/// Cost of a byte at weight 1. Dividing it by a weight of up to 1000 loses less than a millionth.
const UNIT: u64 = 1 << 32;

/// The cost of a byte for a queue of some weight, in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteCost(u64);

impl ByteCost {
    /// The cost at `weight`, which is at least 1.
    pub(crate) const fn of_weight(weight: u32) -> Self {
        Self(UNIT / weight as u64)
    }

    /// The cost times `factor`.
    pub(crate) const fn times(self, factor: u32) -> Self {
        Self(self.0 * factor as u64) // UNIT is 2^32
    }
}

/// A start or finish tag. With 128 bits it does not wrap in the lifetime of a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(u128);

/// The virtual time of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// The start tag of the packet in service.
    now: Tag,
    /// The largest finish tag of all packets served.
    finish_max: Tag,
}

impl Clock {
    /// Called when a packet arrives at an empty queue, whose tag becomes the packet's start.
    pub(crate) fn arrive(&self, tag: &mut Tag) {
        *tag = self.now.max(*tag);
    }

    /// Called when the packet at the head of a queue enters service; the queue's tag becomes the packet's
    /// finish, which is the start of the next packet.
    pub(crate) fn serve(&mut self, tag: &mut Tag, cost: ByteCost, bytes: u64) {
        self.now = *tag;
        tag.0 += u128::from(cost.0) * u128::from(bytes);
        self.finish_max = self.finish_max.max(*tag);
    }

    /// Ends the busy period. Call this when a packet arrives and none is held, not when a dequeue finds
    /// nothing: a port calls `dequeue` only if packets are held.
    pub(crate) fn idle(&mut self) {
        self.now = self.finish_max;
    }
}

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// The part of a flow key that identifies a flow.
        pub key: KeyKind = KEY.id(1),
        /// Queues that flows are hashed to.
        pub buckets: usize = BUCKETS.id(2),
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(3),
    }
}

/// One queue's place in virtual time.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    tag: Tag,
    /// Whether it is among the queues that wait for a turn.
    waits: bool,
}

/// Start-time fair queueing over hashed queues.
pub(crate) type Stfq = FairQueue<ByTag>;

/// The places of the queues, and the non-empty queues by start tag.
#[derive(Debug, Default)]
pub(crate) struct ByTag {
    places: Vec<Place>,
    waiting: BinaryHeap<Reverse<(Tag, u32)>>,
    clock: Clock,
}

impl Sharing for ByTag {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    #[inline]
    fn layout(params: &Params) -> Layout {
        Layout {
            bins: params.buckets,
            key: Some(params.key),
            limit: params.limit,
        }
    }

    fn new(_params: &Params, _now: Instant, _streams: &Streams) -> Self {
        Self::default()
    }

    fn renew(&mut self, bins: usize) {
        self.places = vec![Place::default(); bins];
        self.waiting = BinaryHeap::with_capacity(bins);
    }

    #[inline]
    fn touch(&self, bin: usize) {
        std::hint::black_box(self.places[bin].waits);
    }

    /// Queues that were emptied to make room lose their turns.
    #[inline]
    fn settle(&mut self, _now: Instant) {
        for Reverse((_, bin)) in self.waiting.drain() {
            self.places[bin as usize].waits = false;
        }
        self.clock.idle();
    }

    #[inline]
    fn enter(&mut self, _queues: &Queues<Params>, _cx: &Cx<'_>, _packet: &Packet, bin: usize) {
        let place = &mut self.places[bin];
        if !place.waits {
            place.waits = true;
            self.clock.arrive(&mut place.tag);
            self.waiting.push(Reverse((place.tag, bin as u32)));
        }
    }

    #[inline]
    fn next(&mut self, queues: &mut Queues<Params>, _now: Instant) -> Option<Packet> {
        while let Some(mut first) = self.waiting.peek_mut() {
            let Reverse((_, bin)) = *first;
            let place = &mut self.places[bin as usize];
            let Some(packet) = queues.bins.pop(bin as usize) else {
                place.waits = false; // its last packet was dropped to make room
                PeekMut::pop(first);
                continue;
            };
            let cost = ByteCost::of_weight(1);
            self.clock.serve(&mut place.tag, cost, packet.bytes());
            place.waits = !queues.bins.is_empty(bin as usize);
            if place.waits {
                *first = Reverse((place.tag, bin)); // moves down to its new place
            } else {
                PeekMut::pop(first);
            }
            return Some(packet);
        }
        None
    }

    fn heap_bytes(&self, _params: &Params) -> usize {
        self.places.capacity() * size_of::<Place>()
            + self.waiting.capacity() * size_of::<Reverse<(Tag, u32)>>()
    }

    fn inspect(&self, queues: &Queues<Params>, report: &mut dyn FnMut(&'static str, u64)) {
        report("longest_flow", queues.longest_flow);
        report("active", self.waiting.len() as u64);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::{Discipline, Ready};
    use crate::rig::{Rig, built};
    use proptest::prelude::*;

    fn params() -> Params {
        Params {
            key: KeyKind::Flow,
            buckets: 64,
            limit: 1000,
        }
    }

    #[test]
    fn order_by_hand() {
        // Flow 0: 300 B each, starts 0, 300, 600. Flow 1: 100 B each, starts 0, 100, 200, 300.
        let mut rig = Rig::apart(2, 64);
        let mut stfq: Stfq = built(params());
        for _ in 0..3 {
            rig.offer(&mut stfq, 0, 300);
        }
        for _ in 0..4 {
            rig.offer(&mut stfq, 1, 100);
        }
        let lengths: Vec<_> = std::iter::from_fn(|| rig.take(&mut stfq))
            .map(|p| p.len)
            .collect();
        // At 0 and at 300 both flows have a packet: either may be first.
        let starts_of = |bytes| {
            let mut sent = [0, 0];
            let mut starts = Vec::new();
            for len in &lengths {
                let flow = usize::from(*len == 100);
                if *len == bytes {
                    starts.push((sent[0], sent[1]));
                }
                sent[flow] += len;
            }
            starts
        };
        assert_eq!(starts_of(300)[1].0, 300);
        assert!((300..=400).contains(&starts_of(300)[1].1), "{lengths:?}");
        assert_eq!(lengths.last(), Some(&300));
    }

    #[test]
    fn a_flow_that_was_idle_has_no_credit() {
        // Flow 0 sends 9 of 10 packets; then flow 1 arrives: they alternate, and flow 1 does not catch up.
        let mut rig = Rig::apart(2, 64);
        let mut stfq: Stfq = built(params());
        for _ in 0..14 {
            rig.offer(&mut stfq, 0, 100);
        }
        for _ in 0..9 {
            rig.take(&mut stfq);
        }
        for _ in 0..5 {
            rig.offer(&mut stfq, 1, 100);
        }
        let first: Vec<_> = (0..4).filter_map(|_| rig.take(&mut stfq)).collect();
        assert_eq!(first.iter().filter(|p| p.slot.0 == 1).count(), 2);
    }

    #[test]
    fn a_busy_period_ends_without_a_question() {
        // Flow 0 sends ten packets and all leave. An hour later it alternates with flow 1.
        let mut rig = Rig::apart(2, 64);
        let mut stfq: Stfq = built(params());
        for _ in 0..10 {
            rig.offer(&mut stfq, 0, 1000);
        }
        while stfq.ready(rig.now) == Ready::Now {
            rig.take(&mut stfq);
        }
        for flow in [1, 1, 1, 0, 0, 0] {
            rig.offer(&mut stfq, flow, 1000);
        }
        let first: Vec<_> = (0..4).filter_map(|_| rig.take(&mut stfq)).collect();
        assert_eq!(first.iter().filter(|p| p.slot.0 == 0).count(), 2);
    }

    /// The paper's section II, word for word: each packet has its tags from its arrival, and the
    /// queue is searched for the lowest start tag. Tags in exact fractions: bytes times `SCALE`.
    #[derive(Default)]
    pub(crate) struct Reference {
        packets: Vec<(u128, u64)>,
        queued: Vec<(u128, u128, usize, u64)>,
        finish: Vec<u128>,
        now: u128,
        finish_max: u128,
    }

    /// Divisible by every weight that the tests use.
    const SCALE: u128 = 60;

    impl Reference {
        pub(crate) fn new(flows: usize) -> Self {
            Self {
                finish: vec![0; flows],
                ..Self::default()
            }
        }

        pub(crate) fn enqueue(&mut self, flow: usize, weight: u128, id: u64, bytes: u128) {
            if self.queued.is_empty() {
                self.now = self.finish_max; // a busy period has ended
            }
            let start = self.now.max(self.finish[flow]);
            self.finish[flow] = start + bytes * SCALE / weight;
            self.queued.push((start, self.finish[flow], flow, id));
            self.packets.push((start, id));
        }

        /// Takes packet `id`; returns whether it had the lowest start tag of those queued.
        pub(crate) fn serve(&mut self, id: u64) -> bool {
            let least = self.queued.iter().map(|p| p.0).min();
            let Some(at) = self.queued.iter().position(|p| p.3 == id) else {
                return false;
            };
            let (start, finish, flow, _) = self.queued.remove(at);
            let in_order = !self.queued.iter().any(|p| p.2 == flow && p.3 < id);
            self.now = start;
            self.finish_max = self.finish_max.max(finish);
            in_order && least == Some(start)
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.queued.is_empty()
        }
    }

    proptest! {
        #[test]
        fn schedules_as_the_paper(calls in prop::collection::vec((any::<bool>(), 0_usize..6, 1_u32..3000), 0..300)) {
            let mut rig = Rig::apart(6, 64);
            let mut stfq: Stfq = built(params());
            let mut reference = Reference::new(6);
            for (arrival, flow, bytes) in calls {
                if arrival {
                    reference.enqueue(flow, 1, rig.next_id(), bytes.into());
                    rig.offer(&mut stfq, flow, bytes);
                } else {
                    match rig.take(&mut stfq) {
                        Some(packet) => prop_assert!(reference.serve(packet.id)),
                        None => prop_assert!(reference.is_empty()),
                    }
                }
            }
        }
    }
}
