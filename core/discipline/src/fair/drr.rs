//! Deficit round robin: each flow in turn sends a quantum of bytes, and keeps the part that it did not use.
//!
//! ```text
//!  flow hash --+-> [ | | ]   deficit 200  --+
//!              +-> [ ]       deficit 0      +--> round robin --> link
//!              +-> [ | | | ] deficit 1400 --+
//! ```
//!
//! Source: Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round Robin",
//! SIGCOMM 1995, section 3.

use std::collections::VecDeque;

use weir_base::gauge::{Gauge, Unit};
use weir_base::{Instant, Streams};
use weir_packet::{KeyKind, Packet};

use crate::contract::{Cx, Manual};
use crate::fair::fair_queue::{FairQueue, Layout, Queues, Sharing};
use crate::fifo::LIMIT;
use crate::params::{Parameters, params};
use crate::parts::bins::{BUCKETS, KEY, QUANTUM};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "drr",
    id: 0x00F7_0205,
    purpose: "deficit round robin: equal bytes for each flow",
    source: "Shreedhar and Varghese, SIGCOMM 1995, section 3",
    text: "\
Flows are hashed to queues. The queues with packets take turns: a turn adds the quantum to the queue's
deficit, and the queue sends while its head packet fits the deficit. The remainder is kept for the next
turn; a queue that runs empty loses it. A packet costs constant time if the quantum is at least a full
frame, otherwise up to (frame / quantum) turns of all queues.

    flow hash --+-> [ | | ]   deficit 200  --+
                +-> [ ]       deficit 0      +--> round robin --> link
                +-> [ | | | ] deficit 1400 --+

When the limit is reached, the longest queue (by bytes) loses its head packet.

Defaults. A quantum of one full frame lets each queue send at least one packet in a turn. 1024 queues are
as many as in Linux's fq_codel: among 38 simultaneously active flows, two share a queue with a probability
of one half. The limit is that of `fifo`, for all queues together.

Deviations: the longest queue loses its oldest packet, not its latest, because the sender notices the loss
sooner. After a change of `key` or `buckets` the queued packets leave before all others, so that a flow
stays in order.

An attacker with one flow gets one share. With as many flows as there are queues it gets nearly everything:
fairness among flows is not fairness among people. `key = \"source\"` counts senders, if their addresses can
be trusted. An attacker cannot aim at a bucket: the hash is keyed.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "longest_flow", Unit::Packets, "packets dropped from the longest queue to make room"),
        Gauge::level(102, "active", Unit::One, "queues that hold packets or wait for a turn"),
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
        /// Bytes that a turn adds.
        pub quantum_bytes: u64 = QUANTUM.id(3),
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(4),
    }
}

/// One queue's share.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Bytes that it may still send in this turn.
    deficit: u64,
    /// Whether it is in the round.
    active: bool,
}

/// Deficit round robin over hashed queues.
pub(crate) type Drr = FairQueue<Round>;

/// The shares of the queues, and their round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    shares: Vec<Share>,
    /// Active queues; the first one has the turn, and has its quantum.
    round: VecDeque<u32>,
}

impl Round {
    fn leave(&mut self) {
        if let Some(bin) = self.round.pop_front() {
            self.shares[bin as usize] = Share::default();
        }
    }
}

impl Sharing for Round {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    #[inline]
    fn layout(params: &Params) -> Layout {
        Layout {
            bins: params.buckets,
            key: Some(params.key),
            limit: params.limit,
        }
    }

    fn new(_params: &Params, _now: Instant, _streams: &Streams) -> Self {
        Self::default()
    }

    fn renew(&mut self, bins: usize) {
        self.shares = vec![Share::default(); bins];
        self.round = VecDeque::with_capacity(bins);
    }

    #[inline]
    fn touch(&self, bin: usize) {
        std::hint::black_box(self.shares[bin].active);
    }

    #[inline]
    fn enter(&mut self, queues: &Queues<Params>, _cx: &Cx<'_>, _packet: &Packet, bin: usize) {
        let share = &mut self.shares[bin];
        if !share.active {
            *share = Share {
                deficit: queues.params.quantum_bytes,
                active: true,
            };
            self.round.push_back(bin as u32);
        }
    }

    #[inline]
    fn next(&mut self, queues: &mut Queues<Params>, _now: Instant) -> Option<Packet> {
        // Each step ends a turn; a packet needs at most (its length / quantum) turns of its queue.
        while let Some(&bin) = self.round.front() {
            let share = &mut self.shares[bin as usize];
            match queues.bins.front_bytes(bin as usize) {
                Some(bytes) if bytes <= share.deficit => {
                    share.deficit -= bytes;
                    let packet = queues.bins.pop(bin as usize);
                    if queues.bins.is_empty(bin as usize) {
                        self.leave();
                    }
                    return packet;
                }
                Some(_) => {
                    share.deficit += queues.params.quantum_bytes;
                    self.round.rotate_left(1);
                }
                None => self.leave(), // its last packet was dropped to make room
            }
        }
        None
    }

