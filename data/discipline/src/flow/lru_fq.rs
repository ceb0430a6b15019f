//! LRU-FQ: a small cache of flows picks out the hogs; hogs and all others share the link by weight.
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

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, Setting, SettingError, Settings};
use weir_base::{Instant, Rate, Span, Stream, Tally};
use weir_packet::{Class, KeyKind, Packet, Reason};

use crate::contract::{
    self, Admission, Cx, Discipline, FlowReport, Manual, Ready, Threshold, accepted,
};
use crate::fair::stfq::{ByteCost, Clock, Tag};
use crate::flow::flow_cache::{FlowCache, Policy};
use crate::parts::bins::{KEY, key_kind};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "lru_fq",
    id: 0x00F7_020B,
    purpose: "a small cache picks out the high-bandwidth flows, which get one share of the link together",
    source: "Achanta and Reddy, ICC 2004, section II, Figures 1 and 2",
    text: "\
The cache holds a fixed number of flows, whatever the number of flows on the link. A packet of a
cached flow is a hit: the flow is counted and moves to the top. Any other packet is a miss: with the
admission probability its flow replaces the one at the bottom. So a flow must send steadily to be in
the cache, and short ones hardly ever are. A hit whose flow is above the threshold goes to the hit
queue; everything else goes to the miss queue. Start-time fair queueing shares the link by the two
weights. A packet costs constant time, and memory is fixed. It leaves with the class of its queue, 1 for
the hit queue and 0 for the miss queue, so that who watches the port can count by it.

                +------------------------+   hit, above the threshold
    arrivals -->| cache: LRU of n flows  |------------------------------> [ hit queue  ] --+
                |  top  A B C ... bottom |                                                 +--> link
                +------------------------+------------------------------> [ miss queue ] --+
                 a miss replaces the         miss, or below the threshold
                 bottom with probability p

Admission. A fixed probability has to suit the cache and the traffic: too high, and a tail of small flows
pushes the hogs out; too low, and a hog waits although there is room. The adaptive one is steered by what
it is for, the time that an entry stays although no packet of its flow comes. When an entry of a cache of
n is replaced after fewer than 100 n turns without a packet of its flow, the probability falls, else it
grows, by one part in about sqrt(n) each time. A turn is a packet of another flow than the one before. It
begins with 1 and stays between 1/200 and 1; while the cache is not full, every miss is admitted.

Threshold. A share is of the rate of all flows together, measured over `rate_window`; nobody is above it
in the first window, nor in the first one after a pause of two windows. A number of packets counts from the
admission on, and is not a rate: on a link with few flows, every flow that lasts reaches it.

Choosing parameters. The cache must be larger than the number of hogs to expect, or they push each other
out. With a threshold in packets it must not be much larger: every flow that lasts ends up in a large
cache, and becomes a hog. With a threshold as a rate or a share the size hardly matters. The default of
1/20 finds up to 20 hogs, and the default cache of 64 has room for them. It does not suit a link with
fewer than some ten flows that last: each of them is above it, hog or not; then say a rate that they do
not reach. The default limit of 500 packets lets both queues together hold as much as the default FIFO
does; a queue that has half the link then delays a packet no longer than that FIFO.

Defaults. Equal weights are the paper's. `rate_window` is a long round trip: what TCP sends at once in it is
averaged. `pin` is off, because it helps only where hogs outnumber the cache.

What a hog gains. The hit queue has its share of the link for however few flows are in it. So with equal
weights one transfer of many that comes above the threshold by chance has half of the link, and stays. With
the hit queue's share equal to the threshold, as with `miss_weight = 19` and 1/20, there is nothing to gain.

Order. When a flow crosses the threshold, or leaves the cache, its packets go to the other queue, and may
overtake those that still wait in the first one. Within one queue they keep their order. TCP takes that for
loss: a transfer that comes above a rate or a share again and again is slowed down each time, and may stay
below. A longer `rate_window` makes that rarer.

With `pin`, a flow above the threshold cannot be replaced. It is released when it was not above the
threshold for `pin_timeout`: its place is the first to be replaced then. At most three quarters of
the cache are pinned, so that new hogs can always be found.

