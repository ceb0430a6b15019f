//! Priority deficit round robin: deficit round robin, where packets of flows with little queued go first.
//!
//! ```text
//!                at most one mtu of the flow waits
//!  arrivals --+----------------------------------------> [ priority ]       --first--+
//!             |                                                                      +--> link
//!             +--> [ flow 3 ] [ flow 8 ] [ flow 2 ]  deficit round robin    --then---+
//! ```
//!
//! Source: Kortebi, Oueslati, Roberts, "Implicit service differentiation using deficit round robin",
//! ITC 2005; definition of streaming flows: Domzal et al., Int. J. Communication Systems 2015, section 2.

use weir_base::gauge::{Gauge, Unit};
use weir_packet::Packet;

use crate::admission::active::ActiveFlows;
use crate::admission::priority_fair::{Arrival, Common, Elastic, PriorityFair};
use crate::admission::scheduler::{GAUGES, MTU};
use crate::contract::Manual;
use crate::fifo::LIMIT;
use crate::params::{Parameters, params};
use crate::parts::bins::QUANTUM;
use crate::parts::link_rate::RATE;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "pdrr",
    id: 0x00F7_020C,
    purpose: "priority deficit round robin: equal bytes for each flow, and flows with little queued go first",
    source: "Kortebi, Oueslati, Roberts, ITC 2005; Domzal et al., Int. J. Communication Systems 2015, section 2",
    text: "\
Deficit round robin over the active flows, each with its own queue, behind one priority queue. A packet
whose flow has at most one `mtu` of bytes waiting, and nothing in its own queue, goes to the priority
queue, which is served first. Any other packet goes to the queue of its flow and waits for the flow's turn,
in which the flow is served one `quantum`.

                at most one mtu of the flow waits
    arrivals --+--------------------------------------> [ priority ]       --first--+
               |                                                                    +--> link
               +--> [ flow 3 ] [ flow 8 ] [ flow 2 ]  deficit round robin  --then---+

A fictitious flow takes its turns among the others. Each of its turns ends a round, in which a continuously
backlogged flow would have been served one `quantum`: this gives the fair rate. A packet costs constant
time if the quantum is at least a full frame, otherwise up to (frame / quantum) turns of all flows.

When the limit is reached, the longest flow queue (by bytes) loses its head packet; if all flow queues are
empty, the arriving packet is dropped. There are as many flow slots as packet slots. A packet leaves with
the class 0 for priority and 1 for elastic. Used alone, this is a scheduler; `fan` adds admission control
in front of it.

Defaults. `quantum` is a full frame with its Ethernet header, the minimum that keeps the cost of a packet
constant; `mtu` is the same, as in `afan` and `pfq`. The limit is that of `fifo`.

Deviations: the first paper gives priority to packets that fit the flow's quantum of the round. Here the
flow's backlog decides, as in the paper on flow-aware networks (\"the same process is used in any FAN
architecture\"), so that all its schedulers define a streaming flow alike. There a flow is in the list of
active flows from its first packet on. Here it joins the list with the first packet in its own queue, so
that a packet never has to skip flows that have only priority packets. While its own queue holds packets,
none of its packets goes to the priority queue, because it would overtake them.

An attacker whose flows each have at most one `mtu` waiting precedes all others: with many flows, or a new
address on each packet, it takes the whole link. Admission control prevents this. With one flow it gets one
share, and an `mtu` at priority each time that its own queue has run empty. Flows are identified by the
whole keyed hash: there are no buckets to aim at.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "longest_flow", Unit::Packets, "packets dropped from the longest flow queue to make room"),
        Gauge::counter(102, "full", Unit::Packets, "packets dropped because the queue was full of priority packets"),
        Gauge::counter(103, "to_priority", Unit::Packets, "packets assigned to the priority queue"),
        Gauge::counter(104, "to_elastic", Unit::Packets, "packets assigned to the queue of their flow"),
        Gauge::counter(105, "rounds", Unit::One, "completed rounds"),
        GAUGES[0].id(106), GAUGES[1].id(107), GAUGES[2].id(108), GAUGES[3].id(109),
        GAUGES[4].id(110), GAUGES[5].id(111),
    ],
};

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// Bytes of a flow in a round.
        pub quantum_bytes: u64 = QUANTUM.id(1),
        /// The parameters that `pfq` has too.
        pub common: Common => [MTU.id(2), RATE.id(3), LIMIT.id(4)],
    }
}

/// A flow's share of the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// Bytes that its own queue may still send in this turn.
    deficit: u64,
    /// The flow's place in the order of turns.
    place: u64,
}

/// Priority deficit round robin.
pub(crate) type Pdrr = PriorityFair<Rounds>;

/// Deficit round robin of elastic flows.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Number of completed rounds.
    round: u64,
    /// The last place in the order of turns.
    last_place: u64,
    /// The place of the fictitious flow.
    fictitious: u64,
    /// Bytes of service that the fictitious flow has received.
    fair_bytes: u64,
}

