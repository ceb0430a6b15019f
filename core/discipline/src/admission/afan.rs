//! AFAN: two queues, streaming flows first; an elastic packet may be dropped when it matches a packet of its flow.
//!
//! Source: Domzal, Wojcik, Cholda, Stankiewicz, Jajszczyk, "Efficient congestion control mechanism for
//! flow-aware networks", International Journal of Communication Systems 2015, section 2, equations 1 to 7.
//! `Average` implements equations 3 and 4, `Curve` equation 6, `spread` equation 5, `State::decide` the
//! rest.

use rand::Rng;
use weir_base::early::{Curve, spread};
use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError};
use weir_base::{Instant, Rate, Span, Stream, Streams, Tally};
use weir_packet::{Class, KeyKind, Packet, Reason};

use crate::admission::scheduler::{GAUGES, Idle, MTU, Scheduler, Sums};
use crate::admission::split::Split;
use crate::aqm::average::Average;
use crate::aqm::red::WEIGHT;
use crate::contract::{Admission, Configured, Cx, Discipline, Manual};
use crate::params::{Parameters, params};
use crate::parts::chance::Chance;
use crate::parts::link_rate::{LinkRate, RATE};
use crate::parts::thresholds;
use crate::waiting::Waiting;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "afan",
    id: 0x00F7_0201,
    purpose: "approximate flow-aware networking: flows with little queued go first, others lose packets at random",
    source: "Domzal et al., Int. J. Communication Systems 2015, section 2, equations 1 to 7",
    text: "\
Two queues. A packet whose flow has at most one `mtu` of bytes waiting belongs to a streaming flow, and
goes to the priority queue, which is served first. Any other packet belongs to an elastic flow. It updates
the average length of the elastic queue, in packets, as `red` does: to (1 - weight) avg + weight q, or to
(1 - weight)^m avg if the elastic queue has been empty for the time of m packets of `mtu` bytes.

                at most one mtu of the flow waits
    arrivals --+----------------------------------> [ priority queue ] --first--+
               |                                                                +--> link
               +--> average --> drawn packet of the [ elastic queue  ] --then---+
                                same flow? drop it

From `min_threshold` on, each arrival draws a random packet from the elastic queue. If both packets belong
to the same flow, the drawn packet is dropped, and the arriving packet is dropped as well with the
probability P = P_t / (1 - count P_t). P_t grows linearly from 0 at `min_threshold` to `max_probability` at
`max_threshold`; count is the number of packets that have survived this chance since its last drop. A flow
with many packets in the queue is drawn often, so flows get about equal shares without a queue per flow. At
a constant P_t the distance between two such drops is uniform from 1 to 1/P_t, on average 1/(2 P_t) + 1/2.
From `max_threshold` on, every arriving elastic packet is dropped. A threshold of 0 means 0.4 or 0.9 of the
limit, as in the paper, independent of the other threshold; `red` derives it from the other one.

A packet costs one flow lookup and no search. It leaves with the class of its queue, 0 for priority and 1
for elastic. Used alone, this is a scheduler; `fan` adds admission control in front of it.

Defaults. All defaults are the paper's, for a link of 100 Mbit/s: there 10 000 packets are 1.2 s of full
frames, and elastic flows wait behind the lower threshold's 4000 packets. If that is too long, set a
smaller `limit`: the thresholds follow.

Reading of the paper. \"If both packets belong the same flow, the randomly selected one is dropped and the
packet p is dropped with the probability P_AFAN\": on a match the drawn packet is always dropped, and chance
decides only about the arriving packet. Equation 5 contains P_AFAN on both sides; RED's method, its source,
has P_AFAN_temp on the right. RED counts every arrival since the last drop; this discipline counts the
arrivals that matched and survived the chance. So drops are 1/(2 P) + 1/2 such arrivals apart, as in
equation 7.

Deviations: a flow with packets in the elastic queue stays elastic until they are sent, because a packet in
the priority queue would overtake them. The average and `max_threshold` apply to elastic packets only. When
the limit is reached, a priority packet replaces a randomly drawn elastic packet: the paper does not
specify this case, and streaming flows are the ones to protect. Below `min_threshold` the count restarts.

