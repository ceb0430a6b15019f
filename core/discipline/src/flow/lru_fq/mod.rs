//! LRU-FQ: a small cache of flows finds the hogs (high-bandwidth flows); hogs and all other flows share the link by
//! weight.
//!
//! ```text
//!              +------------------------+   hit, above the threshold
//!  arrivals -->| cache: LRU of n flows  |------------------------------> [ hit queue  ] --+
//!              |  top  A B C ... bottom |                                                 +--> link
//!              +------------------------+------------------------------> [ miss queue ] --+
//!               a miss replaces the         miss, or below the threshold        STFQ, two weights
//!               bottom with probability p
//! ```
//!
//! Source: Achanta and Reddy, "Design and Evaluation of a Partial State Router", ICC 2004, section II
//! and Figures 1 and 2.

use std::collections::VecDeque;

use weir_base::setting::SettingError;
use weir_base::{Instant, Streams, Tally};
use weir_packet::{Class, Packet, Reason};

use crate::aqm::codel;
use crate::contract::{Admission, Configured, Cx, Discipline, FlowReport, Manual};
use crate::fair::stfq::{ByteCost, Clock, Tag};
use crate::flow::flow_cache::FlowCache;
use crate::flow::order::{Gates, Progress};
use crate::waiting::{self, REPORTS_MAX, Waiting};

mod manual;

pub use self::manual::{Crossing, MANUAL, Params, Rule};

/// Counters of the queues.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    to: [u64; 2],
    full: [u64; 2],
    stayed: u64,
    control: codel::Stats,
}

/// The two queues.
const HIT: usize = 0;
const MISS: usize = 1;
/// The class of the packets in each queue.
const CLASSES: [Class; 2] = [Class(1), Class(0)];

/// One of the two queues.
#[derive(Debug)]
struct Queue {
    packets: VecDeque<Packet>,
    backlog: Tally,
    /// Packets that have arrived since the beginning.
    came: u64,
    tag: Tag,
    cost: ByteCost,
    codel: codel::State,
}

/// The cache and the two queues.
#[derive(Debug)]
pub struct LruFq {
    params: Params,
    cache: FlowCache,
    queues: [Queue; 2],
    gates: Gates,
    clock: Clock,
    bytes_max: u64,
    stats: Stats,
}

/// The packets of a queue that may leave now, as the control law sees them.
struct Leaving<'a> {
    queue: &'a mut Queue,
    /// For the hit queue: its gates, and the packets that left the miss queue.
    gates: Option<(&'a mut Gates, u64)>,
}

impl codel::Source for Leaving<'_> {
    fn pop(&mut self) -> Option<Packet> {
        if let Some((gates, left)) = &mut self.gates {
            let next = self.queue.left() + 1;
            if !gates.is_open(next, *left) {
                return None;
            }
            gates.leave(next);
        }
        self.queue.pop()
    }

    fn bytes(&self) -> u64 {
        self.queue.backlog.bytes
    }
}

impl Queue {
    fn new(limit: usize, weight: u32) -> Self {
        Self {
            packets: VecDeque::with_capacity(limit),
            backlog: Tally::ZERO,
            came: 0,
            tag: Tag::default(),
            cost: ByteCost::of_weight(weight),
            codel: codel::State::FRESH,
        }
    }

    /// Packets that have left since the beginning.
    fn left(&self) -> u64 {
        self.came - self.packets.len() as u64
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.backlog.uncount(packet.bytes());
        Some(packet)
    }
}

impl LruFq {
    /// The queue whose head has the lower start tag; the miss queue if the tags are equal, or if a gate holds the hit
    /// queue.
    fn turn(&self) -> Option<usize> {
        let [hit, miss] = &self.queues;
        match (hit.packets.is_empty(), miss.packets.is_empty()) {
            (true, true) => None,
            (true, false) => Some(MISS),
            (false, true) => Some(HIT),
            (false, false)
                if hit.tag < miss.tag && self.gates.is_open(hit.left() + 1, miss.left()) =>
            {
                Some(HIT)
            }
            (false, false) => Some(MISS),
        }
    }