Deviations: the adaptive admission and the threshold as a share are ours; the paper has 1/50 or 1/55, and
125 packets or a rate. With a fixed admission a miss is also admitted with the probability only while the
cache is not full, so that start-up is no exception. The packet that gets its flow admitted is counted as
seen, but is a miss. The limit on pins and their release are ours; the paper only proposes pinning. Flows
are identified by the 64-bit keyed hash of their key. Equal start tags favour the miss queue. The virtual
time is treated as in `stfq`. A new `key` empties the cache, because its entries mean something else then.

An attacker with more hogs than the cache has entries makes them push each other out: part of their
packets is in the miss queue then (a larger cache or `pin` helps). With more than 20 equal ones none is
above a share of 1/20. One with a new address on each packet has no flow: all of it is in the
miss queue, together with everybody else, and admissions replace useful entries (`key = \"destination\"`
finds the victim instead). That lowers the adaptive probability, but not below 1/200: a hog is found after
200 of its packets on average, and stays. One who stays below the threshold, or sends in turns from many
flows, is not a hog. With pins, one packet of each flow in each `pin_timeout` holds three quarters of the
cache.",
    parameters: &[
        Parameter::new("cache", Kind::Count(1, 65536), "64", "flows in the cache; more than the hogs to expect").id(1),
        Parameter::new("admission", Kind::RatioOrWord(0.0, 1.0, ADAPTIVE), ADAPTIVE,
            "probability that a miss admits its flow to the cache, or adaptive").id(2),
        Parameter::new("threshold", Kind::PacketsRateOrShare(1_000_000_000, Rate::PARAMETER_MAX), "1/20",
            "what makes a flow in the cache a hog: packets since admission, a rate, or a share of all").id(3),
        Parameter::new("hit_weight", Kind::Count(1, 1000), "1",
            "share of the hit queue, to that of the miss queue").id(4),
        Parameter::new("miss_weight", Kind::Count(1, 1000), "1",
            "share of the miss queue, to that of the hit queue").id(5),
        Parameter::new("pin", Kind::Flag, "false", "whether a flow above the threshold stays in the cache").id(6),
        Parameter::new("pin_timeout", Kind::Span(Span::from_millis(1), Span::from_secs(86_400)), "10 s",
            "a pin is released when its flow was not above the threshold for this long").id(7),
        KEY.id(8),
        Parameter::new("limit", Kind::Count(1, 500_000), "500 packets",
            "maximum packets held, in each of the two queues").id(9),
        Parameter::new("rate_window", Kind::Span(Span::from_micros(10), Span::from_secs(100)), "100 ms",
            "window of the rates, of a flow and of all together").id(10),
    ],
    gauges: &[
        Gauge::counter(101, "hits", Unit::Packets, "packets of flows in the cache"),
        Gauge::counter(102, "misses", Unit::Packets, "packets of flows not in the cache"),
        Gauge::counter(103, "admissions", Unit::One, "flows admitted to the cache"),
        Gauge::counter(104, "evictions", Unit::One, "flows replaced in the cache"),
        Gauge::counter(105, "evicted_hogs", Unit::One, "of these, flows whose latest packet was above the threshold"),
        Gauge::counter(106, "refusals", Unit::One, "admissions that failed, because every entry is pinned"),
        Gauge::counter(107, "identified", Unit::One, "times that a flow in the cache came above the threshold"),
        Gauge::level(108, "cached", Unit::One, "flows in the cache"),
        Gauge::level(109, "hogs", Unit::One, "flows in the cache whose latest packet was above the threshold"),
        Gauge::level(110, "pinned", Unit::One, "flows in the cache that cannot be replaced"),
        Gauge::level(111, "admission", Unit::PerMillion, "probability that a miss admits its flow now"),
        Gauge::counter(112, "to_hit", Unit::Packets, "packets for the hit queue, dropped ones included"),
        Gauge::counter(113, "to_miss", Unit::Packets, "packets for the miss queue, dropped ones included"),
        Gauge::counter(114, "full_hit", Unit::Packets, "packets dropped because the hit queue was full"),
        Gauge::counter(115, "full_miss", Unit::Packets, "packets dropped because the miss queue was full"),
        Gauge::level(116, "hit_packets", Unit::Packets, "packets in the hit queue"),
        Gauge::level(117, "hit_bytes", Unit::Bytes, "bytes in the hit queue"),
        Gauge::level(118, "miss_packets", Unit::Packets, "packets in the miss queue"),
        Gauge::level(119, "miss_bytes", Unit::Bytes, "bytes in the miss queue"),
    ],
};