    fn heap_bytes(&self, _params: &Params) -> usize {
        self.shares.capacity() * size_of::<Share>() + self.round.capacity() * size_of::<u32>()
    }

    fn inspect(&self, queues: &Queues<Params>, report: &mut dyn FnMut(&'static str, u64)) {
        report("longest_flow", queues.longest_flow);
        report("active", self.round.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Admission;
    use crate::rig::{Rig, built};
    use proptest::prelude::*;

    fn params(quantum_bytes: u64) -> Params {
        Params {
            key: KeyKind::Flow,
            buckets: 64,
            quantum_bytes,
            limit: 50,
        }
    }

    #[test]
    fn deficits_by_hand() {
        // Quantum 500. Flow 0 queues 200, 750, 20, 500; flow 1 queues 500, 500.
        // Turn 1 of flow 0: deficit 500, sends 200, 300 left: 750 does not fit.
        // Turn 1 of flow 1: deficit 500, sends 500, 0 left.
        // Turn 2 of flow 0: deficit 800, sends 750 and 20, 30 left: 500 does not fit.
        // Turn 2 of flow 1: sends 500 and leaves. Turn 3 of flow 0: deficit 530, sends 500.
        let mut rig = Rig::new(2);
        let mut drr: Drr = built(params(500));
        for (flow, bytes) in [(0, 200), (0, 750), (1, 500), (0, 20), (0, 500), (1, 500)] {
            rig.offer(&mut drr, flow, bytes);
        }
        let sent: Vec<_> = std::iter::from_fn(|| rig.take(&mut drr)).collect();
        let lengths: Vec<_> = sent.iter().map(|p| p.len).collect();
        assert_eq!(lengths, [200, 500, 750, 20, 500, 500]);
    }

    #[test]
    fn the_longest_queue_makes_room() {
        let mut rig = Rig::new(2);
        let mut drr: Drr = built(Params {
            limit: 3,
            ..params(1514)
        });
        for (flow, bytes) in [(0, 1000), (0, 1000), (1, 500), (1, 100)] {
            assert_eq!(rig.offer(&mut drr, flow, bytes), Admission::Queued);
        }
        // The oldest packet (id 0) of flow 0 was dropped.
        let sent: Vec<_> = std::iter::from_fn(|| rig.take(&mut drr)).collect();
        let ids: Vec<_> = sent.iter().map(|p| p.id).collect();
        assert_eq!(ids, [1, 2, 3]);
    }

    /// The paper's Figure 2, word for word, with a queue for each flow.
    #[derive(Default)]
    struct Reference {
        queues: Vec<(VecDeque<(u64, u64)>, u64)>,
        round: VecDeque<usize>,
        turn: bool,
    }

    impl Reference {
        fn enqueue(&mut self, flow: usize, id: u64, bytes: u64) {
            if !self.round.contains(&flow) {
                self.round.push_back(flow);
                self.queues[flow].1 = 0;
            }
            self.queues[flow].0.push_back((id, bytes));
        }

        fn dequeue(&mut self, quantum: u64) -> Option<u64> {
            loop {
                let flow = *self.round.front()?;
                let (queue, deficit) = &mut self.queues[flow];
                if !self.turn {
                    *deficit += quantum;
                    self.turn = true;
                }
                let (id, bytes) = *queue.front()?;
                if bytes <= *deficit {
                    *deficit -= bytes;
                    queue.pop_front();
                    if queue.is_empty() {
                        self.round.pop_front();
                        self.turn = false;
                    }
                    return Some(id);
                }
                self.turn = false;
                self.round.rotate_left(1);
            }
        }
    }

    proptest! {
        #[test]
        fn schedules_as_the_paper(calls in prop::collection::vec((any::<bool>(), 0_usize..6, 1_u32..3000), 0..300), quantum in 256_u64..4000) {
            let mut rig = Rig::apart(6, 64);
            let mut drr: Drr = built(Params { limit: 1000, ..params(quantum) });
            let mut reference = Reference { queues: vec![Default::default(); 6], ..Default::default() };
            for (arrival, flow, bytes) in calls {
                if arrival {
                    let id = rig.next_id();
                    rig.offer(&mut drr, flow, bytes);
                    reference.enqueue(flow, id, bytes.into());
                } else {
                    prop_assert_eq!(rig.take(&mut drr).map(|p| p.id), reference.dequeue(quantum));
                }
            }
        }
    }
}
