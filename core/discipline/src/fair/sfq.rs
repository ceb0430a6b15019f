//! Stochastic fairness queueing: round robin over hashed queues, each of a limited depth.
//!
//! ```text
//!  salted flow hash --+-> [ | | ] --+
//!                     +-> [ ]       +--> round robin --> link      the salt may change by a timer
//!                     +-> [ | | ] --+
//! ```
//!
//! Source: McKenney, "Stochastic Fairness Queueing", INFOCOM 1990; Linux `sch_sfq`.

use std::collections::VecDeque;

use rand::Rng;
use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter};
use weir_base::{Instant, Span, Stream, Streams};
use weir_packet::{KeyKind, Packet};

use crate::contract::{Cx, Manual};
use crate::fair::fair_queue::{FairQueue, Layout, Queues, Sharing};
use crate::fifo::LIMIT;
use crate::params::{Parameters, params};
use crate::parts::bins::{BUCKETS, Bins, KEY, Measure, QUANTUM};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "sfq",
    id: 0x00F7_0210,
    purpose: "stochastic fairness queueing: round robin over hashed queues of limited depth",
    source: "McKenney, INFOCOM 1990; Linux sch_sfq",
    text: "\
Flows are hashed to queues of limited depth. The queues take turns; a queue that has sent its quantum goes
to the end of the round, and any excess is deducted from its next turn. With `perturb`, flows are rehashed
at that interval, so that two flows in one queue do not stay together.

    salted flow hash --+-> [ | | ] --+
                       +-> [ ]       +--> round robin --> link
                       +-> [ | | ] --+

When the limit is reached, the longest queue (by packets) loses its head packet; a packet that finds its
own queue at its depth is dropped.

Defaults. Depth and number of queues are those of Linux. 127 packets are 16 ms at 100 Mbit/s: with a
round-trip time of 100 ms, a single Reno transfer gets four fifths of such a link; set a greater depth
there. The limit is that of `fifo`, for all queues together. `perturb` is off, because the hash is keyed.

Deviations: McKenney sends a packet in each turn; we count bytes, as Linux does. A new salt moves the
queued packets to their new queues, which may then exceed `depth`: no packet is dropped for that. After a
change of `key` or `buckets` the queued packets leave before all others, so that a flow stays in order.

An attacker with one flow gets one share; with as many flows as queues, nearly everything. It cannot aim at
a queue, because the hash is keyed, so `perturb` is not needed against attackers, but only against bad
luck.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "full", Unit::Packets, "packets dropped because their queue was at its depth"),
        Gauge::counter(102, "longest_flow", Unit::Packets, "packets dropped from the longest queue to make room"),
        Gauge::counter(103, "perturbations", Unit::One, "number of rehashes"),
        Gauge::level(104, "active", Unit::One, "queues in the round"),
    ],
};

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// The part of a flow key that identifies a flow.
        pub key: KeyKind = KEY.id(1),
        /// Queues that flows are hashed to.
        pub buckets: usize = BUCKETS.id(2),
        /// Maximum packets in one queue.
        pub depth: u64 = Parameter::new("depth", Kind::Count(1, 1_000_000), "127 packets",
            "maximum packets in one queue").id(3),
        /// Bytes that a queue may send in one round.
        pub quantum_bytes: u64 = QUANTUM.id(4),
        /// Interval at which flows are rehashed; zero for never.
        pub perturb: Span = Parameter::new("perturb", Kind::Span(Span::ZERO, Span::from_secs(86_400)), "0 s",
            "interval at which flows are rehashed; 0 s: never").id(5),
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(6),
    }
}

/// Counters of the queues.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    full: u64,
    perturbations: u64,
}

/// One queue's share.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Bytes that it may still send in this round; negative if the last packet was longer.
    allotment: i64,
    /// Whether it is in the round.
    active: bool,
}

/// Salt of the flow hash.
#[derive(Clone, Copy, Debug)]
struct Salt {
    add: u64,
    multiply: u64,
}

impl Salt {
    fn draw(stream: &mut Stream) -> Self {
        Self {
            add: stream.next_u64(),
            multiply: stream.next_u64() | 1,
        }
    }

    /// Mixes the salt into a hash: flows that share the high bits under one salt do not under another.
    fn mix(self, hash: u64) -> u64 {
        (hash ^ self.add).wrapping_mul(self.multiply)
    }
}

/// Stochastic fairness queueing.
pub(crate) type Sfq = FairQueue<Salted>;

