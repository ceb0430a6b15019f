//! FQ-CoDel: flow queues under deficit round robin, new flows first, CoDel in each queue.
//!
//! ```text
//!  flow hash --+-> [ | | ] CoDel --+--> new flows --+
//!              +-> [ ]     CoDel --+                +--> link     old ones when no new one is left
//!              +-> [ | | ] CoDel --+--> old flows --+
//! ```
//!
//! Source: RFC 8290.

use std::collections::VecDeque;

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError};
use weir_base::{Instant, Streams};
use weir_packet::{KeyKind, Packet};

use crate::aqm::codel::{self, Control, ECN, INTERVAL, TARGET};
use crate::contract::{Cx, Manual};
use crate::fair::fair_queue::{FairQueue, Layout, Queues, Sharing};
use crate::params::{Parameters, params};
use crate::parts::bins::{Bins, KEY, QUANTUM};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "fq_codel",
    id: 0x00F7_0208,
    purpose: "flow queues with controlled delay, new flows first",
    source: "RFC 8290; Linux sch_fq_codel",
    text: "\
Flows are hashed to queues, and each queue is under CoDel. A queue that was idle enters the list of new
flows, which is served before the list of old flows; when its quantum is used up, it moves to the end of
the old flows. So a flow that sends less than a quantum per round waits for nobody.

    flow hash --+-> [ | | ] CoDel --+--> new flows --+
                +-> [ ]     CoDel --+                +--> link
                +-> [ | | ] CoDel --+--> old flows --+

When the limit is reached, the longest queue loses up to `drop_batch` packets from its head, but at most
half of its packets.

Defaults. All of them are RFC 8290's, section 5.2. The limit is for all queues together: an unresponsive
flood fills it, with 1.3 s of full frames at 100 Mbit/s, and waits in it itself.

Deviations: the longest queue is found in constant time, to the nearest 256 bytes, where Linux scans all
queues. CoDel's test whether a full frame is left uses the flow's own queue (our reading of RFC 8289),
where Linux uses the sum of all. After a change of `key` or `flows` the queued packets leave before all
others, without AQM, so that a flow stays in order.

An attacker with one flow gets one share and its own delay. With as many flows as queues it gets nearly
everything; with a new flow for each packet it is always a new flow, and goes first: `key = \"source\"` helps
if addresses can be trusted, `lru_fq` if they cannot.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "longest_flow", Unit::Packets, "packets dropped from the longest queue to make room"),
        Gauge::counter(102, "dropped", Unit::Packets, "packets dropped by the control law"),
        Gauge::counter(103, "marked", Unit::Packets, "packets marked by the control law"),
        Gauge::counter(104, "new_flows", Unit::One, "number of times that an idle queue became a new flow"),
        Gauge::level(105, "new_now", Unit::One, "queues in the list of new flows"),
        Gauge::level(106, "old_now", Unit::One, "queues in the list of old flows"),
    ],
};

/// The `flows` parameter.
pub(crate) const FLOWS: Parameter = Parameter::new(
    "flows",
    Kind::Count(1, 65536),
    "1024",
    "queues that flows are hashed to",
);

/// The `limit` parameter of disciplines whose control law keeps the queues short.
pub(crate) const LIMIT: Parameter = Parameter::new(
    "limit",
    Kind::Count(1, 1_000_000),
    "10240 packets",
    "maximum packets held",
);

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// The part of a flow key that identifies a flow.
        pub key: KeyKind = KEY.id(1),
        /// Queues that flows are hashed to.
        pub flows: usize = FLOWS.id(2),
        /// The control law of each queue.
        pub control: Control => [TARGET.id(3), INTERVAL.id(4), ECN.id(5)],
        /// Bytes that a queue may send in one round.
        pub quantum_bytes: u64 = QUANTUM.id(6),
        /// Maximum packets that the longest queue loses when the limit is reached.
        pub drop_batch: u64 = Parameter::new("drop_batch", Kind::Count(1, 1024), "64 packets",
            "maximum packets that the longest queue loses when the limit is reached").id(7),
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(8),
    }
}

/// Counters of the queues.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    new_flows: u64,
    control: codel::Stats,
}

/// One queue's state.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Bytes that it may still send in this round; negative if the last packet was longer.
    credit: i64,
    /// Whether it is in one of the two lists.
    listed: bool,
    codel: codel::State,
}

/// Flow queues with controlled delay.
pub(crate) type FqCodel = FairQueue<NewAndOld>;

/// The states of the queues, and the two lists.
#[derive(Debug, Default)]
pub(crate) struct NewAndOld {
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    bytes_max: u64,
    stats: Stats,
}

/// One bin, as the control law sees it.
pub(crate) struct One<'a>(pub(crate) &'a mut Bins, pub(crate) usize);