/// How it is checked and built.
pub const KIND: contract::Kind = contract::Kind {
    manual: MANUAL,
    knows_flows: true,
    limit: |settings| Ok(Params::new(settings)?.limit * 2),
    build: |settings, _, streams| {
        Box::new(LruFq::new(
            accepted(Params::new(settings)),
            streams.stream(MANUAL.name),
        ))
    },
};

/// The word for an admission probability that adapts.
const ADAPTIVE: &str = "adaptive";

pub use crate::flow::lottery::Rule;

/// Parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Flows in the cache.
    pub cache: usize,
    /// How a miss admits its flow.
    pub admission: Rule,
    /// The threshold from which a flow in the cache is a hog.
    pub threshold: Threshold,
    /// Share of the hit queue.
    pub hit_weight: u32,
    /// Share of the miss queue.
    pub miss_weight: u32,
    /// Whether a hog stays in the cache.
    pub pin: bool,
    /// When a pin is released.
    pub pin_timeout: Span,
    /// The part of a flow key that identifies a flow.
    pub key: KeyKind,
    /// Maximum packets held, in each of the two queues.
    pub limit: usize,
    /// Window of the rates.
    pub rate_window: Span,
}

impl Params {
    /// From checked settings.
    pub fn new(settings: &Settings) -> Result<Self, SettingError> {
        let params = Self {
            cache: settings.count("cache") as usize,
            admission: match settings.setting("admission") {
                Setting::Ratio(probability) => Rule::Fixed(*probability),
                _ => Rule::Adaptive,
            },
            threshold: match settings.setting("threshold") {
                Setting::Rate(rate) => Threshold::Rate(*rate),
                Setting::Ratio(share) => Threshold::Share(*share),
                _ => Threshold::Packets(settings.count("threshold")),
            },
            hit_weight: settings.count("hit_weight") as u32,
            miss_weight: settings.count("miss_weight") as u32,
            pin: settings.flag("pin"),
            pin_timeout: settings.span("pin_timeout"),
            key: key_kind(settings),
            limit: settings.count("limit") as usize,
            rate_window: settings.span("rate_window"),
        };
        if params.pin && params.threshold.is_nothing() {
            return Err(SettingError::Contradiction {
                name: "pin",
                why: "every flow is above this threshold, so pins would keep the first ones that come"
                    .to_owned(),
            });
        }
        Ok(params)
    }

    fn policy(&self) -> Policy {
        Policy {
            flows: self.cache,
            key: self.key,
            admission: self.admission,
            threshold: self.threshold,
            pin_timeout: self.pin.then_some(self.pin_timeout),
            window: self.rate_window,
        }
    }
}

/// Counters of the queues.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    to: [u64; 2],
    full: [u64; 2],
}

/// The two queues.
const HIT: usize = 0;
const MISS: usize = 1;
/// The class of the packets in each of them.
const CLASSES: [Class; 2] = [Class(1), Class(0)];

/// One of the two queues.
#[derive(Debug)]
struct Queue {
    packets: VecDeque<Packet>,
    backlog: Tally,
    tag: Tag,
    cost: ByteCost,
}

/// The cache and the two queues.
#[derive(Debug)]
pub struct LruFq {
    params: Params,
    cache: FlowCache,
    queues: [Queue; 2],
    clock: Clock,
    stats: Stats,
}