/// The shares of the queues, their round, and the salt of the hash.
#[derive(Debug)]
pub(crate) struct Salted {
    shares: Vec<Share>,
    round: VecDeque<u32>,
    stream: Stream,
    salt: Salt,
    perturb_at: Instant,
    stats: Stats,
}

impl Salted {
    fn perturb(&mut self, queues: &mut Queues<Params>, cx: &Cx<'_>) {
        self.stats.perturbations += 1;
        self.salt = Salt::draw(&mut self.stream);
        self.perturb_at = cx.now + queues.params.perturb;
        let (salt, key, bins) = (self.salt, queues.params.key, queues.bins.count());
        queues
            .bins
            .rehash(|packet| Bins::place(salt.mix(cx.keys.hash(packet, key)), bins));
        self.round.clear();
        for (bin, share) in self.shares.iter_mut().enumerate() {
            let active = !queues.bins.is_empty(bin);
            *share = Share {
                allotment: queues.params.quantum_bytes as i64,
                active,
            };
            if active {
                self.round.push_back(bin as u32);
            }
        }
    }
}

impl Sharing for Salted {
    type Params = Params;
    const MANUAL: Manual = MANUAL;
    const MEASURE: Measure = Measure::Packets;

    #[inline]
    fn layout(params: &Params) -> Layout {
        Layout {
            bins: params.buckets,
            key: Some(params.key),
            limit: params.limit,
        }
    }

    fn new(params: &Params, now: Instant, streams: &Streams) -> Self {
        let mut stream = streams.stream(MANUAL.name);
        Self {
            shares: Vec::new(),
            round: VecDeque::new(),
            salt: Salt::draw(&mut stream),
            stream,
            perturb_at: now + params.perturb,
            stats: Stats::default(),
        }
    }

    fn renew(&mut self, bins: usize) {
        self.shares = vec![Share::default(); bins];
        self.round = VecDeque::with_capacity(bins);
    }

    #[inline]
    fn find(&self, queues: &Queues<Params>, cx: &Cx<'_>, packet: &Packet) -> Option<usize> {
        let hash = cx.keys.hash(packet, queues.params.key);
        Some(queues.bins.bin(self.salt.mix(hash)))
    }

    #[inline]
    fn touch(&self, bin: usize) {
        std::hint::black_box(self.shares[bin].active);
    }

    fn change(&mut self, old: &Params, new: &Params, now: Instant) {
        if new.perturb != old.perturb {
            self.perturb_at = now + new.perturb;
        }
    }

    #[inline]
    fn place(
        &mut self,
        queues: &mut Queues<Params>,
        cx: &mut Cx<'_>,
        packet: &mut Packet,
    ) -> Option<usize> {
        // While no packet is held, the timer is off, so that an idle queue causes no wake-ups.
        if queues.params.perturb != Span::ZERO && self.perturb_at <= cx.now {
            self.perturb(queues, cx);
        }
        let bin = self.find(queues, cx, packet)?;
        let full = queues.bins.tally(bin).packets >= queues.params.depth;
        self.stats.full += u64::from(full);
        (!full).then_some(bin)
    }

    #[inline]
    fn enter(&mut self, queues: &Queues<Params>, _cx: &Cx<'_>, _packet: &Packet, bin: usize) {
        let share = &mut self.shares[bin];
        if !share.active {
            *share = Share {
                allotment: queues.params.quantum_bytes as i64,
                active: true,
            };
            self.round.push_back(bin as u32);
        }
    }