impl codel::Source for One<'_> {
    fn pop(&mut self) -> Option<Packet> {
        self.0.pop(self.1)
    }

    fn bytes(&self) -> u64 {
        self.0.tally(self.1).bytes
    }
}

impl NewAndOld {
    /// Takes the next packet of the lists; `take` takes it from the bin that has the turn.
    #[inline]
    fn step(
        &mut self,
        queues: &mut Queues<Params>,
        mut take: impl FnMut(&mut Self, &mut Queues<Params>, usize) -> Option<Packet>,
    ) -> Option<Packet> {
        // Each step takes a packet, uses up a turn, or finds an empty queue, which then leaves the lists.
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let bin = *list.front()?;
            let flow = &mut self.flows[bin as usize];
            if flow.credit <= 0 {
                flow.credit += queues.params.quantum_bytes as i64;
                list.pop_front();
                self.old.push_back(bin);
                continue;
            }
            if let Some(packet) = take(self, queues, bin as usize) {
                self.flows[bin as usize].credit -= packet.bytes() as i64;
                return Some(packet);
            }
            if is_new {
                self.new.pop_front();
                if !self.old.is_empty() {
                    // An empty new queue moves to the old queues: otherwise it could be new again at once, and starve
                    // them.
                    self.old.push_back(bin);
                    continue;
                }
            } else {
                self.old.pop_front();
            }
            self.flows[bin as usize].listed = false;
        }
    }
}

impl Sharing for NewAndOld {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn check(params: &Params) -> Result<(), SettingError> {
        params.control.check()
    }

    #[inline]
    fn layout(params: &Params) -> Layout {
        Layout {
            bins: params.flows,
            key: Some(params.key),
            limit: params.limit,
        }
    }

    fn new(_params: &Params, _now: Instant, _streams: &Streams) -> Self {
        Self::default()
    }

    fn renew(&mut self, bins: usize) {
        self.flows = vec![Flow::default(); bins];
        self.new = VecDeque::with_capacity(bins);
        self.old = VecDeque::with_capacity(bins);
    }

    #[inline]
    fn touch(&self, bin: usize) {
        std::hint::black_box(self.flows[bin].listed);
    }

    #[inline]
    fn enter(&mut self, queues: &Queues<Params>, _cx: &Cx<'_>, packet: &Packet, bin: usize) {
        self.bytes_max = self.bytes_max.max(packet.bytes());
        let flow = &mut self.flows[bin];
        if !flow.listed {
            flow.listed = true;
            flow.credit = queues.params.quantum_bytes as i64;
            self.stats.new_flows += 1;
            self.new.push_back(bin as u32);
        }
    }

    /// At most half of the packets of the longest queue.
    fn batch(queues: &Queues<Params>, longest: usize) -> u64 {
        let half = queues.bins.tally(longest).packets / 2;
        half.clamp(1, queues.params.drop_batch)
    }

    fn next(&mut self, queues: &mut Queues<Params>, _now: Instant) -> Option<Packet> {
        self.step(queues, |_, queues, bin| queues.bins.pop(bin))
    }

    #[inline]
    fn dequeue(&mut self, queues: &mut Queues<Params>, cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(queues, |this, queues, bin| {
            cx.heavy = this.new.is_empty();
            codel::dequeue(
                &mut this.flows[bin].codel,
                &queues.params.control,
                cx,
                &mut One(&mut queues.bins, bin),
                this.bytes_max,
                &mut this.stats.control,
            )
        })
    }

    fn heap_bytes(&self, _params: &Params) -> usize {
        self.flows.capacity() * size_of::<Flow>()
            + (self.new.capacity() + self.old.capacity()) * size_of::<u32>()
    }