impl Queue {
    fn new(limit: usize, weight: u32) -> Self {
        Self {
            packets: VecDeque::with_capacity(limit),
            backlog: Tally::ZERO,
            tag: Tag::default(),
            cost: ByteCost::of_weight(weight),
        }
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.backlog.uncount(packet.bytes());
        Some(packet)
    }
}

impl LruFq {
    /// An empty cache and empty queues. All memory that they will ever use is allocated now.
    pub fn new(params: Params, stream: Stream) -> Self {
        Self {
            cache: FlowCache::new(params.policy(), stream),
            queues: [params.hit_weight, params.miss_weight]
                .map(|weight| Queue::new(params.limit, weight)),
            clock: Clock::default(),
            params,
            stats: Stats::default(),
        }
    }

    /// The queue whose head has the lower start tag; the miss queue if they are equal.
    fn turn(&self) -> Option<usize> {
        let [hit, miss] = &self.queues;
        match (hit.packets.is_empty(), miss.packets.is_empty()) {
            (true, true) => None,
            (true, false) => Some(MISS),
            (false, true) => Some(HIT),
            (false, false) if hit.tag < miss.tag => Some(HIT),
            (false, false) => Some(MISS),
        }
    }

    /// Puts other parameters in force; the state is kept.
    fn change(&mut self, params: Params) {
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
        let which = if self.cache.is_hog(cx, &packet) {
            HIT
        } else {
            MISS
        };
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
        queue.backlog.count(packet.bytes());
        queue.packets.push_back(packet);
        Admission::Queued
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>) -> Option<Packet> {
        let which = self.turn()?;
        let queue = &mut self.queues[which];
        let packet = queue.pop()?;
        self.clock.serve(&mut queue.tag, queue.cost, packet.bytes());
        Some(packet)
    }

    fn prefetch(&self, cx: &Cx<'_>, packet: &Packet) {
        self.cache.touch(cx, packet);
    }

    fn has_room(&self, _class: Class) -> bool {
        let room = |queue: &Queue| queue.packets.len() < self.params.limit;
        self.queues.iter().all(room) // which queue a packet will belong to is not known before
    }

    fn ready(&self, _now: Instant) -> Ready {
        match self.turn() {
            None => Ready::Empty,
            Some(_) => Ready::Now,
        }
    }

    fn backlog(&self) -> Tally {
        self.queues[HIT].backlog + self.queues[MISS].backlog
    }

    fn state_bytes(&self) -> usize {
        let packets: usize = self.queues.iter().map(|q| q.packets.capacity()).sum();
        size_of_val(self) + self.cache.state_bytes() + packets * size_of::<Packet>()
    }

    fn reconfigure(&mut self, settings: &Settings, _now: Instant) {
        self.change(accepted(Params::new(settings)));
    }

    /// In the order of arrival over both queues, so that a flow that crossed is in order again.
    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
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
    }

    fn flows(&self, now: Instant, report: &mut dyn FnMut(FlowReport)) {
        self.cache.report(now, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::stfq::tests::Reference;
    use crate::rig::{Rig, gauge};
    use proptest::prelude::*;
    use weir_base::Streams;

    fn params() -> Params {
        Params {
            admission: Rule::Fixed(1.0),
            threshold: Threshold::Packets(2),
            limit: 100,
            ..Params::new(&Settings::defaults(MANUAL.parameters)).unwrap()
        }
    }

    fn lru_fq(params: Params) -> LruFq {
        LruFq::new(params, Streams::new(1).stream("lru_fq"))
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
        // A packet of a hog is as dear as 1000 others. When all have left, that is forgotten.
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
        // Flow 0: one miss, then nine hits for three places. Then eight misses for two places.
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
        let given = weir_base::setting::Scalar::Text("0 packets".into());
        let on = weir_base::setting::Scalar::Flag(true);
        let settings = Settings::check(MANUAL.parameters, [("threshold", &given), ("pin", &on)]);
        let error = Params::new(&settings.unwrap()).unwrap_err();
        assert_eq!(error.name(), "pin");
    }

    proptest! {
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
                    let (queue, weight) = match gauge(&fq, "to_hit") > hits {
                        true => (HIT, weights.0),
                        false => (MISS, weights.1),
                    };
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
