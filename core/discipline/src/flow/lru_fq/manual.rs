//! The manual page and the parameters.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, Setting};
use weir_base::{Rate, Span};
use weir_packet::KeyKind;

use crate::aqm::codel::{Control, ECN, INTERVAL, TARGET};
use crate::contract::{Manual, Threshold};
use crate::flow::flow_cache::Policy;
pub use crate::flow::lottery::Rule;
use crate::params::{Parameters, Value, params, words};
use crate::parts::bins::KEY;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "lru_fq",
    id: 0x00F7_020B,
    purpose: "a small cache detects the high-bandwidth flows (hogs), which get one share of the link together",
    source: "Achanta and Reddy, ICC 2004, section II, Figures 1 and 2",
    text: "\
The cache holds a fixed number of flows, independent of the number of flows on the link. A packet of a
cached flow is a hit: the flow is counted and moves to the top. Any other packet is a miss: with the
admission probability its flow replaces the flow at the bottom. So a flow must send steadily to stay in the
cache, and short flows hardly ever enter it. A hit whose flow is above the threshold goes to the hit queue;
all other packets go to the miss queue. Start-time fair queueing shares the link by the two weights. A
packet costs constant time, and memory is fixed. It leaves with the class of its queue, 1 for the hit queue
and 0 for the miss queue, so that an observer of the port can count by class.

                +------------------------+   hit, above the threshold
    arrivals -->| cache: LRU of n flows  |------------------------------> [ hit queue  ] --+
                |  top  A B C ... bottom |                                                 +--> link
                +------------------------+------------------------------> [ miss queue ] --+
                 a miss replaces the         miss, or below the threshold
                 bottom with probability p

Admission. A fixed probability must suit the cache and the traffic: if it is too high, a tail of small
flows displaces the hogs; if it is too low, a hog waits although there is room. The adaptive probability is
controlled by the time that an entry stays although no packet of its flow arrives. When an entry of a cache
of n is replaced after fewer than 100 n turns without a packet of its flow, the probability falls,
otherwise it grows, by one part in about sqrt(n) each time. A turn is a packet of another flow than the
previous packet. The probability starts at 1 and stays between 1/200 and 1; while the cache is not full,
every miss is admitted.

Threshold. A share refers to the rate of all flows together, measured over `rate_window`; no flow is above
it in the first window, nor in the first window after a pause of two windows. A number of packets counts
from the admission on, and is not a rate: on a link with few flows, every long-lived flow reaches it.

Choosing parameters. The cache must be larger than the expected number of hogs, or they displace each
other. With a threshold in packets it must not be much larger: every long-lived flow ends up in a large
cache, and becomes a hog. With a threshold as a rate or a share the size hardly matters. The default of
1/20 finds up to 20 hogs, and the default cache of 64 has room for them. It does not suit a link with fewer
than about ten long-lived flows: each of them is above it, hog or not; in that case set a rate that they do
not reach. With the default limit of 500 packets both queues together hold as much as the default FIFO; a
queue that has half the link then delays a packet no longer than that FIFO.

Defaults. Equal weights are the paper's. `rate_window` is a long round-trip time, so that it averages the
bursts of TCP. `pin` is off, because it helps only if there are more hogs than cache entries.

Gain for a hog. The hit queue has its share of the link even if it holds only a few flows. So with equal
weights a single transfer of many that exceeds the threshold by chance gets half of the link, and stays. If
the hit queue's share equals the threshold, as with `miss_weight = 19` and 1/20, there is nothing to gain.

Order. When a flow crosses the threshold, or leaves the cache, its packets go to the other queue, and may
overtake its packets that still wait in the first queue. Within one queue they keep their order. TCP treats
the reordering as loss: a transfer that repeatedly exceeds a rate or a share is slowed down each time, and
may stay below. A longer `rate_window` makes that rarer, and `order = \"kept\"` prevents it: a hog's packets
wait in the hit queue until earlier packets of the same flow have left the miss queue, and a flow stays in
the hit queue, and in the cache, as long as one of its packets waits there. Hogs that come and go thereby
delay only other hogs. A new `key` or a smaller `cache` may let packets overtake once.