    /// The queue for a packet that the cache has just classified.
    fn place(&mut self, is_hog: bool) -> usize {
        let judged = if is_hog { HIT } else { MISS };
        if !self.params.keeps_order() {
            return judged;
        }
        let [hit, miss] = &self.queues;
        let Some(latest) = self.cache.latest() else {
            return judged;
        };
        if judged == MISS && latest[HIT] > hit.left() {
            self.stats.stayed += 1;
            return HIT;
        }
        if judged == HIT && latest[MISS] > miss.left() && hit.packets.len() < self.params.limit {
            self.gates.come(hit.came + 1, latest[MISS]);
        }
        judged
    }

    /// Takes the next packet of a queue that the control law, if any, lets pass. No gate before the queue's first
    /// packet may be closed.
    fn take(&mut self, which: usize, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.params.codel {
            if which == HIT {
                self.gates.leave(self.queues[HIT].left() + 1);
            }
            return self.queues[which].pop();
        }
        let [hit, miss] = &mut self.queues;
        let left = miss.left();
        let (queue, gates) = match which {
            HIT => (hit, Some((&mut self.gates, left))),
            _ => (miss, None),
        };
        let mut state = queue.codel;
        let mut leaving = Leaving { queue, gates };
        let (control, stats) = (&self.params.control, &mut self.stats.control);
        let packet = codel::dequeue(&mut state, control, cx, &mut leaving, self.bytes_max, stats);
        leaving.queue.codel = state;
        packet
    }
}

impl Configured for LruFq {
    type Params = Params;
    const MANUAL: Manual = MANUAL;
    const KNOWS_FLOWS: bool = true;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        params.control.check()?;
        if params.pin && params.threshold.is_nothing() {
            return Err(SettingError::Contradiction {
                name: "pin",
                why: "every flow is above this threshold, so pins would keep the first flows that arrive"
                    .to_owned(),
            });
        }
        Ok(params.limit * 2)
    }

    fn build(params: Params, _now: Instant, streams: &Streams) -> Self {
        Self {
            cache: FlowCache::new(params.policy(), streams.stream(MANUAL.name)),
            queues: [params.hit_weight, params.miss_weight]
                .map(|weight| Queue::new(params.limit, weight)),
            gates: Gates::new(gates_max(&params)),
            clock: Clock::default(),
            bytes_max: 0,
            params,
            stats: Stats::default(),
        }
    }

    fn change(&mut self, params: Params, _now: Instant) {
        if params.order != self.params.order || params.limit > self.params.limit {
            let old = std::mem::replace(&mut self.gates, Gates::new(gates_max(&params)));
            if params.keeps_order() {
                self.gates.take_over(old);
            }
        }
        self.cache.set_policy(params.policy());
        let weights = [params.hit_weight, params.miss_weight];
        for (queue, weight) in self.queues.iter_mut().zip(weights) {
            let held = queue.packets.len();
            queue.packets.reserve(params.limit.saturating_sub(held));
            queue.cost = ByteCost::of_weight(weight);
        }
        self.params = params;
    }
}