    #[inline]
    fn next(&mut self, queues: &mut Queues<Params>, _now: Instant) -> Option<Packet> {
        // Each step ends a turn; a packet costs at most (its length / quantum) turns of its queue.
        while let Some(&bin) = self.round.front() {
            let share = &mut self.shares[bin as usize];
            if share.allotment <= 0 && !queues.bins.is_empty(bin as usize) {
                share.allotment += queues.params.quantum_bytes as i64;
                self.round.rotate_left(1);
                continue;
            }
            let packet = queues.bins.pop(bin as usize);
            if let Some(packet) = &packet {
                share.allotment -= packet.bytes() as i64;
            }
            if queues.bins.is_empty(bin as usize) {
                share.active = false;
                self.round.pop_front();
            }
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    fn has_room(queues: &Queues<Params>) -> bool {
        // The next packet may belong to any queue, so there is room only if every queue is below its depth.
        let longest = queues.bins.longest();
        let deepest = longest.map_or(0, |bin| queues.bins.tally(bin).packets);
        !queues.bins.is_full(queues.params.limit) && deepest < queues.params.depth
    }

    fn timeout(&self, queues: &Queues<Params>) -> Option<Instant> {
        let wanted = queues.params.perturb != Span::ZERO && queues.bins.held().packets > 0;
        wanted.then_some(self.perturb_at)
    }

    fn on_timeout(&mut self, queues: &mut Queues<Params>, cx: &mut Cx<'_>) {
        if self.timeout(queues).is_some_and(|due| due <= cx.now) {
            self.perturb(queues, cx);
        }
    }

    fn heap_bytes(&self, _params: &Params) -> usize {
        self.shares.capacity() * size_of::<Share>() + self.round.capacity() * size_of::<u32>()
    }

    fn inspect(&self, queues: &Queues<Params>, report: &mut dyn FnMut(&'static str, u64)) {
        report("full", self.stats.full);
        report("longest_flow", queues.longest_flow);
        report("perturbations", self.stats.perturbations);
        report("active", self.round.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Admission, Discipline};
    use crate::rig::{Rig, built, gauge};
    use weir_packet::Reason;

    fn sfq(params: Params) -> Sfq {
        built(params)
    }

    fn params() -> Params {
        Params {
            key: KeyKind::Flow,
            buckets: 1024,
            depth: 4,
            quantum_bytes: 1000,
            perturb: Span::ZERO,
            limit: 8,
        }
    }

    #[test]
    fn turns_by_hand() {
        // Quantum 1000. Flow 0: 600, 600, 600, 600; flow 1: 1000, 1000.
        // Flow 0: 1000-600 = 400 > 0, -600 = -200: two packets. Flow 1: 0: one packet, back to 1000.
        // Flow 0: 800, 200, and as 200 > 0 both packets leave. Flow 1 sends its last.
        let mut rig = Rig::new(2);
        let mut sfq = sfq(params());
        for (flow, bytes) in [(0, 600), (1, 1000), (0, 600), (1, 1000), (0, 600), (0, 600)] {
            rig.offer(&mut sfq, flow, bytes);
        }
        let sent: Vec<_> = std::iter::from_fn(|| rig.take(&mut sfq)).collect();
        let ids: Vec<_> = sent.iter().map(|p| p.id).collect();
        assert_eq!(ids, [0, 2, 1, 4, 5, 3]);
    }

    #[test]
    fn a_queue_has_its_depth_and_the_longest_makes_room() {
        let mut rig = Rig::new(6);
        let mut sfq = sfq(params());
        for n in 0..5 {
            let admission = rig.offer(&mut sfq, 0, 100);
            assert_eq!(matches!(admission, Admission::Refused(_)), n == 4);
        }
        for flow in 1..6 {
            rig.offer(&mut sfq, flow, 100);
        }
        // 4 + 4 packets fit; the ninth costs flow 0 its first packet.
        assert_eq!(rig.fates.ended(Reason::LongestFlow).packets, 1);
        assert_eq!(sfq.backlog().packets, 8);
        assert_eq!(gauge(&sfq, "full"), 1);
    }

    #[test]
    fn flows_in_one_queue_part_at_the_next_perturbation() {
        let mut rig = Rig::new(40);
        let mut sfq = sfq(Params {
            buckets: 64,
            perturb: Span::from_secs(10),
            limit: 100,
            ..params()
        });
        assert_eq!(sfq.timeout(), None);
        let together = |sfq: &Sfq, rig: &mut Rig| {
            let packets: Vec<_> = (0..40).map(|flow| rig.packet(flow, 100)).collect();
            let bins: Vec<_> = packets
                .iter()
                .map(|p| sfq.sharing.find(&sfq.queues, &rig.cx(), p))
                .collect();
            let pairs = (0..40).flat_map(|a| (0..a).map(move |b| (a, b)));
            let pairs: Vec<_> = pairs.filter(|(a, b)| bins[*a] == bins[*b]).collect();
            pairs
        };
        let before = together(&sfq, &mut rig);
        rig.offer(&mut sfq, 0, 100);
        assert_eq!(sfq.timeout(), Some(Instant::ZERO + Span::from_secs(10)));
        rig.now = Instant::ZERO + Span::from_secs(10);
        sfq.on_timeout(&mut rig.cx());
        let after = together(&sfq, &mut rig);
        assert!(before.len() > 3 && before.iter().filter(|p| after.contains(p)).count() <= 1);
        assert_eq!(rig.take(&mut sfq).map(|p| p.id), Some(40)); // packets 0 to 39 only asked for their queue
    }
}