impl Elastic for Rounds {
    type Params = Params;
    type Flow = Share;
    const MANUAL: Manual = MANUAL;

    fn common(params: &Params) -> &Common {
        &params.common
    }

    fn new(_limit: usize) -> Self {
        Self::default()
    }

    fn fresh(&self) -> Share {
        Share::default()
    }

    #[inline]
    fn arrive(
        &mut self,
        params: &Params,
        flows: &mut ActiveFlows<Share>,
        flow: usize,
        _bytes: u64,
        arrival: Arrival,
    ) {
        if arrival == Arrival::First {
            self.last_place += 1;
            *flows.state(flow) = Share {
                deficit: params.quantum_bytes,
                place: self.last_place,
            };
        }
    }

    #[inline]
    fn next(&mut self, params: &Params, flows: &mut ActiveFlows<Share>) -> Option<Packet> {
        // Each step ends a turn; a packet needs at most (its length / quantum) turns of its queue.
        loop {
            let flow = flows.turn()?;
            let share = flows.state(flow);
            if share.place > self.fictitious {
                self.last_place += 1;
                self.fictitious = self.last_place;
                self.round += 1;
                self.fair_bytes += params.quantum_bytes;
            }
            let bytes = flows.front_bytes(flow)?;
            let share = flows.state(flow);
            if bytes <= share.deficit {
                share.deficit -= bytes;
                return flows.pop_own(flow);
            }
            share.deficit += params.quantum_bytes;
            self.last_place += 1;
            share.place = self.last_place;
            flows.end_turn(flow);
        }
    }

    fn fair_bytes(&self) -> u64 {
        self.fair_bytes
    }

