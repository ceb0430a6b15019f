//! Priority fair queueing: start-time fair queueing, where packets of flows with little queued go first.
//!
//! ```text
//!                at most one MTU of the flow waits
//!  arrivals --+-----------------------------------> [ front ] [ by start tag    ] --> link
//!             +-----------------------------------------------^
//! ```
//!
//! Source: Kortebi, Oueslati, Roberts, "Cross-protect: implicit service differentiation and admission
//! control", HPSR 2004; the class of a packet as in Domzal et al., 2015, section 2.1.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::SettingError;
use weir_base::{Instant, Rate, Streams, Tally};
use weir_packet::{Class, KeyKind, Packet, Reason};

use crate::admission::active::ActiveFlows;
use crate::admission::ranking::Ranking;
use crate::admission::scheduler::{GAUGES, Idle, MTU, Scheduler, Sums};
use crate::contract::{Admission, Configured, Cx, Discipline, Manual, Ready};
use crate::fifo::LIMIT;
use crate::params::{Parameters, params};
use crate::parts::link_rate::{LinkRate, RATE};
use crate::waiting::Waiting;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "pfq",
    id: 0x00F7_020D,
    purpose: "priority fair queueing: equal bytes for each flow, and those with little queued go first",
    source: "Kortebi, Oueslati, Roberts, HPSR 2004; Domzal et al., 2015, section 2.1",
    text: "\
A push-in first-out queue. A packet whose flow has at most one `mtu` of bytes waiting is of a streaming
flow: it goes in front of all others, behind those that are there already. Any other is of an elastic flow:
it goes where its start tag says, which is the virtual time at its arrival, or the finish tag of its
flow's packet before, whichever is later. A finish tag is the start tag plus the length; the virtual time is
the start tag of the elastic packet that left last.

                at most one mtu of the flow waits
    arrivals --+----------------------------------> [ front ] [ by start tag    ] --> link
               +----------------------------------------------^

Priority packets are charged too: they move their flow's finish tag, so that a flow cannot have a fair
share behind in addition to what it gets in front. When nothing is queued, all tags are forgotten. The virtual
time tells the fair rate: a flow with packets waiting at all times would have been served this many bytes.

When the limit is reached, the flow with most bytes behind the front loses the packet at its head; if there
is none, the arriving packet is dropped. There are as many places for flows as for packets. A packet costs
the logarithm of the number of flows with elastic packets. It leaves with the class 0 for priority and 1 for
elastic. Alone, this is a scheduler; `fan` puts admission control in front of it.

Defaults. `mtu` is a full frame with its Ethernet header, the least that lets a stream send a full packet at
priority. The limit is that of `fifo`.

Deviations: the first text gives priority to the first `mtu` bytes of a flow since it became active; here it
is the bytes that wait, as the second one says for all of its schedulers. A flow with elastic packets stays
elastic until they are sent, because a packet in front would overtake them. The queue is kept as one queue
for each flow, ordered by the tags of their heads, which gives the same order. Of equal tags, which flow
goes first is not defined. A dropped packet is not charged for. A flow that has nothing waiting may lose
its tag when a new flow needs its place.

An attacker whose flows each have at most one `mtu` waiting is in front of everybody: with enough flows, or
a new address on each packet, it has the link to itself. That is what admission control is for. With one
flow it gets one share. Flows are identified by the whole keyed hash: there are no buckets to aim at.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "longest_flow", Unit::Packets, "packets that the flow with most waiting lost to make room"),
        Gauge::counter(102, "full", Unit::Packets, "packets dropped because the queue was full of priority packets"),
        Gauge::counter(103, "to_priority", Unit::Packets, "packets that went to the front"),
        Gauge::counter(104, "to_elastic", Unit::Packets, "packets that went where their start tag says"),
        Gauge::level(105, "virtual_time", Unit::Bytes,
            "bytes that a flow with packets waiting at all times would have been served"),
        GAUGES[0].id(106), GAUGES[1].id(107), GAUGES[2].id(108), GAUGES[3].id(109),
        GAUGES[4].id(110), GAUGES[5].id(111),
    ],
};

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// Bytes that a streaming flow may have waiting.
        pub mtu_bytes: u64 = MTU.id(1),
        /// Rate of the link; zero to use the port's.
        pub rate: Rate = RATE.id(2),
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(3),
    }
}