impl Discipline for LruFq {
    fn enqueue(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Admission {
        if self.turn().is_none() {
            self.clock.idle();
        }
        let progress = match (&self.queues, self.params.keeps_order()) {
            ([hit, miss], true) => Progress {
                hit_left: hit.left(),
                miss_came: miss.came,
            },
            _ => Progress::ANY,
        };
        let is_hog = self.cache.is_hog(cx, &packet, progress);
        let which = self.place(is_hog);
        self.stats.to[which] += 1;
        packet.class = CLASSES[which];
        let queue = &mut self.queues[which];
        if queue.packets.len() >= self.params.limit {
            self.stats.full[which] += 1;
            self.cache.dropped();
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        if queue.packets.is_empty() {
            self.clock.arrive(&mut queue.tag);
        }
        self.bytes_max = self.bytes_max.max(packet.bytes());
        queue.backlog.count(packet.bytes());
        queue.packets.push_back(packet);
        queue.came += 1;
        if self.params.keeps_order()
            && let Some(latest) = self.cache.latest()
        {
            latest[which] = queue.came;
        }
        Admission::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let which = self.turn()?;
            // `None` if the control law dropped all packets that may leave: then the other queue has the turn.
            if let Some(packet) = self.take(which, cx) {
                let queue = &mut self.queues[which];
                self.clock.serve(&mut queue.tag, queue.cost, packet.bytes());
                cx.heavy = which == HIT;
                return Some(packet);
            }
        }
    }

    fn prefetch(&self, cx: &Cx<'_>, packet: &Packet) {
        self.cache.touch(cx, packet);
    }

    fn has_room(&self, _class: Class) -> bool {
        let room = |queue: &Queue| queue.packets.len() < self.params.limit;
        self.queues.iter().all(room) // the queue of a packet is not known before it arrives
    }

    fn backlog(&self) -> Tally {
        self.queues[HIT].backlog + self.queues[MISS].backlog
    }

    fn state_bytes(&self) -> usize {
        let packets: usize = self.queues.iter().map(|q| q.packets.capacity()).sum();
        size_of_val(self)
            + self.cache.state_bytes()
            + self.gates.state_bytes()
            + packets * size_of::<Packet>()
    }

    /// Drains in order of arrival over both queues, so that a flow that crossed is in order again.
    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.gates.clear();
        let arrival = |queue: &Queue| queue.packets.front().map(|p| (p.enqueued, p.id));
        loop {
            let [hit, miss] = &mut self.queues;
            let next = match (arrival(hit), arrival(miss)) {
                (Some(a), Some(b)) if a < b => hit.pop(),
                (Some(_), None) => hit.pop(),
                _ => miss.pop(),
            };
            match next {
                Some(packet) => out(packet),
                None => return,
            }
        }
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        self.cache.inspect(report);
        report("to_hit", self.stats.to[HIT]);
        report("to_miss", self.stats.to[MISS]);
        report("full_hit", self.stats.full[HIT]);
        report("full_miss", self.stats.full[MISS]);
        let [hit, miss] = [&self.queues[HIT].backlog, &self.queues[MISS].backlog];
        report("hit_packets", hit.packets);
        report("hit_bytes", hit.bytes);
        report("miss_packets", miss.packets);
        report("miss_bytes", miss.bytes);
        report("dropped", self.stats.control.dropped);
        report("marked", self.stats.control.marked);
        report("stayed", self.stats.stayed);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        const WORDS: [&str; 2] = ["the queue of hogs", "the queue of all flows but hogs"];
        for (queue, words) in self.queues.iter().zip(WORDS) {
            waiting::of_queue(&queue.packets, words, REPORTS_MAX / 2, report);
        }
    }

    fn flows(&self, now: Instant, report: &mut dyn FnMut(FlowReport)) {
        self.cache.report(now, report);
    }
}