An attacker whose flows each have at most one `mtu` waiting counts as streaming: with enough flows, or a
new address on each packet, it takes the whole link, and the elastic queue stops. Admission control
prevents this. A single elastic flow that ignores drops loses a packet at each arrival with a probability
equal to its share of the queue. But nothing limits it to an equal share: a flood of twice the link's rate
loses only the excess half, and a competing Reno transfer, which loses one packet in 400, gets less than a
hundredth. At `max_threshold` the elastic packets of all flows are dropped alike. The drawn packet cannot
be predicted.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::level(101, "average", Unit::MilliPackets,
            "average length of the elastic queue at its latest arrival"),
        Gauge::counter(102, "matches", Unit::Packets, "elastic packets that matched a drawn packet of their flow, \
                                                       which was dropped"),
        Gauge::counter(103, "early", Unit::Packets, "matching elastic packets that were dropped by chance as well"),
        Gauge::counter(104, "forced", Unit::Packets, "elastic packets dropped because the average had reached \
                                                      max_threshold"),
        Gauge::counter(105, "full", Unit::Packets,
            "elastic packets dropped because the queue was full, or to make room for a priority packet"),
        Gauge::counter(106, "full_priority", Unit::Packets, "priority packets dropped because the queue was full of \
                                                             priority packets"),
        Gauge::counter(107, "to_priority", Unit::Packets, "packets for the priority queue, including dropped packets"),
        Gauge::counter(108, "to_elastic", Unit::Packets, "packets for the elastic queue, including dropped packets"),
        GAUGES[0].id(109), GAUGES[1].id(110), GAUGES[2].id(111), GAUGES[3].id(112),
        GAUGES[4].id(113), GAUGES[5].id(114),
    ],
};

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Params {
        /// Bytes that a streaming flow may have waiting.
        pub mtu_bytes: u64 = MTU.id(1),
        /// How far one arrival moves the average.
        pub weight: f64 = WEIGHT.id(2),
        /// Average from which arrivals are compared with drawn packets; zero to derive it.
        pub min_threshold: u64 = Parameter::new("min_threshold", Kind::Count(0, 1_000_000), "0 packets",
            "average length from which packets are drawn; 0: 0.4 of the limit").id(3),
        /// Average from which all elastic packets are dropped; zero to derive it.
        pub max_threshold: u64 = Parameter::new("max_threshold", Kind::Count(0, 1_000_000), "0 packets",
            "average length from which all elastic packets are dropped; 0: 0.9 of the limit").id(4),
        /// Probability at `max_threshold`.
        pub max_probability: f64 = Parameter::new("max_probability", Kind::Ratio(0.0, 1.0), "0.02",
            "probability P_t at max_threshold that the arriving packet is dropped with the drawn packet").id(5),
        /// Rate of the link; zero to use the port's.
        pub rate: Rate = RATE.id(6),
        /// Maximum packets held.
        pub limit: usize = Parameter::new("limit", Kind::Count(1, 1_000_000), "10000 packets",
            "maximum packets held, in both queues together").id(7),
    }
}

impl Params {
    /// Equation 6, with the thresholds derived where they are not given.
    fn curve(&self) -> Curve {
        let derived = |threshold, share| match threshold {
            0 => self.limit as f64 * share,
            given => given as f64,
        };
        Curve {
            min: derived(self.min_threshold, 0.4),
            max: derived(self.max_threshold, 0.9),
            max_probability: self.max_probability,
            gentle: false,
        }
    }

    fn law(&self, link: Rate) -> Law {
        let packet_time = link.time_for(self.mtu_bytes);
        Law {
            weight: self.weight,
            curve: self.curve(),
            packet_time: packet_time.max(Span::from_nanos(1)),
        }
    }
}

/// The parameters of the decision, in the forms that it needs.
#[derive(Clone, Copy, Debug)]
struct Law {
    weight: f64,
    curve: Curve,
    /// Time that a packet takes on the link while the elastic queue is empty: the paper's s.
    packet_time: Span,
}