/// A flow's place in virtual time.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The start tag of its first elastic packet; if it has none, the finish tag of its last packet.
    tag: u64,
    /// The busy period that the tag belongs to.
    period: u64,
}

/// The queue.
#[derive(Debug)]
pub struct Pfq {
    params: Params,
    link_rate: LinkRate,
    flows: ActiveFlows<Place>,
    /// Flows with elastic packets, by start tag.
    ranking: Ranking,
    /// In bytes.
    virtual_time: u64,
    period: u64,
    idle: Idle,
}

impl Pfq {
    /// An empty queue at `now`.
    pub(crate) fn new(params: Params, now: Instant) -> Self {
        let link_rate = LinkRate::of(params.rate);
        Self {
            link_rate,
            flows: ActiveFlows::new(params.limit),
            ranking: Ranking::new(params.limit),
            virtual_time: 0,
            period: 0,
            idle: Idle::new(now, link_rate.get()),
            params,
        }
    }

    fn room(&self) -> bool {
        self.flows.held().packets < self.params.limit as u64
    }

    /// Makes room for one packet, if an elastic packet can be dropped.
    fn make_room(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(flow) = self.flows.make_room(cx) else {
            return false;
        };
        if self.flows.own_is_empty(flow) {
            self.ranking.remove(flow);
        }
        true
    }

    /// Takes the elastic packet with the lowest start tag.
    fn next_elastic(&mut self) -> Option<Packet> {
        let (start, flow) = self.ranking.first()?;
        let packet = self.flows.pop_own(flow)?;
        let finish = start + packet.bytes();
        self.virtual_time = start;
        self.flows.state(flow).tag = finish;
        if !self.flows.own_is_empty(flow) {
            self.ranking.set(flow, finish);
            return Some(packet);
        }
        self.ranking.remove(flow);
        if self.ranking.len() == 0 {
            self.virtual_time = finish; // a continuously backlogged flow would receive this service too
        }
        Some(packet)
    }

    fn next(&mut self) -> Option<Packet> {
        let packet = self.flows.pop_priority();
        packet.or_else(|| self.next_elastic())
    }
}

impl Scheduler for Pfq {
    fn queued_bytes(&self, flow: u64) -> u64 {
        self.flows.bytes_of(flow)
    }

    fn sums(&self, now: Instant) -> Sums {
        Sums {
            priority_bytes: self.flows.priority_bytes(),
            fair_bytes: self.virtual_time as f64,
            idle: self.idle.until(now),
        }
    }
}

impl Configured for Pfq {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        Ok(params.limit)
    }

    fn build(params: Params, now: Instant, _streams: &Streams) -> Self {
        Self::new(params, now)
    }

    fn change(&mut self, params: Params, _now: Instant) {
        self.flows.reserve(params.limit);
        self.ranking.reserve(params.limit);
        self.link_rate.given = params.rate;
        self.params = params;
        self.idle.set_rate(self.link_rate.get());
    }
}

impl Discipline for Pfq {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        if !self.room() && !self.make_room(cx) {
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        self.idle.end(cx.now);
        let new = Place {
            tag: self.virtual_time,
            period: self.period,
        };
        let hash = cx.keys.hash(&packet, KeyKind::Flow);
        let flow = self.flows.flow(hash, new);
        let alone = self.flows.own_is_empty(flow);
        let streaming = alone && self.flows.bytes(flow) <= self.params.mtu_bytes;
        let place = self.flows.state(flow);
        if place.period != new.period {
            *place = new;
        }
        if alone {
            place.tag = place.tag.max(new.tag);
        }
        if streaming {
            place.tag += packet.bytes();
            self.flows.push_priority(flow, packet);
            return Admission::Queued;
        }
        if alone {
            self.ranking.set(flow, place.tag);
        }
        self.flows.push_own(flow, packet);
        Admission::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.next()?;
        if self.flows.held().packets == 0 {
            self.period += 1;
            self.idle.send(cx.now, packet.bytes());
            self.idle.begin(cx.now);
        }
        Some(packet)
    }