    fn gauge(&self) -> (&'static str, u64) {
        ("rounds", self.round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::scheduler::Scheduler;
    use crate::rig::{Rig, built, gauge};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use weir_base::{Instant, Rate, Span};

    fn params(quantum_bytes: u64, mtu_bytes: u64, limit: usize) -> Params {
        Params {
            quantum_bytes,
            common: Common {
                mtu_bytes,
                rate: Rate::from_mbps(100),
                limit,
            },
        }
    }

    fn pdrr(params: Params) -> Pdrr {
        built(params)
    }

    fn ids(rig: &mut Rig, pdrr: &mut Pdrr) -> Vec<u64> {
        std::iter::from_fn(|| rig.take(pdrr))
            .map(|p| p.id)
            .collect()
    }

    #[test]
    fn order_by_hand() {
        // At most 500 B waiting. Flow 0: 600 B at priority, then 400 (id 1), 300 (2), 800 (3), 100 (4) in its
        // own queue. Flow 1: 1001 B at priority (5), its 10 B (6) wait. Flow 2: 10 B (7) at priority.
        let mut rig = Rig::new(3);
        let mut pdrr = pdrr(params(1000, 500, 1000));
        for (flow, bytes) in [(0, 600), (0, 400), (0, 300), (0, 800), (0, 100)] {
            rig.offer(&mut pdrr, flow, bytes);
        }
        for (flow, bytes) in [(1, 1001), (1, 10), (2, 10)] {
            rig.offer(&mut pdrr, flow, bytes);
        }
        assert_eq!(gauge(&pdrr, "priority_packets"), 3);
        assert_eq!(
            (gauge(&pdrr, "active"), gauge(&pdrr, "active_elastic")),
            (3, 2)
        );
        // Turn of flow 0 with 1000: 400, 300, and 800 does not fit. Of flow 1: 10. Of flow 0: 1300, sends 800, 100.
        assert_eq!(ids(&mut rig, &mut pdrr), [0, 5, 7, 1, 2, 6, 3, 4]);
    }

    #[test]
    fn a_flow_is_streaming_by_what_it_has_waiting() {
        let mut rig = Rig::new(2);
        let mut pdrr = pdrr(params(1000, 500, 1000));
        // Only its backlog counts when a packet arrives, however much it has sent.
        for _ in 0..5 {
            rig.offer(&mut pdrr, 0, 1500);
            rig.take(&mut pdrr);
        }
        assert_eq!(gauge(&pdrr, "to_priority"), 5);
        // 500 B wait, which is one mtu; then 501 do.
        for bytes in [500, 1, 1] {
            rig.offer(&mut pdrr, 1, bytes);
        }
        assert_eq!(gauge(&pdrr, "to_priority"), 7);
        assert_eq!(gauge(&pdrr, "to_elastic"), 1);
    }

    #[test]
    fn sums_by_hand() {
        let mut rig = Rig::new(2);
        let mut pdrr = pdrr(params(1000, 500, 1000));
        rig.now = Instant::from_nanos(5_000);
        // At priority: 1000 B of each flow. Then 900 B each, and 900 B more of flow 0, in their own queues.
        for (flow, bytes) in [(0, 1000), (1, 1000), (0, 900), (1, 900), (0, 900)] {
            rig.offer(&mut pdrr, flow, bytes);
        }
        assert_eq!(pdrr.sums(rig.now).priority_bytes, 2000);
        let mut fair = Vec::new();
        while rig.take(&mut pdrr).is_some() {
            fair.push(pdrr.sums(rig.now).fair_bytes);
        }
        // The fictitious flow arrived first, so it has its turn before flow 0 and again after flow 1.
        assert_eq!(fair, [0.0, 0.0, 1000.0, 1000.0, 2000.0]);
        // Idle before 5 us, and again from 77 us, because 900 B at 100 Mbit/s take 72 us.
        let at = |micros| pdrr.sums(Instant::ZERO + Span::from_micros(micros)).idle;
        assert_eq!(
            (at(77), at(87)),
            (Span::from_micros(5), Span::from_micros(15))
        );
    }

    #[test]
    fn the_longest_queue_makes_room() {
        let mut rig = Rig::new(6);
        let mut pdrr = pdrr(params(1000, 500, 4));
        for (flow, bytes) in [(0, 1000), (0, 600), (0, 700), (0, 800)] {
            rig.offer(&mut pdrr, flow, bytes);
        }
        for flow in 1..5 {
            rig.offer(&mut pdrr, flow, 10);
        }
        assert_eq!((gauge(&pdrr, "longest_flow"), gauge(&pdrr, "full")), (3, 1));
        assert_eq!(gauge(&pdrr, "active_elastic"), 0);
        assert_eq!(ids(&mut rig, &mut pdrr), [0, 4, 5, 6]);
    }

    /// The papers' enqueue and dequeue on a list of active flows with the fictitious one in it, and the
    /// deviations that the manual page names.
    struct Reference {
        quantum: u64,
        mtu: u64,
        priority: VecDeque<(usize, u64, u64)>,
        flows: Vec<Active>,
        /// `None` is the fictitious flow.
        list: VecDeque<Option<usize>>,
        fair: u64,
    }

    #[derive(Clone, Default)]
    struct Active {
        queue: VecDeque<(u64, u64)>,
        deficit: u64,
    }

    impl Reference {
        fn enqueue(&mut self, flow: usize, id: u64, bytes: u64) {
            let of_flow = self.priority.iter().filter(|(of, ..)| *of == flow);
            let waits: u64 = of_flow.map(|(.., bytes)| bytes).sum();
            let active = &mut self.flows[flow];
            if active.queue.is_empty() && waits <= self.mtu {
                self.priority.push_back((flow, id, bytes));
                return;
            }
            if active.queue.is_empty() {
                active.deficit = 0;
                self.list.push_back(Some(flow));
            }
            active.queue.push_back((id, bytes));
        }

        fn dequeue(&mut self, turn: &mut bool) -> Option<u64> {
            match self.priority.pop_front() {
                Some((_, id, _)) => Some(id),
                None => self.round_robin(turn),
            }
        }

        fn round_robin(&mut self, turn: &mut bool) -> Option<u64> {
            if self.list.len() == 1 {
                return None;
            }
            loop {
                let Some(flow) = self.list[0] else {
                    self.fair += self.quantum;
                    self.list.rotate_left(1);
                    continue;
                };
                let active = &mut self.flows[flow];
                if !std::mem::replace(turn, true) {
                    active.deficit += self.quantum;
                }
                let (id, bytes) = active.queue[0];
                if bytes <= active.deficit {
                    active.deficit -= bytes;
                    active.queue.pop_front();
                    if active.queue.is_empty() {
                        self.list.pop_front();
                        *turn = false;
                    }
                    return Some(id);
                }
                *turn = false;
                self.list.rotate_left(1);
            }
        }
    }

    proptest! {
        #[test]
        fn schedules_as_the_paper(
            quantum in 256_u64..4000,
            mtu in 64_u64..4000,
            calls in prop::collection::vec((0_u8..9, 0_usize..6, 1_u32..1600), 0..400),
        ) {
            let mut rig = Rig::new(6);
            let mut pdrr = pdrr(params(quantum, mtu, 1000));
            let mut reference = Reference {
                quantum,
                mtu,
                priority: VecDeque::new(),
                flows: vec![Active::default(); 6],
                list: VecDeque::from([None]),
                fair: 0,
            };
            let mut turn = false;
            for (call, flow, bytes) in calls {
                if call < 5 {
                    let id = rig.next_id();
                    rig.offer(&mut pdrr, flow, bytes);
                    reference.enqueue(flow, id, bytes.into());
                } else {
                    prop_assert_eq!(rig.take(&mut pdrr).map(|p| p.id), reference.dequeue(&mut turn));
                }
                prop_assert_eq!(gauge(&pdrr, "active_elastic"), reference.list.len() as u64 - 1);
                prop_assert_eq!(gauge(&pdrr, "priority_packets"), reference.priority.len() as u64);
                prop_assert_eq!(pdrr.sums(rig.now).fair_bytes, reference.fair as f64);
            }
        }
    }
}