/// The verdict of the average on an elastic arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// The packet is compared with a drawn packet.
    Compare,
    /// All arrivals are dropped.
    Forced,
}

/// State of the decision about the elastic queue.
#[derive(Clone, Copy, Debug)]
struct State {
    average: Average,
    /// Packets that have survived the draw since it dropped one.
    count: u64,
}

impl State {
    const NEW: Self = Self {
        average: Average::ZERO,
        count: 0,
    };

    /// The verdict on an elastic packet, after its arrival has moved the average.
    fn decide(&mut self, law: &Law) -> Verdict {
        if self.average.value < law.curve.min {
            self.count = 0;
            Verdict::Pass
        } else if self.average.value < law.curve.max {
            Verdict::Compare
        } else {
            self.count = 0;
            Verdict::Forced
        }
    }

    /// Equation 5: whether an arriving packet that matches the drawn one is dropped too, for a `draw` from
    /// the whole range of `u64`.
    fn drops_both(&mut self, law: &Law, draw: u64) -> bool {
        let base = law.curve.probability(self.average.value);
        let dropped = Chance::new(spread(base, self.count)).happens(draw);
        self.count = if dropped { 0 } else { self.count + 1 };
        dropped
    }
}

/// Counters of the queues.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    matches: u64,
    early: u64,
    forced: u64,
    full: u64,
    full_priority: u64,
    to_priority: u64,
    to_elastic: u64,
    priority_bytes_sent: u64,
    fair_bytes: f64,
}

/// The two queues and the decisions about them.
#[derive(Debug)]
pub struct Afan {
    params: Params,
    law: Law,
    link_rate: LinkRate,
    queues: Split,
    state: State,
    stream: Stream,
    idle: Idle,
    stats: Stats,
}

impl Afan {
    /// Empty queues at `now`..
    pub fn new(params: Params, now: Instant, stream: Stream) -> Self {
        let link_rate = LinkRate::of(params.rate);
        Self {
            law: params.law(link_rate.get()),
            link_rate,
            queues: Split::new(params.limit),
            state: State::NEW,
            stream,
            idle: Idle::new(now, link_rate.get()),
            stats: Stats::default(),
            params,
        }
    }

    /// Applies changed parameters or a changed link rate.
    fn apply_rate(&mut self) {
        self.law = self.params.law(self.link_rate.get());
        self.idle.set_rate(self.link_rate.get());
    }

    /// Queues a packet of a streaming flow. If there is no room, drops an elastic packet.
    fn queue_priority(
        &mut self,
        cx: &mut Cx<'_>,
        packet: Packet,
        hash: u64,
        mut known: Option<usize>,
    ) -> Admission {
        self.stats.to_priority += 1;
        if !self.has_room(packet.class) {
            let Some(drawn) = self.queues.draw(self.stream.next_u64()) else {
                self.stats.full_priority += 1;
                return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
            };
            self.stats.full += 1;
            self.end(cx, drawn, Reason::QueueFull);
            known = self.queues.find(hash); // the dropped packet may have been its last
        }
        self.idle.end(cx.now);
        self.queues.push_priority(hash, known, packet);
        Admission::Queued
    }

