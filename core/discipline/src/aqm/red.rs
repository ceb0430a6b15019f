//! RED: random drops, with a probability that grows with the average length of the queue.
//!
//! ```text
//!  p_b                          1 _ _ _ _ _ _ _ _ _ _ /|   avg  average length of the queue:
//!   ^                                               /   |         each arrival sees q packets,
//!   |                                            /      |         avg = (1 - w) avg + w q
//!   |                          max_probability /        |
//!   |                     _______------'''    gentle    |   p_b  probability of a drop, before
//!   |______________------'                |             |         drops are spread evenly
//!   +-------------|-----------------------|-------------|--> avg
//!           min_threshold           max_threshold       2 x
//! ```
//!
//! Source: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", ToN 1993,
//! section 4 and Figure 2. `Average` is the figure's average, `early::Curve` its p_b, `Law::spread`
//! its p_a, and `State::decide` is the rest of the figure.

use rand::Rng;
use weir_base::early::{self, Curve};
use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError};
use weir_base::{Bytes, Instant, Rate, Span, Stream, Streams, Tally};
use weir_packet::{Class, MarkReason, Packet, Reason};

use crate::aqm::average::Average;
use crate::aqm::codel::ECN;
use crate::contract::{Admission, Configured, Cx, Discipline, Manual};
use crate::fifo::LIMIT;
use crate::params::{Parameters, params};
use crate::parts::chance::Chance;
use crate::parts::link_rate::{LinkRate, RATE};
use crate::parts::queue::Queue;
use crate::parts::thresholds;
use crate::waiting::{self, Waiting};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "red",
    id: 0x00F7_020E,
    purpose: "random early detection: drops more packets the longer the queue is on average",
    source: "Floyd and Jacobson, ToN 1993, section 4 and Figure 2; gentle: Floyd, 2000; wait: ns-2",
    text: "\
One queue, and an average of its length, in packets: each arrival that finds q > 0 packets waiting updates
the average avg to (1 - weight) avg + weight q. An arrival that finds an empty queue updates it to (1 -
weight)^m avg, where m is the number of packets of size `mean_packet` that the link of `rate` could have
sent since the queue became empty. Below `min_threshold` nothing is dropped. From there the probability p_b
grows linearly, up to `max_probability` at `max_threshold`.

    p_b                          1 _ _ _ _ _ _ _ _ _ _ /|
     ^                                               /   |
     |                                            /      |
     |                          max_probability /        |
     |                     _______------'''    gentle    |   all dropped
     |______________------'                |             |
     +-------------|-----------------------|-------------|--> avg
             min_threshold           max_threshold       2 x

Above `max_threshold`, with `gentle`, it continues to grow to 1 at twice `max_threshold`, and from there
all packets are dropped; without `gentle`, all are dropped from `max_threshold` on. To avoid clusters of
drops, the probability of a drop is p_a = p_b / (1 - count p_b), where count is the number of packets since
the last drop. At a constant p_b all distances from 1 to 1/p_b - 1 packets between two drops are then
equally likely: one packet of 1/(2 p_b) is lost, and every packet from p_b = 1/2 on. With `wait`, no packet
is dropped while count p_b < 1, and then p_a = p_b / (2 - count p_b): distances are from 1/p_b to 2/p_b -
1, and one packet of 1.5/p_b is lost.

Choosing parameters. A `weight` of w lets a burst of about 1/w packets pass before the average follows. The
distance between the thresholds should exceed the movement of the average in a round-trip time. If one
threshold is 0, `max_threshold` is three times `min_threshold`; if both are 0, they are a quarter and three
quarters of the limit. `wait` makes drops three times rarer at the same average: ns-2 and ns-3 enable it by
default, the paper and Linux do not have it. Enable it to compare with published results of those
simulators. A wrong `rate` only makes the average fall too fast or too slowly while the queue is empty.

Defaults. `weight` is the paper's; `max_probability` and `gentle` follow Floyd's later recommendations
(1997, 2000). The thresholds follow from the limit, which is that of `fifo`. `mean_packet` is between full
frames and acknowledgements. `ecn` is on, because only packets of ECN-capable senders are marked.

Deviations: m is an integer. When a packet that finds the queue empty is dropped, the idle time that has
already lowered the average does not count again. A packet that finds the limit reached is dropped without
a restart of the count, because the average did not select it. With `ecn`, an ECN-capable packet is marked
instead of dropped, except where all packets are dropped (RFC 3168, section 7). Lengths are counted in
packets only. ns-2 and ns-3 let every packet pass that finds at most one packet waiting, and do not restart
the count where all are dropped; the paper does not say so, and we follow the paper.

An attacker who ignores drops raises the average until the drops match the excess. Other flows lose the
same share of packets and slow down, the attacker does not: RED does not distinguish flows. Bursts that end
before the average has followed fill the queue for others without any early drop. The dropped packet cannot
be predicted.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::level(101, "average", Unit::MilliPackets,
            "average length of the queue at the latest arrival"),
        Gauge::counter(102, "early", Unit::Packets, "packets dropped at random"),
        Gauge::counter(103, "forced", Unit::Packets, "packets dropped because the average was in the range where all \
                                                      are dropped"),
        Gauge::counter(104, "marked", Unit::Packets, "packets marked at random"),
        Gauge::counter(105, "full", Unit::Packets, "packets dropped because the queue was full"),
    ],
};

/// The `weight` parameter.
pub(crate) const WEIGHT: Parameter = Parameter::new(
    "weight",
    Kind::Ratio(0.000_001, 1.0),
    "0.002",
    "weight of each arrival in the average of the queue length",
);

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Params {
        /// How far one arrival moves the average.
        pub weight: f64 = WEIGHT.id(1),
        /// Average from which packets are dropped; zero to derive it.
        pub min_threshold: u64 = Parameter::new("min_threshold", Kind::Count(0, 1_000_000), "0 packets",
            "average length from which packets are dropped; 0: a third of max_threshold, or a quarter of limit").id(2),
        /// Average at which the probability is `max_probability`; zero to derive it.
        pub max_threshold: u64 = Parameter::new("max_threshold", Kind::Count(0, 1_000_000), "0 packets",
            "average length with max_probability; 0: three times min_threshold, or three quarters of limit").id(3),
        /// Probability at `max_threshold`.
        pub max_probability: f64 = Parameter::new("max_probability", Kind::Ratio(0.0, 1.0), "0.1",
            "probability p_b at max_threshold").id(4),
        /// Whether the probability grows to 1 at twice `max_threshold`.
        pub gentle: bool = Parameter::new("gentle", Kind::Flag, "true",
            "above max_threshold, p_b grows to 1 at twice max_threshold instead of being 1").id(5),
        /// Whether no packet is dropped for a time after a drop.
        pub wait: bool = Parameter::new("wait", Kind::Flag, "false",
            "no packet is dropped for 1/p_b packets after a drop").id(6),
        /// Whether to mark instead of drop.
        pub ecn: bool = ECN.id(7),
        /// Rate of the link; zero to use the port's.
        pub rate: Rate = RATE.id(8),
        /// Assumed length of the packets that could have passed while the queue was empty.
        pub mean_packet_bytes: u64 = Parameter::new("mean_packet", Kind::Bytes(Bytes(64), Bytes(65536)), "1000 B",
            "assumed size of the packets sent while the queue is empty").id(9),
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(10),
    }
}

impl Params {
    /// The lower and the upper threshold, derived where they are not given.
    fn thresholds(&self) -> (f64, f64) {
        let (min, max) = (self.min_threshold as f64, self.max_threshold as f64);
        match (self.min_threshold, self.max_threshold) {
            (0, 0) => (self.limit as f64 / 4.0, self.limit as f64 * 0.75),
            (0, _) => (max / 3.0, max),
            (_, 0) => (min, min * 3.0),
            _ => (min, max),
        }
    }

    fn law(&self, link: Rate) -> Law {
        let (min, max) = self.thresholds();
        let packet_time = link.time_for(self.mean_packet_bytes);
        Law {
            weight: self.weight,
            curve: Curve {
                min,
                max,
                max_probability: self.max_probability,
                gentle: self.gentle,
            },
            wait: self.wait,
            packet_time: packet_time.max(Span::from_nanos(1)),
        }
    }
}

/// The parameters of the decision, in the forms that it needs.
#[derive(Clone, Copy, Debug)]
struct Law {
    weight: f64,
    curve: Curve,
    wait: bool,
    /// Time that a packet takes on the link while the queue is empty.
    packet_time: Span,
}

impl Law {
    /// The figure's p_a, from p_b (`base`) and `count`.
    fn spread(&self, base: f64, count: u64) -> f64 {
        if self.wait {
            early::spread_waiting(base, count)
        } else {
            early::spread(base, count)
        }
    }
}

/// The decision about an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// The draw chose the packet.
    Early,
    /// All arrivals are dropped.
    Forced,
}

/// State of the decision.
#[derive(Clone, Copy, Debug)]
struct State {
    average: Average,
    /// Packets since the last one that was chosen; -1 while the average is below the thresholds.
    count: i64,
}

impl State {
    const NEW: Self = Self {
        average: Average::ZERO,
        count: -1,
    };

    /// The verdict on the packet that has just arrived, for a `draw` from the whole range of `u64`.
    fn decide(&mut self, law: &Law, draw: u64) -> Verdict {
        if self.average.value < law.curve.min {
            self.count = -1;
            return Verdict::Pass;
        }
        if self.average.value >= law.curve.forced() {
            self.count = 0;
            return Verdict::Forced;
        }
        self.count += 1;
        let base = law.curve.probability(self.average.value);
        let probability = law.spread(base, self.count as u64);
        if Chance::new(probability).happens(draw) {
            self.count = 0;
            return Verdict::Early;
        }
        Verdict::Pass
    }
}

/// Counters of the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    early: u64,
    forced: u64,
    marked: u64,
    full: u64,
}

/// The queue and its average.
#[derive(Debug)]
pub struct Red {
    params: Params,
    law: Law,
    link_rate: LinkRate,
    queue: Queue,
    state: State,
    stream: Stream,
    stats: Stats,
}

impl Configured for Red {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        let (min, max) = params.thresholds();
        let name = match params.min_threshold {
            0 => "max_threshold", // the other one is derived from it
            _ => "min_threshold",
        };
        thresholds::check(name, min, max, params.limit)?;
        Ok(params.limit)
    }

    fn build(params: Params, _now: Instant, streams: &Streams) -> Self {
        let link_rate = LinkRate::of(params.rate);
        Self {
            law: params.law(link_rate.get()),
            link_rate,
            queue: Queue::new(params.limit),
            params,
            state: State::NEW,
            stream: streams.stream(MANUAL.name),
            stats: Stats::default(),
        }
    }

    fn change(&mut self, params: Params, _now: Instant) {
        self.queue.reserve(params.limit);
        self.link_rate.given = params.rate;
        self.law = params.law(self.link_rate.get());
        self.params = params;
    }
}

impl Discipline for Red {
    fn enqueue(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Admission {
        // One draw per arrival, whatever its fate, so that parameters do not shift the stream.
        let draw = self.stream.next_u64();
        let (law, average) = (&self.law, &mut self.state.average);
        average.arrive(law.weight, law.packet_time, self.queue.len(), cx.now);
        let verdict = self.state.decide(&self.law, draw);
        let can_mark = self.params.ecn && self.has_room(packet.class);
        match verdict {
            Verdict::Early if can_mark && cx.fates.mark(&mut packet, MarkReason::Congestion) => {
                self.stats.marked += 1;
                self.queue.push(packet);
                return Admission::Marked;
            }
            Verdict::Early => self.stats.early += 1,
            Verdict::Forced => self.stats.forced += 1,
            Verdict::Pass if self.has_room(packet.class) => {
                self.queue.push(packet);
                return Admission::Queued;
            }
            Verdict::Pass => {
                self.stats.full += 1;
                return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
            }
        }
        Admission::Refused(cx.fates.discard(packet, Reason::Congestion))
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.queue.pop()?;
        if self.queue.packets.is_empty() {
            self.state.average.idle_from(cx.now);
        }
        Some(packet)
    }

    fn has_room(&self, _class: Class) -> bool {
        self.queue.len() < self.params.limit
    }

    fn backlog(&self) -> Tally {
        self.queue.backlog
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.queue.heap_bytes()
    }

    fn set_link_rate(&mut self, rate: Option<Rate>) {
        self.link_rate.port = rate;
        self.law = self.params.law(self.link_rate.get());
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.queue.drain(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report(
            "average",
            (self.state.average.value * 1000.0).round() as u64,
        );
        report("early", self.stats.early);
        report("forced", self.stats.forced);
        report("marked", self.stats.marked);
        report("full", self.stats.full);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        waiting::of_one_queue(&self.queue.packets, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{self, Rig, built, defaults, gauge};
    use proptest::prelude::*;
    use weir_base::Streams;
    use weir_packet::Ecn;

    fn params() -> Params {
        Params {
            min_threshold: 10,
            max_threshold: 30,
            rate: Rate::from_mbps(100),
            ..defaults::<Red>()
        }
    }

    fn stream() -> Stream {
        Streams::new(1).stream("red")
    }

    fn red(params: Params) -> Red {
        built(params)
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn the_burst_of_the_papers_figure_3() {
        // "For w_q = 0.001, after a queue increase from 0 to 100 packets, avg is 4.88 packets":
        // equation 2, L + 1 + ((1 - w)^(L + 1) - 1) / w = 101 + (0.999^101 - 1) / 0.001 = 4.887355.
        let mut rig = Rig::new(1);
        let mut red = red(Params {
            weight: 0.001,
            ..params()
        });
        for _ in 0..=100 {
            rig.offer(&mut red, 0, 1000);
        }
        assert_eq!(red.queue.len(), 101);
        assert_eq!(gauge(&red, "average"), 4887);
    }

    #[test]
    fn thresholds_are_derived() {
        let of = |min_threshold, max_threshold| {
            Params {
                min_threshold,
                max_threshold,
                limit: 1000,
                ..params()
            }
            .thresholds()
        };
        assert_eq!(of(0, 0), (250.0, 750.0));
        assert_eq!(of(50, 0), (50.0, 150.0));
        assert_eq!(of(0, 90), (30.0, 90.0));
        assert_eq!(of(20, 25), (20.0, 25.0));
    }

    #[test]
    fn thresholds_that_never_act_are_refused() {
        let error = |given: &[(&str, &str)]| rig::params::<Red>(given).unwrap_err().to_string();
        assert_eq!(
            error(&[("min_threshold", "30"), ("max_threshold", "30")]),
            "`min_threshold`: the lower threshold is 30 packets, but must be below the upper threshold of 30"
        );
        assert_eq!(
            error(&[("max_threshold", "3000")]),
            "`max_threshold`: the threshold is 1000 packets, but must be below the limit of 1000"
        );
    }

    /// The distances between chosen packets, for arrivals at a queue that always has 20 packets. The weight
    /// of 1 makes the average equal to the queue: p_b = 0.02 * (20 - 10) / (30 - 10) = 0.01.
    fn distances(params: Params, ecn: Ecn, arrivals: u64) -> (Red, Rig, Vec<u64>) {
        let mut rig = Rig::new(1);
        let mut red = red(Params {
            weight: 1.0,
            max_probability: 0.02,
            ..params
        });
        rig.ecn = ecn;
        while red.queue.len() < 20 {
            rig.offer(&mut red, 0, 1000); // may be chosen as well
        }
        let (mut distances, mut last) = (Vec::new(), None);
        for n in 0..arrivals {
            match rig.offer(&mut red, 0, 1000) {
                Admission::Queued => drop(rig.take(&mut red)),
                chosen => {
                    if chosen == Admission::Marked {
                        rig.take(&mut red);
                    }
                    distances.extend(last.map(|last| n - last));
                    last = Some(n);
                }
            }
        }
        (red, rig, distances)
    }

    #[test]
    fn one_packet_of_fifty_is_dropped_at_one_percent() {
        // Distances are even over 1 to 99, with a mean of 50 and a variance of (99^2 - 1) / 12 = 817.
        // In 100 000 arrivals 2000 drops are expected, with a variance of 1e5 * 817 / 50^3 = 653, so
        // a standard deviation of 26; four of them either way.
        let (red, rig, distances) = distances(params(), Ecn::NotCapable, 100_000);
        let drops = distances.len() as u64 + 1;
        assert!((1896..=2104).contains(&drops), "{drops}");
        assert!(distances.iter().all(|d| (1..=99).contains(d)));
        let ended = rig.fates.ended(Reason::Congestion).packets;
        assert_eq!(
            (gauge(&red, "early"), rig.fates.all_ended().packets),
            (ended, ended)
        );
        // Even: of 11 ranges of 9 distances each has 2000 / 11 = 182, standard deviation 13.
        for range in 0..11 {
            let within = |d: &&u64| (**d - 1) / 9 == range;
            let count = distances.iter().filter(within).count();
            assert!((130..=234).contains(&count), "{range}: {count}");
        }
    }

    #[test]
    fn waiting_drops_a_third() {
        // Distances are even over 100 to 199, with a mean of 149.5 and a variance of 833: 669 drops
        // expected, with a variance of 1e5 * 833 / 149.5^3 = 25; four times 5 either way.
        let params = Params {
            wait: true,
            ..params()
        };
        let (_, _, distances) = distances(params, Ecn::NotCapable, 100_000);
        let drops = distances.len() + 1;
        assert!((649..=689).contains(&drops), "{drops}");
        assert!(distances.iter().all(|d| (100..=199).contains(d)));
    }

    #[test]
    fn what_can_be_marked_is_marked() {
        let (red, rig, marks) = distances(params(), Ecn::Capable0, 10_000);
        assert_eq!(rig.fates.all_ended().packets, 0);
        assert_eq!(gauge(&red, "marked"), rig.fates.marked().packets);
        assert!((150..=250).contains(&marks.len()), "{}", marks.len());
        let off = Params {
            ecn: false,
            ..params()
        };
        let (_, rig, drops) = distances(off, Ecn::Capable0, 10_000);
        assert_eq!(rig.fates.marked().packets, 0);
        assert_eq!(drops, marks); // the same draws
    }

    #[test]
    fn no_mark_where_all_are_dropped() {
        for (gentle, length) in [(false, 30), (true, 60)] {
            let mut rig = Rig::new(1);
            let mut red = red(Params { gentle, ..params() });
            for _ in 0..length {
                rig.offer(&mut red, 0, 1000);
            }
            rig.ecn = Ecn::Capable0;
            red.state.average.value = length as f64;
            let refused = rig.offer(&mut red, 0, 1000);
            assert!(matches!(refused, Admission::Refused(d) if d.reason == Reason::Congestion));
            assert_eq!((gauge(&red, "forced"), gauge(&red, "marked")), (1, 0));
        }
    }

    #[test]
    fn a_flood_cannot_keep_the_average_up() {
        // The average is 50, and all are dropped from 30 on. The queue is empty, and eight packets
        // arrive in each packet time. 50 * 0.998^255 = 30.01, 50 * 0.998^256 = 29.95: the first packet
        // that passes comes after 256 packet times, and 256 * 8 packets are dropped before.
        let mut rig = Rig::new(1);
        let mut red = red(Params {
            max_probability: 0.0,
            gentle: false,
            ..params()
        });
        red.state.average.value = 50.0;
        for _ in 0..=256 * 8 {
            rig.offer(&mut red, 0, 1000);
            rig.now += Span::from_micros(10);
        }
        assert_eq!(gauge(&red, "forced"), 256 * 8);
        assert_eq!(red.queue.len(), 1);
        close(red.state.average.value, 50.0 * 0.998_f64.powi(256));
    }

    #[test]
    fn new_parameters_keep_the_average() {
        let mut rig = Rig::new(1);
        let mut red = red(params());
        for _ in 0..50 {
            rig.offer(&mut red, 0, 1000);
        }
        let (average, held) = (gauge(&red, "average"), red.backlog());
        let changed = Params {
            weight: 0.5,
            min_threshold: 1,
            limit: 2000,
            ..params()
        };
        red.change(changed, rig.now);
        assert_eq!((gauge(&red, "average"), red.backlog()), (average, held));
        assert_eq!((red.law.weight, red.law.curve.min), (0.5, 1.0));
    }

    /// Figure 2 of the paper, word for word, plus `gentle` and `wait`.
    struct Figure2 {
        params: Params,
        draws: Stream,
        avg: f64,
        count: f64,
        q: u64,
        q_time: u64,
    }

    impl Figure2 {
        /// The draw of 53 bits, as a number below 1.
        fn with_probability(&mut self, p: f64) -> bool {
            let draw = (self.draws.next_u64() >> 11) as f64 / 2_f64.powi(53);
            draw < p
        }

        /// Whether the packet is chosen, and whether that was certain.
        fn arrive(&mut self, time: u64) -> (bool, bool) {
            let w_q = self.params.weight;
            if self.q > 0 {
                self.avg = (1.0 - w_q) * self.avg + w_q * self.q as f64;
            } else {
                while self.q_time + 80_000 <= time {
                    self.avg *= 1.0 - w_q;
                    self.q_time += 80_000;
                }
            }
            let (min_th, max_th) = (
                self.params.min_threshold as f64,
                self.params.max_threshold as f64,
            );
            let max_p = self.params.max_probability;
            let certain = self.avg >= max_th * if self.params.gentle { 2.0 } else { 1.0 };
            if min_th <= self.avg && !certain {
                self.count += 1.0;
                let p_b = if self.avg < max_th {
                    max_p * (self.avg - min_th) / (max_th - min_th)
                } else {
                    max_p + (1.0 - max_p) * (self.avg - max_th) / max_th
                };
                let p_a = match (self.params.wait, self.count * p_b) {
                    (false, due) if due < 1.0 => p_b / (1.0 - due),
                    (true, due) if due < 1.0 => 0.0,
                    (true, due) if due < 2.0 => p_b / (2.0 - due),
                    _ => 1.0,
                };
                let chosen = self.with_probability(p_a);
                if chosen {
                    self.count = 0.0;
                }
                (chosen, false)
            } else if certain {
                self.with_probability(1.0);
                self.count = 0.0;
                (true, true)
            } else {
                self.with_probability(0.0);
                self.count = -1.0;
                (false, false)
            }
        }

        fn take(&mut self, time: u64) {
            if self.q == 1 {
                self.q_time = time;
            }
            self.q = self.q.saturating_sub(1);
        }
    }

    fn any_params() -> impl Strategy<Value = Params> {
        let weight = prop::sample::select(vec![0.002, 0.03, 0.3, 1.0]);
        let flags = any::<[bool; 3]>();
        (
            weight,
            1_u64..20,
            1_u64..20,
            0.0_f64..=1.0,
            flags,
            20_usize..60,
        )
            .prop_map(
                |(weight, min, more, max_probability, [gentle, wait, ecn], limit)| Params {
                    weight,
                    min_threshold: min,
                    max_threshold: min + more,
                    max_probability,
                    gentle,
                    wait,
                    ecn,
                    limit,
                    ..params()
                },
            )
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arrive(bool),
        Take,
        Wait(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            9 => any::<bool>().prop_map(Step::Arrive),
            6 => Just(Step::Take),
            2 => (0_u64..200_000).prop_map(Step::Wait),
            1 => (0_u64..20_000_000).prop_map(Step::Wait),
        ];
        prop::collection::vec(step, 0..600)
    }

    proptest! {
        #[test]
        fn decides_as_figure_2(params in any_params(), steps in steps(), average in 0.0_f64..60.0) {
            let mut rig = Rig::new(1);
            let mut red = red(params.clone());
            red.state.average.value = average; // so that a small weight is tested near the thresholds
            let mut figure = Figure2 {
                params: params.clone(), draws: stream(), avg: average, count: -1.0, q: 0, q_time: 0,
            };
            for step in steps {
                match step {
                    Step::Arrive(capable) => {
                        rig.ecn = if capable { Ecn::Capable0 } else { Ecn::NotCapable };
                        let (chosen, certain) = figure.arrive(rig.now.as_nanos());
                        let room = figure.q < params.limit as u64;
                        let marked = chosen && !certain && capable && params.ecn && room;
                        let expected = match (chosen, room) {
                            _ if marked => None,
                            (true, _) => Some(Reason::Congestion),
                            (false, false) => Some(Reason::QueueFull),
                            (false, true) => None,
                        };
                        figure.q += u64::from(expected.is_none());
                        match rig.offer(&mut red, 0, 1000) {
                            Admission::Refused(discarded) => {
                                prop_assert_eq!(Some(discarded.reason), expected);
                            }
                            Admission::Marked => prop_assert!(marked),
                            Admission::Queued => prop_assert!(expected.is_none() && !marked),
                        }
                    }
                    Step::Take => {
                        figure.take(rig.now.as_nanos());
                        rig.take(&mut red);
                    }
                    Step::Wait(nanos) => rig.now += Span::from_nanos(nanos),
                }
                prop_assert_eq!(red.queue.len() as u64, figure.q);
                prop_assert_eq!(red.state.count as f64, figure.count);
                prop_assert!((red.state.average.value - figure.avg).abs() < 1e-9);
            }
        }
    }
}