With `codel` both queues are under CoDel, so that calls do not wait behind the standing queue of long
transfers in the miss queue, and transfers in the hit queue have a short queue as well. An unresponsive
flood nevertheless fills the hit queue up to `limit`.

Both make long transfers fairer to each other where nobody attacks. Under attack `order = \"kept\"` has a
cost: a web page that was once above the threshold stays behind the floods in the hit queue, and with
`codel` as well hundreds of steady senders stay there, together with transfers that give way to them.

With `pin`, a flow above the threshold cannot be replaced. It is released when it has not been above the
threshold for `pin_timeout`: its entry is then the first to be replaced. At most three quarters of the
cache are pinned, so that new hogs can always be found.

Deviations: the adaptive admission and the threshold as a share are ours; the paper has 1/50 or 1/55, and
125 packets or a rate. A fixed admission probability also applies while the cache is not full, so that
start-up is not an exception. The packet that gets its flow admitted is counted as seen, but is a miss. The
limit on pins and their release are ours; the paper only proposes pinning. Flows are identified by the
64-bit keyed hash of their key. Equal start tags favour the miss queue. The virtual time is treated as in
`stfq`. A new `key` empties the cache, because its entries would mean something else.

An attacker with more hogs than the cache has entries makes them displace each other: part of their packets
then goes to the miss queue (a larger cache or `pin` helps). With more than 20 equal hogs none is above a
share of 1/20. An attacker with a new address on each packet has no flow: all of its packets are in the
miss queue, together with everybody else's, and admissions replace useful entries (`key = \"destination\"`
finds the victim instead). That lowers the adaptive probability, but not below 1/200: a hog is found after
200 of its packets on average, and stays. An attacker who stays below the threshold, or rotates among many
flows, is not a hog. With pins, one packet of each flow in each `pin_timeout` holds three quarters of the
cache.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "hits", Unit::Packets, "packets of flows in the cache"),
        Gauge::counter(102, "misses", Unit::Packets, "packets of flows not in the cache"),
        Gauge::counter(103, "admissions", Unit::One, "flows admitted to the cache"),
        Gauge::counter(104, "evictions", Unit::One, "flows replaced in the cache"),
        Gauge::counter(105, "evicted_hogs", Unit::One, "replaced flows whose latest packet was above the threshold"),
        Gauge::counter(106, "refusals", Unit::One, "failed admissions, because every entry is pinned"),
        Gauge::counter(107, "identified", Unit::One, "number of times that a cached flow rose above the threshold"),
        Gauge::level(108, "cached", Unit::One, "flows in the cache"),
        Gauge::level(109, "hogs", Unit::One, "flows in the cache whose latest packet was above the threshold"),
        Gauge::level(110, "pinned", Unit::One, "flows in the cache that cannot be replaced"),
        Gauge::level(111, "admission", Unit::PerMillion, "current probability that a miss admits its flow"),
        Gauge::counter(112, "to_hit", Unit::Packets, "packets for the hit queue, including dropped packets"),
        Gauge::counter(113, "to_miss", Unit::Packets, "packets for the miss queue, including dropped packets"),
        Gauge::counter(114, "full_hit", Unit::Packets, "packets dropped because the hit queue was full"),
        Gauge::counter(115, "full_miss", Unit::Packets, "packets dropped because the miss queue was full"),
        Gauge::level(116, "hit_packets", Unit::Packets, "packets in the hit queue"),
        Gauge::level(117, "hit_bytes", Unit::Bytes, "bytes in the hit queue"),
        Gauge::level(118, "miss_packets", Unit::Packets, "packets in the miss queue"),
        Gauge::level(119, "miss_bytes", Unit::Bytes, "bytes in the miss queue"),
        Gauge::counter(120, "dropped", Unit::Packets, "packets dropped by the control law"),
        Gauge::counter(121, "marked", Unit::Packets, "packets marked by the control law"),
        Gauge::counter(122, "stayed", Unit::Packets, "packets assigned to the hit queue only because earlier packets of \
                                                      their flow wait there"),
    ],
};