    /// Handles a packet of an elastic flow.
    fn queue_elastic(&mut self, cx: &mut Cx<'_>, packet: Packet, flow: usize) -> Admission {
        self.stats.to_elastic += 1;
        let (law, queued) = (&self.law, self.queues.elastic_len());
        let average = &mut self.state.average;
        average.arrive(law.weight, law.packet_time, queued, cx.now);
        let mut drawn = None;
        match self.state.decide(law) {
            Verdict::Pass => {}
            Verdict::Compare => {
                let draws = [self.stream.next_u64(), self.stream.next_u64()];
                let same = |drawn: &usize| self.queues.is_of(*drawn, flow);
                drawn = self.queues.draw(draws[0]).filter(same);
                if let Some(drawn) = drawn {
                    self.stats.matches += 1;
                    if self.state.drops_both(law, draws[1]) {
                        self.stats.early += 1;
                        self.end(cx, drawn, Reason::Congestion);
                        return Admission::Refused(cx.fates.discard(packet, Reason::Congestion));
                    }
                }
            }
            Verdict::Forced => {
                self.stats.forced += 1;
                return Admission::Refused(cx.fates.discard(packet, Reason::Congestion));
            }
        }
        if drawn.is_none() && !self.has_room(packet.class) {
            self.stats.full += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        self.idle.end(cx.now);
        self.queues.push_elastic(flow, packet);
        if let Some(drawn) = drawn {
            self.end(cx, drawn, Reason::Congestion); // last, so that the flow's entry is not removed in between
        }
        Admission::Queued
    }

    /// Drops a packet of the elastic queue.
    fn end(&mut self, cx: &mut Cx<'_>, drawn: usize, why: Reason) {
        cx.fates.discard(self.queues.take(drawn), why);
        self.took_elastic(cx.now);
        if self.queues.len() == 0 {
            self.idle.begin(cx.now);
        }
    }

    /// Updates the state after a packet has left the elastic queue.
    #[inline]
    fn took_elastic(&mut self, now: Instant) {
        if self.queues.elastic_len() == 0 {
            self.state.average.idle_from(now);
        }
    }
}

impl Scheduler for Afan {
    fn queued_bytes(&self, flow: u64) -> u64 {
        let known = self.queues.find(flow);
        known.map_or(0, |known| self.queues.bytes(known))
    }

    fn sums(&self, now: Instant) -> Sums {
        Sums {
            priority_bytes: self.stats.priority_bytes_sent,
            fair_bytes: self.stats.fair_bytes,
            idle: self.idle.until(now),
        }
    }
}

impl Configured for Afan {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        let Curve { min, max, .. } = params.curve();
        let name = match params.min_threshold {
            0 => "max_threshold", // the other one is derived
            _ => "min_threshold",
        };
        thresholds::check(name, min, max, params.limit)?;
        Ok(params.limit)
    }

    fn build(params: Params, now: Instant, streams: &Streams) -> Self {
        Self::new(params, now, streams.stream(MANUAL.name))
    }

    fn change(&mut self, params: Params, _now: Instant) {
        self.queues.reserve(params.limit);
        self.link_rate.given = params.rate;
        self.params = params;
        self.apply_rate();
    }
}

impl Discipline for Afan {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        let hash = cx.keys.hash(&packet, KeyKind::Flow);
        let known = self.queues.find(hash);
        match known {
            Some(flow) if self.queues.is_elastic(flow, self.params.mtu_bytes) => {
                self.queue_elastic(cx, packet, flow)
            }
            _ => self.queue_priority(cx, packet, hash, known),
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = match self.queues.pop_priority() {
            Some(packet) => {
                self.stats.priority_bytes_sent += packet.bytes();
                packet
            }
            None => {
                let flows = f64::from(self.queues.active_elastic());
                let packet = self.queues.pop_elastic()?;
                self.stats.fair_bytes += packet.bytes() as f64 / flows;
                self.took_elastic(cx.now);
                packet
            }
        };
        self.idle.send(cx.now, packet.bytes());
        if self.queues.len() == 0 {
            self.idle.begin(cx.now);
        }
        Some(packet)
    }

    fn prefetch(&self, cx: &Cx<'_>, packet: &Packet) {
        self.queues.touch(cx.keys.hash(packet, KeyKind::Flow));
    }

    fn has_room(&self, _class: Class) -> bool {
        self.queues.len() < self.params.limit
    }

    fn backlog(&self) -> Tally {
        self.queues.backlog()
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.queues.state_bytes()
    }

    fn set_link_rate(&mut self, rate: Option<Rate>) {
        self.link_rate.port = rate;
        self.apply_rate();
    }