    fn inspect(&self, queues: &Queues<Params>, report: &mut dyn FnMut(&'static str, u64)) {
        report("longest_flow", queues.longest_flow);
        report("dropped", self.stats.control.dropped);
        report("marked", self.stats.control.marked);
        report("new_flows", self.stats.new_flows);
        report("new_now", self.new.len() as u64);
        report("old_now", self.old.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Discipline;
    use crate::rig::{Rig, built};
    use proptest::prelude::*;
    use weir_base::{Span, Tally};
    use weir_packet::Reason;

    fn params() -> Params {
        Params {
            key: KeyKind::Flow,
            flows: 64,
            control: Control {
                target: Span::from_secs(1),
                interval: Span::from_secs(2),
                ecn: false,
            },
            quantum_bytes: 1514,
            drop_batch: 64,
            limit: 10_000,
        }
    }

    fn sent(rig: &mut Rig, fq: &mut FqCodel, most: usize) -> Vec<u64> {
        let packets = std::iter::from_fn(|| rig.take(fq)).take(most);
        packets.map(|p| p.id).collect()
    }

    #[test]
    fn a_new_flow_goes_first_once() {
        // Flow 0 sends 0, 1, 2, 3 of 1000 B: new at first. 0 leaves 514 of its quantum, 1 leaves
        // -486: it becomes old with 1028. Flow 1 comes (4, 5, 6): new, sends 4 and 5, becomes old.
        // Flow 0 sends 2 and 3 (credit 28 before 3), and is found empty; flow 1 sends 6.
        let mut rig = Rig::apart(2, 64);
        let mut fq: FqCodel = built(params());
        for _ in 0..4 {
            rig.offer(&mut fq, 0, 1000);
        }
        assert_eq!(sent(&mut rig, &mut fq, 2), [0, 1]);
        for _ in 0..3 {
            rig.offer(&mut fq, 1, 1000);
        }
        assert_eq!(sent(&mut rig, &mut fq, 9), [4, 5, 2, 3, 6]);
    }

    #[test]
    fn the_longest_flow_loses_half_but_not_more_than_a_batch() {
        let mut rig = Rig::apart(2, 64);
        let mut fq: FqCodel = built(Params {
            limit: 10,
            drop_batch: 3,
            ..params()
        });
        for _ in 0..8 {
            rig.offer(&mut fq, 0, 1000);
        }
        for _ in 0..3 {
            rig.offer(&mut fq, 1, 1000);
        }
        assert_eq!(
            rig.fates.ended(Reason::LongestFlow),
            Tally {
                packets: 3,
                bytes: 3000
            }
        );
        let mut left = sent(&mut rig, &mut fq, 99);
        left.sort_unstable();
        assert_eq!(left, [3, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn each_queue_has_its_own_control() {
        // Flow 0 keeps 40 packets waiting, flow 1 sends one from time to time: only flow 0 loses packets.
        let mut rig = Rig::apart(2, 64);
        let control = Control {
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            ecn: false,
        };
        let mut fq: FqCodel = built(Params {
            control,
            ..params()
        });
        for _ in 0..40 {
            rig.offer(&mut fq, 0, 1000);
        }
        let mut mice = 0;
        for ms in 1..2000 {
            rig.now = Instant::from_nanos(ms * 1_000_000);
            rig.offer(&mut fq, 0, 1000);
            if ms % 10 == 0 {
                rig.offer(&mut fq, 1, 100);
            }
            mice += u32::from(rig.take(&mut fq).is_some_and(|p| p.len == 100));
        }
        assert!(rig.fates.ended(Reason::Congestion).packets > 10);
        assert_eq!(mice, 199);
    }

    /// The lists of RFC 8290, section 4.2, with a queue for each flow and without CoDel.
    #[derive(Default)]
    struct Reference {
        queues: Vec<(VecDeque<(u64, i64)>, i64)>,
        new: Vec<usize>,
        old: Vec<usize>,
    }

    impl Reference {
        fn enqueue(&mut self, flow: usize, id: u64, bytes: i64, quantum: i64) {
            self.queues[flow].0.push_back((id, bytes));
            if !self.new.contains(&flow) && !self.old.contains(&flow) {
                self.queues[flow].1 = quantum;
                self.new.push(flow);
            }
        }

        fn dequeue(&mut self, quantum: i64) -> Option<u64> {
            loop {
                let from_new = !self.new.is_empty();
                let list = if from_new {
                    &mut self.new
                } else {
                    &mut self.old
                };
                let flow = *list.first()?;
                if self.queues[flow].1 <= 0 {
                    self.queues[flow].1 += quantum;
                    list.remove(0);
                    self.old.push(flow);
                } else if let Some((id, bytes)) = self.queues[flow].0.pop_front() {
                    self.queues[flow].1 -= bytes;
                    return Some(id);
                } else {
                    list.remove(0);
                    if from_new && !self.old.is_empty() {
                        self.old.push(flow);
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn schedules_as_the_rfc(calls in prop::collection::vec((any::<bool>(), 0_usize..6, 1_u32..3000), 0..300), quantum in 256_u64..4000) {
            let mut rig = Rig::apart(6, 64);
            let mut fq : FqCodel = built(Params { quantum_bytes: quantum, ..params() });
            let mut reference = Reference { queues: vec![Default::default(); 6], ..Default::default() };
            for (arrival, flow, bytes) in calls {
                if arrival {
                    let id = rig.next_id();
                    rig.offer(&mut fq, flow, bytes);
                    reference.enqueue(flow, id, bytes.into(), quantum as i64);
                } else if fq.backlog().packets > 0 {
                    let expected = reference.dequeue(quantum as i64);
                    prop_assert_eq!(rig.take(&mut fq).map(|p| p.id), expected);
                }
            }
        }
    }
}