/// Maximum gates of the hit queue.
fn gates_max(params: &Params) -> usize {
    if params.keeps_order() {
        params.limit
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::codel::Control;
    use crate::contract::{Ready, Threshold};
    use crate::fair::stfq::tests::Reference;
    use crate::rig::{self, Rig, built, defaults, gauge};
    use proptest::prelude::*;
    use weir_base::{Rate, Span};

    fn params() -> Params {
        Params {
            admission: Rule::Fixed(1.0),
            threshold: Threshold::Packets(2),
            limit: 100,
            ..defaults::<LruFq>()
        }
    }

    fn lru_fq(params: Params) -> LruFq {
        built(params)
    }

    #[test]
    fn weights_share_the_link() {
        // Weight 3 for misses: of 4000 B, a hog gets 1000 and the others 3000.
        let mut rig = Rig::new(50);
        let mut fq = lru_fq(Params {
            miss_weight: 3,
            ..params()
        });
        rig.offer(&mut fq, 0, 1000);
        rig.take(&mut fq);
        for n in 0..40 {
            rig.offer(&mut fq, 0, 1000); // hits above the threshold
            rig.offer(&mut fq, 1 + n, 500); // misses, all of them
            rig.offer(&mut fq, 1 + n, 500); // the second one is a hit, and 2 >= 2: a hog too
        }
        assert_eq!(gauge(&fq, "to_hit"), 80);
        let mut bytes = [0, 0];
        for _ in 0..40 {
            let before = gauge(&fq, "hit_packets");
            let packet = rig.take(&mut fq).unwrap();
            let which = if gauge(&fq, "hit_packets") < before {
                HIT
            } else {
                MISS
            };
            assert_eq!(packet.class, CLASSES[which]);
            bytes[which] += packet.bytes();
        }
        // The hit queue is ahead or behind by at most one packet of 1000 B / weight 1.
        let [hit, miss] = bytes;
        assert!(hit.abs_diff(miss / 3) <= 1000, "{bytes:?}");
    }

    #[test]
    fn what_a_flow_loses_is_counted_with_it() {
        let mut rig = Rig::new(50);
        let mut fq = lru_fq(Params {
            limit: 2,
            ..params()
        });
        for _ in 0..6 {
            rig.offer(&mut fq, 0, 1000); // one miss, then hits: two of them fit
        }
        let mut reported = Vec::new();
        fq.flows(rig.now, &mut |flow| {
            reported.push((flow.seen.packets, flow.dropped))
        });
        assert_eq!(reported, [(6, Some(3))]);
        assert_eq!(gauge(&fq, "full_hit"), 3);
    }

    #[test]
    fn a_busy_period_ends_and_its_debts_with_it() {
        // A packet of a hog costs as much as 1000 others. The debt is forgotten when all packets have left.
        let mut rig = Rig::new(2000);
        let mut fq = lru_fq(Params {
            miss_weight: 1000,
            ..params()
        });
        for _ in 0..10 {
            rig.offer(&mut fq, 0, 1000);
            rig.take(&mut fq);
        }
        assert_eq!((gauge(&fq, "to_hit"), fq.ready(rig.now)), (9, Ready::Empty));
        rig.offer(&mut fq, 0, 1000);
        for n in 1..50 {
            rig.offer(&mut fq, n, 1000);
        }
        let first = [(); 2].map(|()| rig.take(&mut fq).unwrap().slot.0);
        assert!(first.contains(&0), "{first:?}");
    }

    #[test]
    fn each_queue_has_its_own_limit() {
        let mut rig = Rig::new(50);
        let mut fq = lru_fq(Params {
            limit: 3,
            ..params()
        });
        for _ in 0..10 {
            rig.offer(&mut fq, 0, 100);
        }
        for flow in 1..10 {
            rig.offer(&mut fq, flow, 100);
        }
        // Flow 0: one miss, then nine hits for three places. Then nine misses for the two places left.
        assert_eq!((gauge(&fq, "full_hit"), gauge(&fq, "full_miss")), (6, 7));
        assert_eq!(
            fq.backlog(),
            Tally {
                packets: 6,
                bytes: 600
            }
        );
    }

    #[test]
    fn draining_gives_a_flow_that_crossed_in_order() {
        let mut rig = Rig::new(3);
        let mut fq = lru_fq(params());
        for flow in [0, 1, 0, 0, 1, 2, 2, 0] {
            rig.offer(&mut fq, flow, 100);
        }
        let mut ids = Vec::new();
        fq.drain(&mut |packet| ids.push(packet.id));
        assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(fq.backlog(), Tally::ZERO);
    }

    #[test]
    fn a_pin_for_everybody_is_refused() {
        let given = [("threshold", "0 packets"), ("pin", "true")];
        let error = rig::params::<LruFq>(&given).unwrap_err();
        assert_eq!(error.name(), "pin");
    }

    #[test]
    fn codel_keeps_both_queues_short() {
        let waits = |codel: bool| {
            let control = Control {
                target: Span::from_millis(5),
                interval: Span::from_millis(100),
                ecn: false,
            };
            let mut rig = Rig::new(2);
            let mut fq = lru_fq(Params {
                codel,
                control,
                ..params()
            });
            // An unresponsive flow that sends at twice the rate of the link.
            for _ in 0..20_000 {
                rig.now += Span::from_millis(1);
                rig.offer(&mut fq, 0, 1000);
                rig.offer(&mut fq, 0, 1000);
                rig.take(&mut fq);
            }
            (gauge(&fq, "dropped"), gauge(&fq, "hit_packets"))
        };
        let ((none, full), (dropped, _)) = (waits(false), waits(true));
        assert_eq!((none, full), (0, 99));
        assert!(dropped > 1000, "{dropped}");
    }

    #[test]
    fn a_flow_that_crosses_waits_for_its_packets_in_the_other_queue() {
        let mut rig = Rig::new(9);
        let mut fq = lru_fq(Params {
            order: Crossing::Kept,
            hit_weight: 1000,
            ..params()
        });
        // Flow 0: one miss behind three others, then two hits, which would leave first by their weight.
        for flow in [1, 2, 3, 0, 0, 0] {
            rig.offer(&mut fq, flow, 100);
        }
        assert_eq!((gauge(&fq, "to_hit"), gauge(&fq, "to_miss")), (2, 4));
        let order: Vec<usize> = (0..6)
            .map(|_| rig.take(&mut fq).unwrap().slot.0 as usize)
            .collect();
        assert_eq!(order, [1, 2, 3, 0, 0, 0]);
    }

    proptest! {
        /// No flow is reordered, whatever crosses, is evicted, refused or dropped by the control law; and while a
        /// packet is held, the link gets one.
        #[test]
        fn kept_order_is_kept(
            cache in 1_usize..5,
            admission in prop_oneof![Just(Rule::Fixed(1.0)), Just(Rule::Fixed(0.3))],
            threshold in prop_oneof![
                (0_u64..5).prop_map(Threshold::Packets),
                (100_000_u64..2_000_000).prop_map(|bps| Threshold::Rate(Rate::from_bps(bps))),
                (0.05..0.6).prop_map(Threshold::Share),
            ],
            weights in (1_u32..=6, 1_u32..=6),
            codel in any::<bool>(),
            limit in 2_usize..40,
            calls in prop::collection::vec((0_u8..5, 0_usize..6, 1_u32..1500, 0_u64..30), 0..600),
        ) {
            let mut rig = Rig::new(6);
            let control = Control {
                target: Span::from_millis(5),
                interval: Span::from_millis(20),
                ecn: false,
            };
            let mut fq = lru_fq(Params {
                cache,
                admission,
                threshold,
                hit_weight: weights.0,
                miss_weight: weights.1,
                limit,
                order: Crossing::Kept,
                codel,
                control,
                ..params()
            });
            let mut latest = [None; 6];
            for (call, flow, bytes, ms) in calls {
                rig.now += Span::from_millis(ms);
                if call < 3 {
                    rig.offer(&mut fq, flow, bytes);
                    continue;
                }
                let held = fq.backlog().packets;
                match rig.take(&mut fq) {
                    Some(packet) => {
                        let before = &mut latest[packet.slot.0 as usize];
                        prop_assert!(before.is_none_or(|id| id < packet.id));
                        *before = Some(packet.id);
                    }
                    None => prop_assert!(held == 0 || codel),
                }
            }
            // All held packets can leave.
            while fq.backlog().packets > 0 {
                let packet = rig.take(&mut fq);
                prop_assert!(packet.is_some() || fq.backlog().packets == 0);
                if let Some(packet) = packet {
                    let before = &mut latest[packet.slot.0 as usize];
                    prop_assert!(before.is_none_or(|id| id < packet.id));
                    *before = Some(packet.id);
                }
            }
        }

        /// The two queues leave in the order of the paper's start tags, at any weights.
        #[test]
        fn schedules_as_stfq(
            weights in (1_u32..=6, 1_u32..=6),
            calls in prop::collection::vec((any::<bool>(), 0_usize..6, 1_u32..3000), 0..300),
        ) {
            let mut rig = Rig::new(6);
            let mut fq = lru_fq(Params {
                cache: 3,
                admission: Rule::Fixed(0.5),
                hit_weight: weights.0,
                miss_weight: weights.1,
                limit: 1000,
                ..params()
            });
            let mut reference = Reference::new(2);
            for (arrival, flow, bytes) in calls {
                if arrival {
                    let (id, hits) = (rig.next_id(), gauge(&fq, "to_hit"));
                    rig.offer(&mut fq, flow, bytes);
                    let (queue, weight) = if gauge(&fq, "to_hit") > hits { (HIT, weights.0) } else { (MISS, weights.1) };
                    reference.enqueue(queue, weight.into(), id, bytes.into());
                } else {
                    match rig.take(&mut fq) {
                        Some(packet) => prop_assert!(reference.serve(packet.id)),
                        None => prop_assert!(reference.is_empty()),
                    }
                }
            }
        }
    }
}
