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
use weir_packet::Packet;

use crate::admission::active::ActiveFlows;
use crate::admission::priority_fair::{Arrival, Common, Elastic, PriorityFair};
use crate::admission::ranking::Ranking;
use crate::admission::scheduler::GAUGES;
use crate::contract::Manual;
use crate::params::Parameters;

pub use crate::admission::priority_fair::Common as Params;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "pfq",
    id: 0x00F7_020D,
    purpose: "priority fair queueing: equal bytes for each flow, and flows with little queued go first",
    source: "Kortebi, Oueslati, Roberts, HPSR 2004; Domzal et al., 2015, section 2.1",
    text: "\
A push-in first-out queue. A packet whose flow has at most one `mtu` of bytes waiting belongs to a
streaming flow: it goes to the front, behind the packets that are already there. Any other packet belongs
to an elastic flow: it is sorted by its start tag, which is the virtual time at its arrival or the finish
tag of the previous packet of its flow, whichever is later. A finish tag is the start tag plus the length;
the virtual time is the start tag of the elastic packet that left last.

                at most one mtu of the flow waits
    arrivals --+----------------------------------> [ front ] [ by start tag    ] --> link
               +----------------------------------------------^

Priority packets are charged as well: they advance their flow's finish tag, so that a flow cannot have a
fair share of the sorted part in addition to its priority packets. When nothing is queued, all tags are
cleared. The virtual time gives the fair rate: a continuously backlogged flow would have been served this
many bytes.

When the limit is reached, the flow with most bytes behind the front loses its head packet; if there is no
such flow, the arriving packet is dropped. There are as many flow slots as packet slots. The cost of a
packet is logarithmic in the number of flows with elastic packets. It leaves with the class 0 for priority
and 1 for elastic. Used alone, this is a scheduler; `fan` adds admission control in front of it.

Defaults. `mtu` is a full frame with its Ethernet header, the minimum that lets a stream send a full packet
at priority. The limit is that of `fifo`.

Deviations: the first paper gives priority to the first `mtu` bytes of a flow since it became active; here
the waiting bytes decide, as the second paper defines it for all of its schedulers. A flow with elastic
packets stays elastic until they are sent, because a packet at the front would overtake them. The queue is
kept as one queue per flow, ordered by the tags of the head packets, which gives the same order. The order
of flows with equal tags is undefined. A dropped packet is not charged for. A flow with no packet waiting
may lose its tag when a new flow needs its slot.

An attacker whose flows each have at most one `mtu` waiting precedes all others: with enough flows, or a
new address on each packet, it takes the whole link. Admission control prevents this. With one flow it gets
one share. Flows are identified by the whole keyed hash: there are no buckets to aim at.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "longest_flow", Unit::Packets, "packets dropped from the flow with most bytes waiting, to \
                                                            make room"),
        Gauge::counter(102, "full", Unit::Packets, "packets dropped because the queue was full of priority packets"),
        Gauge::counter(103, "to_priority", Unit::Packets, "packets queued at the front"),
        Gauge::counter(104, "to_elastic", Unit::Packets, "packets queued by their start tag"),
        Gauge::level(105, "virtual_time", Unit::Bytes,
            "bytes that a continuously backlogged flow would have been served"),
        GAUGES[0].id(106), GAUGES[1].id(107), GAUGES[2].id(108), GAUGES[3].id(109),
        GAUGES[4].id(110), GAUGES[5].id(111),
    ],
};

/// A flow's place in virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The start tag of its first elastic packet; if it has none, the finish tag of its last packet.
    tag: u64,
    /// The busy period that the tag belongs to.
    period: u64,
}

/// Priority fair queueing.
pub(crate) type Pfq = PriorityFair<ByTag>;

/// Start-time fair queueing of elastic flows.
#[derive(Debug)]
pub(crate) struct ByTag {
    /// Flows with elastic packets, by start tag.
    ranking: Ranking,
    /// In bytes.
    virtual_time: u64,
    period: u64,
}

impl Elastic for ByTag {
    type Params = Params;
    type Flow = Place;
    const MANUAL: Manual = MANUAL;

    fn common(params: &Params) -> &Common {
        params
    }

    fn new(limit: usize) -> Self {
        Self {
            ranking: Ranking::new(limit),
            virtual_time: 0,
            period: 0,
        }
    }

    fn reserve(&mut self, limit: usize) {
        self.ranking.reserve(limit);
    }

    fn fresh(&self) -> Place {
        Place {
            tag: self.virtual_time,
            period: self.period,
        }
    }

    #[inline]
    fn arrive(
        &mut self,
        _params: &Params,
        flows: &mut ActiveFlows<Place>,
        flow: usize,
        bytes: u64,
        arrival: Arrival,
    ) {
        let new = self.fresh();
        let place = flows.state(flow);
        if place.period != new.period {
            *place = new;
        }
        if arrival != Arrival::Behind {
            place.tag = place.tag.max(new.tag);
        }
        match arrival {
            Arrival::Streaming => place.tag += bytes,
            Arrival::First => self.ranking.set(flow, place.tag),
            Arrival::Behind => {}
        }
    }

    /// Takes the elastic packet with the lowest start tag.
    #[inline]
    fn next(&mut self, _params: &Params, flows: &mut ActiveFlows<Place>) -> Option<Packet> {
        let (start, flow) = self.ranking.first()?;
        let packet = flows.pop_own(flow)?;
        let finish = start + packet.bytes();
        self.virtual_time = start;
        flows.state(flow).tag = finish;
        if !flows.own_is_empty(flow) {
            self.ranking.set(flow, finish);
            return Some(packet);
        }
        self.ranking.remove(flow);
        if self.ranking.len() == 0 {
            self.virtual_time = finish; // a continuously backlogged flow would receive this service too
        }
        Some(packet)
    }

    fn emptied(&mut self, flow: usize) {
        self.ranking.remove(flow);
    }

    fn settle(&mut self) {
        self.period += 1;
    }

    fn fair_bytes(&self) -> u64 {
        self.virtual_time
    }

    fn gauge(&self) -> (&'static str, u64) {
        ("virtual_time", self.virtual_time)
    }

    fn heap_bytes(&self) -> usize {
        self.ranking.state_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::scheduler::Scheduler;
    use crate::contract::{Configured, Discipline};
    use crate::rig::{Rig, built, gauge};
    use proptest::prelude::*;
    use weir_base::{Instant, Rate, Span};

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