    fn prefetch(&self, cx: &Cx<'_>, packet: &Packet) {
        self.flows.touch(cx.keys.hash(packet, KeyKind::Flow));
    }

    fn has_room(&self, _class: Class) -> bool {
        self.room()
    }

    fn ready(&self, _now: Instant) -> Ready {
        self.flows.ready()
    }

    fn backlog(&self) -> Tally {
        self.flows.held()
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.flows.state_bytes() + self.ranking.state_bytes()
    }

    fn set_link_rate(&mut self, rate: Option<Rate>) {
        self.link_rate.port = rate;
        self.idle.set_rate(self.link_rate.get());
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        std::iter::from_fn(|| self.next()).for_each(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        self.flows.inspect_counts(report);
        report("virtual_time", self.virtual_time);
        self.flows.inspect_backlogs(report);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        self.flows.report_waiting(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, built, gauge};
    use proptest::prelude::*;
    use weir_base::Span;

    fn params() -> Params {
        Params {
            mtu_bytes: 1000,
            rate: Rate::from_mbps(100),
            limit: 1000,
        }
    }

    fn pfq(params: Params) -> Pfq {
        built(params)
    }

    fn ids(rig: &mut Rig, pfq: &mut Pfq) -> Vec<u64> {
        std::iter::from_fn(|| rig.take(pfq)).map(|p| p.id).collect()
    }

    #[test]
    fn order_by_hand() {
        // Flow 0: 800 B and 400 B in front; 300 B at 1200 and 300 B at 1500. Flow 1: 1001 B in front,
        // 400 B at 1001 and 400 B at 1401. Flow 2: 10 B in front.
        let mut rig = Rig::new(3);
        let mut pfq = pfq(params());
        let sizes = [
            (0, 800),
            (0, 400),
            (0, 300),
            (0, 300),
            (1, 1001),
            (1, 400),
            (1, 400),
            (2, 10),
        ];
        for (flow, bytes) in sizes {
            rig.offer(&mut pfq, flow, bytes);
        }
        assert_eq!(gauge(&pfq, "priority_packets"), 4);
        assert_eq!(
            (gauge(&pfq, "active"), gauge(&pfq, "active_elastic")),
            (3, 2)
        );
        assert_eq!(ids(&mut rig, &mut pfq), [0, 1, 4, 7, 5, 2, 6, 3]);
        assert_eq!(
            (gauge(&pfq, "active"), gauge(&pfq, "active_elastic")),
            (0, 0)
        );
    }

    #[test]
    fn sums_by_hand() {
        let mut rig = Rig::new(2);
        let mut pfq = pfq(params());
        rig.now = Instant::from_nanos(5_000);
        // In front: 1001 B of each flow. Behind: flow 0 at 1001 and 1501, flow 1 at 1001.
        for (flow, bytes) in [(0, 1001), (1, 1001), (0, 500), (0, 400), (1, 700)] {
            rig.offer(&mut pfq, flow, bytes);
        }
        let fair = |pfq: &Pfq| pfq.sums(Instant::ZERO).fair_bytes;
        assert_eq!(pfq.sums(rig.now).priority_bytes, 2002);
        let mut times = Vec::new();
        while rig.take(&mut pfq).is_some() {
            times.push(fair(&pfq));
        }
        // 500 B of flow 0 and 700 B of flow 1 at 1001, then 400 B at 1501, which end at 1901.
        assert_eq!(times, [0.0, 0.0, 1001.0, 1001.0, 1901.0]);
        // Idle before 5 us, and again from 37 us, because 400 B at 100 Mbit/s take 32 us.
        let at = |micros| pfq.sums(Instant::ZERO + Span::from_micros(micros)).idle;
        assert_eq!(
            (at(37), at(47)),
            (Span::from_micros(5), Span::from_micros(15))
        );
    }

    #[test]
    fn the_longest_flow_makes_room() {
        let mut rig = Rig::new(6);
        let mut pfq = pfq(Params {
            limit: 4,
            ..params()
        });
        for (flow, bytes) in [(0, 1001), (0, 600), (0, 700), (0, 800)] {
            rig.offer(&mut pfq, flow, bytes);
        }
        for flow in 1..5 {
            rig.offer(&mut pfq, flow, 10);
        }
        // Three elastic packets made room, the oldest first; then only priority packets are left.
        assert_eq!((gauge(&pfq, "longest_flow"), gauge(&pfq, "full")), (3, 1));
        assert_eq!(gauge(&pfq, "active_elastic"), 0);
        assert_eq!(ids(&mut rig, &mut pfq), [0, 4, 5, 6]);
    }

    #[test]
    fn flows_that_come_and_go_find_a_place() {
        let mut rig = Rig::new(50);
        let mut pfq = pfq(Params {
            limit: 3,
            ..params()
        });
        for n in 0..500 {
            rig.offer(&mut pfq, n % 50, 700);
            rig.offer(&mut pfq, n % 50, 700);
            if n % 3 == 0 {
                rig.take(&mut pfq);
            }
        }
        let fewer = Params {
            limit: 40,
            ..params()
        };
        pfq.change(fewer, rig.now);
        for flow in 0..50 {
            rig.offer(&mut pfq, flow, 700);
        }
        assert_eq!(pfq.backlog().packets, 40);
    }

    /// A push-in first-out queue in a vector, with a tag on each packet.
    #[derive(Default)]
    struct Reference {
        queue: Vec<Held>,
        finish: Vec<u64>,
        now: u64,
    }

    #[derive(Clone, Copy)]
    struct Held {
        id: u64,
        flow: usize,
        bytes: u64,
        /// The start tag; `None` for packets in front.
        start: Option<u64>,
    }

    impl Reference {
        fn enqueue(&mut self, id: u64, flow: usize, bytes: u64, mtu: u64) {
            let own = self.queue.iter().filter(|h| h.flow == flow);
            let waits: u64 = own.clone().map(|h| h.bytes).sum();
            let front = waits <= mtu && !own.clone().any(|h| h.start.is_some());
            let start = self.now.max(self.finish[flow]);
            self.finish[flow] = start + bytes;
            let start = (!front).then_some(start);
            self.queue.push(Held {
                id,
                flow,
                bytes,
                start,
            });
        }

        /// Takes packet `id`; returns whether it was its turn.
        fn take(&mut self, id: u64) -> bool {
            let first = self.queue.iter().map(|h| h.start).min().flatten();
            let Some(at) = self.queue.iter().position(|h| h.id == id) else {
                return false;
            };
            let held = self.queue.remove(at);
            let in_order = match held.start {
                None => !self.queue[..at].iter().any(|h| h.start.is_none()),
                Some(start) => {
                    self.now = start;
                    !self.queue[..at].iter().any(|h| h.flow == held.flow)
                }
            };
            if let Some(start) = held.start
                && !self.queue.iter().any(|h| h.start.is_some())
            {
                self.now = start + held.bytes;
            }
            if self.queue.is_empty() {
                self.finish.fill(0);
            }
            in_order && held.start == first
        }
    }

    proptest! {
        #[test]
        fn schedules_as_the_paper(calls in prop::collection::vec((0_u8..9, 0_usize..6, 1_u32..1600), 0..400)) {
            let mut rig = Rig::new(6);
            let mut pfq = pfq(params());
            let mut reference = Reference { finish: vec![0; 6], ..Reference::default() };
            for (call, flow, bytes) in calls {
                if call < 5 {
                    reference.enqueue(rig.next_id(), flow, bytes.into(), 1000);
                    rig.offer(&mut pfq, flow, bytes);
                } else {
                    match rig.take(&mut pfq) {
                        Some(packet) => prop_assert!(reference.take(packet.id)),
                        None => prop_assert!(reference.queue.is_empty()),
                    }
                }
                prop_assert_eq!(gauge(&pfq, "virtual_time"), reference.now);
                let waits = |flow| reference.queue.iter().filter(move |h| h.flow == flow);
                let active = (0..6).filter(|flow| waits(*flow).count() > 0).count();
                prop_assert_eq!(gauge(&pfq, "active"), active as u64);
                let elastic = (0..6).filter(|flow| waits(*flow).any(|h| h.start.is_some())).count();
                prop_assert_eq!(gauge(&pfq, "active_elastic"), elastic as u64);
            }
        }
    }
}