words! {
    /// The order of a flow that crosses between the queues.
    pub enum Crossing {
        /// Its packets may overtake each other.
        Free = "free",
        /// It keeps its order.
        Kept = "kept",
    }
}

impl Value for Rule {
    fn of(setting: &Setting) -> Result<Self, String> {
        Ok(match setting {
            Setting::Ratio(probability) => Self::Fixed(*probability),
            _ => Self::Adaptive,
        })
    }
}

impl Value for Threshold {
    fn of(setting: &Setting) -> Result<Self, String> {
        match setting {
            Setting::Count(packets) => Ok(Self::Packets(*packets)),
            Setting::Rate(rate) => Ok(Self::Rate(*rate)),
            Setting::Ratio(share) => Ok(Self::Share(*share)),
            other => Err(format!("{other} is not a threshold")),
        }
    }
}

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Params {
        /// Flows in the cache.
        pub cache: usize = Parameter::new("cache", Kind::Count(1, 65536), "64",
            "flows in the cache; more than the expected number of \
                                                              hogs").id(1),
        /// How a miss admits its flow.
        pub admission: Rule = Parameter::new("admission", Kind::RatioOrWord(0.0, 1.0, "adaptive"), "adaptive",
            "probability that a miss admits its flow to the cache, or adaptive").id(2),
        /// The threshold from which a flow in the cache is a hog.
        pub threshold: Threshold = Parameter::new("threshold",
            Kind::PacketsRateOrShare(1_000_000_000, Rate::PARAMETER_MAX), "1/20",
            "threshold that makes a cached flow a hog: packets since admission, a rate, or a share of all traffic").id(3),
        /// Weight of the hit queue.
        pub hit_weight: u32 = Parameter::new("hit_weight", Kind::Count(1, 1000), "1",
            "share of the hit queue, relative to the miss queue").id(4),
        /// Weight of the miss queue.
        pub miss_weight: u32 = Parameter::new("miss_weight", Kind::Count(1, 1000), "1",
            "share of the miss queue, relative to the hit queue").id(5),
        /// Whether a hog stays in the cache.
        pub pin: bool = Parameter::new("pin", Kind::Flag, "false",
            "a flow above the threshold stays in the cache").id(6),
        /// A pin is released when its flow was not above the threshold for this time.
        pub pin_timeout: Span = Parameter::new("pin_timeout",
            Kind::Span(Span::from_millis(1), Span::from_secs(86_400)), "10 s",
            "time below the threshold after which a flow's pin is released").id(7),
        /// The part of a flow key that identifies a flow.
        pub key: KeyKind = KEY.id(8),
        /// Maximum packets held, in each of the two queues.
        pub limit: usize = Parameter::new("limit", Kind::Count(1, 500_000), "500 packets",
            "maximum packets held, in each of the two queues").id(9),
        /// Window of the rates.
        pub rate_window: Span = Parameter::new("rate_window",
            Kind::Span(Span::from_micros(10), Span::from_secs(100)), "100 ms",
            "window of the rate measurement, for each flow and for all together").id(10),
        /// The order of a flow that crosses between the queues.
        pub order: Crossing = Parameter::new("order", Kind::Word(Crossing::WORDS), "free",
            "whether a flow that moves between the queues keeps its order").id(11),
        /// Whether both queues are under the control law.
        pub codel: bool = Parameter::new("codel", Kind::Flag, "false", "both queues are under CoDel").id(12),
        /// The control law.
        pub control: Control => [TARGET.id(13), INTERVAL.id(14), ECN.id(15)],
    }
}

impl Params {
    #[inline]
    pub(super) fn keeps_order(&self) -> bool {
        self.order == Crossing::Kept
    }

    pub(super) fn policy(&self) -> Policy {
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