    /// Drains priority packets first, as they would leave, so that each flow stays in order.
    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        std::iter::from_fn(|| self.queues.pop_priority()).for_each(&mut *out);
        std::iter::from_fn(|| self.queues.pop_elastic()).for_each(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        let stats = &self.stats;
        let average = self.state.average.value * 1000.0;
        report("average", average.round() as u64);
        report("matches", stats.matches);
        report("early", stats.early);
        report("forced", stats.forced);
        report("full", stats.full);
        report("full_priority", stats.full_priority);
        report("to_priority", stats.to_priority);
        report("to_elastic", stats.to_elastic);
        self.queues.inspect_backlogs(report);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        self.queues.report_waiting(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, built, defaults, gauge};
    use proptest::prelude::*;
    use weir_base::Streams;

    fn params() -> Params {
        Params {
            mtu_bytes: 1000,
            rate: Rate::from_mbps(100),
            limit: 100,
            ..defaults::<Afan>()
        }
    }

    fn stream() -> Stream {
        Streams::new(1).stream("afan")
    }

    fn afan(params: Params) -> Afan {
        built(params)
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
    }

    /// The law of the paper's set-up: thresholds of 4000 and 9000 of 10 000 packets.
    fn paper() -> Law {
        let params = defaults::<Afan>();
        params.law(Rate::from_mbps(100))
    }

    fn state(average: f64) -> State {
        let mut state = State::NEW;
        state.average.value = average;
        state
    }

    #[test]
    fn equations_3_and_4_by_hand() {
        // 1514 B at 100 Mbit/s take 121.12 us.
        let law = paper();
        assert_eq!(law.packet_time, Span::from_nanos(121_120));
        let mut average = state(5000.0).average;
        let mut arrive = |queue, nanos| {
            average.arrive(
                law.weight,
                law.packet_time,
                queue,
                Instant::from_nanos(nanos),
            );
            average.value
        };
        // 0.998 * 5000 + 0.002 * 6000 = 4990 + 12.
        close(arrive(6000, 0), 5002.0);
        // An empty queue, idle for 1 ms: m = floor(1000 / 121.12) = 8, 0.998^8 = 0.984 111 553 288 528.
        close(arrive(0, 1_000_000), 5002.0 * 0.998_f64.powi(8));
    }

    #[test]
    fn equations_5_and_6_by_hand() {
        let law = paper();
        let base = |average| law.curve.probability(average);
        close(base(4000.0), 0.0);
        close(base(6500.0), 0.01); // 0.02 * (6500 - 4000) / (9000 - 4000)
        close(base(8000.0), 0.016);
        close(spread(base(6500.0), 0), 0.01);
        close(spread(base(6500.0), 50), 0.02); // 0.01 / (1 - 50 * 0.01)
        close(spread(base(6500.0), 90), 0.1);
        close(spread(base(6500.0), 99), 1.0); // 0.01 / (1 - 0.99)
    }

    #[test]
    fn equation_7_two_of_a_hundred_are_dropped_in_the_middle() {
        // P_t = 0.01: distances are even over 1 to 100, with a mean of 1/0.02 + 1/2 = 50.5 and a
        // standard deviation of sqrt((100^2 - 1) / 12) = 28.9. The mean of about 20 000 distances
        // has a standard deviation of 0.2.
        let (law, mut state, mut stream) = (paper(), state(6500.0), stream());
        let (mut last, mut distances) = (0, Vec::new());
        for n in 1..=1_000_000_u64 {
            if state.drops_both(&law, stream.next_u64()) {
                distances.push(n - last);
                last = n;
            }
        }
        let mean = distances.iter().sum::<u64>() as f64 / distances.len() as f64;
        assert!((mean - 50.5).abs() < 1.0, "{mean}");
        assert!(distances.iter().all(|d| (1..=100).contains(d)));
        // Each tenth of the range has a tenth of them: 1980, standard deviation 42.
        for tenth in 0..10 {
            let count = distances.iter().filter(|d| (**d - 1) / 10 == tenth).count();
            assert!((1810..=2150).contains(&count), "{tenth}: {count}");
        }
    }

    #[test]
    fn the_average_says_what_is_done() {
        let law = paper();
        for (average, verdict) in [
            (3999.9, Verdict::Pass),
            (4000.0, Verdict::Compare),
            (8999.9, Verdict::Compare),
            (9000.0, Verdict::Forced),
        ] {
            assert_eq!(state(average).decide(&law), verdict, "{average}");
        }
        let mut counted = state(3999.9);
        counted.count = 7;
        counted.decide(&law);
        assert_eq!(counted.count, 0);
    }

    #[test]
    fn thresholds_are_derived_from_the_limit() {
        let curve = |min_threshold, max_threshold| {
            let params = Params {
                min_threshold,
                max_threshold,
                limit: 1000,
                ..params()
            };
            (params.curve().min, params.curve().max)
        };
        assert_eq!(curve(0, 0), (400.0, 900.0));
        assert_eq!(curve(50, 0), (50.0, 900.0));
        assert_eq!(curve(0, 500), (400.0, 500.0));
    }

    #[test]
    fn who_has_more_than_one_mtu_waiting_is_elastic() {
        // With an mtu of 1000: flow 0 has 0, 600 and 1200 B waiting, so its third packet is elastic.
        let mut rig = Rig::new(2);
        let mut afan = afan(params());
        for (flow, bytes) in [(0, 600), (0, 600), (0, 600), (1, 1000), (1, 1000), (1, 100)] {
            rig.offer(&mut afan, flow, bytes);
        }
        assert_eq!(gauge(&afan, "priority_packets"), 4);
        assert_eq!(
            (gauge(&afan, "active"), gauge(&afan, "active_elastic")),
            (2, 2)
        );
        let probe = rig.packet(0, 1);
        let flow = rig.keys.hash(&probe, KeyKind::Flow);
        assert_eq!(afan.queued_bytes(flow), 1800);
        let sent: Vec<_> = std::iter::from_fn(|| rig.take(&mut afan)).collect();
        let ids: Vec<_> = sent.iter().map(|p| p.id).collect();
        assert_eq!(ids, [0, 1, 3, 4, 2, 5]);
        let classes: Vec<_> = sent.iter().map(|p| p.class.0).collect();
        assert_eq!(classes, [0, 0, 0, 0, 1, 1]);
        assert_eq!((gauge(&afan, "active"), afan.queued_bytes(flow)), (0, 0));
    }

    #[test]
    fn a_flow_with_elastic_packets_stays_elastic() {
        let mut rig = Rig::new(2);
        let mut afan = afan(params());
        for _ in 0..4 {
            rig.offer(&mut afan, 0, 600);
        }
        for _ in 0..3 {
            rig.take(&mut afan);
        }
        // 600 B wait in the elastic queue: the next packet must not overtake them.
        rig.offer(&mut afan, 0, 100);
        assert_eq!(gauge(&afan, "elastic_packets"), 2);
        assert_eq!(rig.take(&mut afan).map(|p| p.id), Some(3));
    }

    #[test]
    fn sums_by_hand() {
        // Flows 0 and 1 have 1000 B in the priority queue, and then 600 B each in the elastic one; flow 0
        // has 400 B more there.
        let mut rig = Rig::new(2);
        let mut afan = afan(params());
        rig.now = Instant::from_nanos(5_000);
        for (flow, bytes) in [
            (0, 1000),
            (1, 1000),
            (0, 1),
            (0, 600),
            (1, 1),
            (1, 600),
            (0, 400),
        ] {
            rig.offer(&mut afan, flow, bytes);
        }
        // 1 B each more in the priority queue, because 1000 is not more than the mtu.
        assert_eq!(afan.sums(rig.now).priority_bytes, 0);
        for _ in 0..4 {
            rig.take(&mut afan);
        }
        let sums = afan.sums(rig.now);
        assert_eq!((sums.priority_bytes, sums.fair_bytes), (2002, 0.0));
        // 600 / 2 + 600 / 2 + 400 / 1: when the last one leaves, flow 1 is no longer active.
        for _ in 0..3 {
            rig.take(&mut afan);
        }
        assert_eq!(afan.sums(rig.now).fair_bytes, 1000.0);
        // Idle before 5 us, and again from 37 us, because 400 B at 100 Mbit/s take 32 us.
        let at = |micros| afan.sums(Instant::ZERO + Span::from_micros(micros)).idle;
        assert_eq!(at(37), Span::from_micros(5));
        assert_eq!(at(47), Span::from_micros(15));
    }

    #[test]
    fn priority_finds_room_while_elastic_packets_have_some() {
        let mut rig = Rig::new(9);
        let mut afan = afan(Params {
            limit: 5,
            ..params()
        });
        for _ in 0..6 {
            rig.offer(&mut afan, 0, 1001); // one priority, four elastic, one too many
        }
        assert_eq!(gauge(&afan, "full"), 1);
        for flow in 1..6 {
            rig.offer(&mut afan, flow, 100);
        }
        assert_eq!(
            (gauge(&afan, "full"), gauge(&afan, "full_priority")),
            (5, 1)
        );
        assert_eq!(gauge(&afan, "priority_packets"), 5);
        assert_eq!(rig.fates.ended(Reason::QueueFull).packets, 6);
    }

    #[test]
    fn new_parameters_keep_the_state() {
        let mut rig = Rig::new(3);
        let mut afan = afan(params());
        for n in 0..50 {
            rig.offer(&mut afan, n % 3, 900);
        }
        let (average, held) = (gauge(&afan, "average"), afan.backlog());
        let changed = Params {
            weight: 0.5,
            limit: 1000,
            ..params()
        };
        afan.change(changed, rig.now);
        assert_eq!((gauge(&afan, "average"), afan.backlog()), (average, held));
        assert_eq!((afan.law.weight, afan.law.curve.min), (0.5, 400.0));
        assert_eq!(std::iter::from_fn(|| rig.take(&mut afan)).count(), 50);
    }

    /// A flow that sends twice as much as the link carries, and a flow that sends a quarter.
    #[test]
    fn a_flood_is_drawn_more_often_than_others() {
        let mut rig = Rig::new(2);
        let mut afan = afan(Params {
            weight: 0.2,
            ..params()
        });
        let (mut sent, mut offered) = ([0, 0], [0, 0]);
        for n in 0..40_000 {
            for flow in if n % 4 == 0 {
                &[0, 0, 1][..]
            } else {
                &[0, 0][..]
            } {
                let arrives = *flow == 0 || n % 8 == 0; // in pairs, so that both are elastic
                for _ in 0..if *flow == 1 { 2 } else { 1 } {
                    if arrives {
                        offered[*flow] += 1;
                        rig.offer(&mut afan, *flow, 1001);
                    }
                }
            }
            if let Some(packet) = rig.take(&mut afan) {
                sent[packet.slot.0 as usize] += 1;
            }
        }
        let through = |flow: usize| f64::from(sent[flow]) / f64::from(offered[flow]);
        assert!(through(1) > 1.5 * through(0), "{sent:?} of {offered:?}");
    }

    /// The paper's section 2.1, word for word, with linear search in vectors.
    struct Reference {
        params: Params,
        draws: Stream,
        priority: Vec<Held>,
        /// Kept in the same order as the urn's cells, so that a draw picks the same packet.
        elastic: Vec<Held>,
        avg: f64,
        idle_since: u64,
        count: f64,
    }

    #[derive(Clone, Copy, Debug)]
    struct Held {
        id: u64,
        flow: usize,
        bytes: u64,
    }

    impl Reference {
        fn random(&mut self) -> f64 {
            (self.draws.next_u64() >> 11) as f64 / 2_f64.powi(53)
        }

        fn drawn(&mut self) -> Option<usize> {
            let draw = u128::from(self.draws.next_u64());
            let at = (draw * self.elastic.len() as u128) >> 64;
            (!self.elastic.is_empty()).then_some(at as usize)
        }

        fn remove(&mut self, at: usize, time: u64) -> u64 {
            let held = self.elastic.swap_remove(at);
            if self.elastic.is_empty() {
                self.idle_since = time;
            }
            held.id
        }

        /// Returns the packets that are dropped.
        fn arrive(&mut self, p: Held, time: u64) -> Vec<u64> {
            let of_flow = |h: &&Held| h.flow == p.flow;
            let waits = self.priority.iter().chain(&self.elastic).filter(of_flow);
            let bytes: u64 = waits.map(|h| h.bytes).sum();
            let full = self.priority.len() + self.elastic.len() >= self.params.limit;
            if bytes <= self.params.mtu_bytes && !self.elastic.iter().any(|h| h.flow == p.flow) {
                let mut ended = Vec::new();
                if full {
                    match self.drawn() {
                        Some(at) => ended.push(self.remove(at, time)),
                        None => return vec![p.id],
                    }
                }
                self.priority.push(p);
                return ended;
            }
            let w_q = self.params.weight;
            if self.elastic.is_empty() {
                let s = self.params.mtu_bytes * 80; // nanoseconds at 100 Mbit/s
                let m = (time - self.idle_since) / s;
                (0..m).for_each(|_| self.avg *= 1.0 - w_q);
                self.idle_since += m * s;
            } else {
                self.avg = (1.0 - w_q) * self.avg + w_q * self.elastic.len() as f64;
            }
            let limit = self.params.limit as f64;
            let (min_th, max_th) = (0.4 * limit, 0.9 * limit);
            if self.avg >= max_th {
                self.count = 0.0;
                return vec![p.id];
            }
            if self.avg < min_th {
                self.count = 0.0;
            } else {
                let (drawn, chance) = (self.drawn(), self.random());
                if let Some(at) = drawn
                    && self.elastic[at].flow == p.flow
                {
                    let temp =
                        self.params.max_probability * (self.avg - min_th) / (max_th - min_th);
                    let due = self.count * temp;
                    let p_afan = if due < 1.0 { temp / (1.0 - due) } else { 1.0 };
                    if chance < p_afan {
                        self.count = 0.0;
                        return vec![self.remove(at, time), p.id];
                    }
                    self.count += 1.0;
                    self.elastic.push(p);
                    return vec![self.remove(at, time)];
                }
            }
            if full {
                return vec![p.id];
            }
            self.elastic.push(p);
            Vec::new()
        }

        fn take(&mut self, time: u64) -> Option<u64> {
            if !self.priority.is_empty() {
                return Some(self.priority.remove(0).id);
            }
            let first = (0..self.elastic.len()).min_by_key(|at| self.elastic[*at].id)?;
            Some(self.remove(first, time))
        }
    }

    proptest! {
        #[test]
        fn decides_as_section_2_1(
            weight in prop::sample::select(vec![0.002, 0.1, 0.5, 1.0]),
            max_probability in prop_oneof![Just(0.02), 0.0_f64..=1.0],
            limit in 3_usize..40,
            calls in prop::collection::vec((0_u8..10, 0_usize..6, 1_u32..1600, 0_u64..300_000), 0..600),
        ) {
            let params = Params { weight, max_probability, limit, ..params() };
            let mut rig = Rig::new(6);
            let mut afan = afan(params.clone());
            let mut reference = Reference {
                params, draws: stream(), priority: Vec::new(), elastic: Vec::new(),
                avg: 0.0, idle_since: 0, count: 0.0,
            };
            for (call, flow, bytes, nanos) in calls {
                match call {
                    0..6 => {
                        let held = Held { id: rig.next_id(), flow, bytes: bytes.into() };
                        let ended = reference.arrive(held, rig.now.as_nanos());
                        let before = rig.fates.all_ended().packets;
                        let refused = matches!(rig.offer(&mut afan, flow, bytes), Admission::Refused(_));
                        prop_assert_eq!(refused, ended.contains(&held.id));
                        prop_assert_eq!(rig.fates.all_ended().packets - before, ended.len() as u64);
                    }
                    6..9 => {
                        let expected = reference.take(rig.now.as_nanos());
                        prop_assert_eq!(rig.take(&mut afan).map(|p| p.id), expected);
                    }
                    _ => rig.now += Span::from_nanos(nanos),
                }
                prop_assert_eq!(gauge(&afan, "priority_packets"), reference.priority.len() as u64);
                prop_assert_eq!(gauge(&afan, "elastic_packets"), reference.elastic.len() as u64);
                prop_assert!((afan.state.average.value - reference.avg).abs() < 1e-9);
            }
        }
    }
}
