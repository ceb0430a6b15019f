//! The flows of PFQ and PDRR: recent flows with a queue for each, and one priority queue in front.
//!
//! ```text
//!                    [ priority | | ]  first
//!  flow hash -->
//!                    flow 3 [ | | ]    flow 8 [ | ]     own queues, in the order of their turns
//!
//!  lists:  idle (replaceable)  8 <-> 2     light (priority only)  5     in turn  3 <-> 7
//! ```
//!
//! A flow without packets is remembered until a new one takes its place, so that its recent service still
//! counts. There are as many places as packets, so a place is always available for a new flow.

use std::collections::VecDeque;
use std::hint::black_box;

use weir_base::Tally;
use weir_packet::{KeyKind, Packet, Reason};

use crate::admission::scheduler::{self, ELASTIC, PRIORITY};
use crate::admission::urn::Waiting;
use crate::contract::Cx;
use crate::parts::bins::{Bins, Measure};
use crate::parts::lru::Lru;
use crate::waiting::{self, REPORTS_MAX, Service};

/// The list of flows without packets, ordered by their latest packet.
const IDLE: usize = 0;
/// The list of flows that have priority packets only.
const LIGHT: usize = 1;
/// The list of flows with packets in their own queues, in the order of their turns.
const IN_TURN: usize = 2;

/// The flows. `S` is the scheduler's state of each flow.
#[derive(Debug)]
pub(crate) struct ActiveFlows<S> {
    flows: Lru<Flow<S>, 3>,
    own: Bins,
    priority: VecDeque<Waiting>,
    priority_held: Tally,
    active: u64,
    active_own: u64,
    stats: Stats,
}

/// Counters of the queues.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    longest_flow: u64,
    full: u64,
    to_priority: u64,
    to_elastic: u64,
    priority_bytes: u64,
}

#[derive(Debug)]
struct Flow<S> {
    /// The flow's waiting packets and bytes, in both queues together.
    queued: Tally,
    state: S,
}

impl<S> ActiveFlows<S> {
    /// No flows, with room for `limit` packets, which is allocated now.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            flows: Lru::new(limit),
            own: Bins::new(limit, limit, Measure::Bytes),
            priority: VecDeque::with_capacity(limit),
            priority_held: Tally::ZERO,
            active: 0,
            active_own: 0,
            stats: Stats::default(),
        }
    }

    /// Ensures room for `limit` packets in total.
    pub(crate) fn reserve(&mut self, limit: usize) {
        self.flows.reserve(limit);
        self.own.reserve(limit);
        self.own.reserve_bins(limit);
        let more = limit.saturating_sub(self.priority.len());
        self.priority.reserve(more);
    }

    /// Packets and bytes held in total.
    #[inline]
    pub(crate) fn held(&self) -> Tally {
        self.priority_held + self.own.held()
    }

    /// Bytes that have arrived for the priority queue since the beginning.
    pub(crate) fn priority_bytes(&self) -> u64 {
        self.stats.priority_bytes
    }

    /// Bytes waiting of the flow with this hash.
    pub(crate) fn bytes_of(&self, hash: u64) -> u64 {
        let flow = self.flows.find(hash);
        flow.map_or(0, |flow| self.bytes(flow))
    }

    /// Loads the memory that a packet of the flow with this hash will need.
    #[inline]
    pub(crate) fn touch(&self, hash: u64) {
        self.flows.touch(hash);
        if let Some(flow) = self.flows.find(hash) {
            black_box(self.flows.get(flow).queued);
            self.own.touch(flow);
        }
    }

    /// The flow with this hash; there must be room for a packet. An unknown flow takes the place of the
    /// flow that has been idle for longest, and begins with `state`.
    #[inline]
    pub(crate) fn flow(&mut self, hash: u64, state: S) -> usize {
        if let Some(flow) = self.flows.find(hash) {
            return flow;
        }
        let new = Flow {
            queued: Tally::ZERO,
            state,
        };
        match self.flows.insert(hash, new, IDLE) {
            Ok(flow) => flow,
            Err(new) => match self.flows.bottom(IDLE) {
                Some(idle) => {
                    self.flows.replace(idle, hash, new, IDLE);
                    idle
                }
                None => {
                    unreachable!("each flow that is not idle has one of fewer packets than flows")
                }
            },
        }
    }

    /// The scheduler's state of a flow.
    #[inline]
    pub(crate) fn state(&mut self, flow: usize) -> &mut S {
        &mut self.flows.get_mut(flow).state
    }

    /// Bytes waiting of a flow.
    #[inline]
    pub(crate) fn bytes(&self, flow: usize) -> u64 {
        self.flows.get(flow).queued.bytes
    }

    /// Whether a flow's own queue is empty.
    #[inline]
    pub(crate) fn own_is_empty(&self, flow: usize) -> bool {
        self.own.is_empty(flow)
    }

    /// The length of the packet at the head of a flow's own queue.
    #[inline]
    pub(crate) fn front_bytes(&self, flow: usize) -> Option<u64> {
        self.own.front_bytes(flow)
    }

    /// The flow whose turn it is.
    #[inline]
    pub(crate) fn turn(&self) -> Option<usize> {
        self.flows.bottom(IN_TURN)
    }

    /// Ends the turn of a flow, which moves to the last place.
    pub(crate) fn end_turn(&mut self, flow: usize) {
        self.flows.raise(flow, IN_TURN);
    }

    /// Queues a packet for priority.
    #[inline]
    pub(crate) fn push_priority(&mut self, flow: usize, mut packet: Packet) {
        packet.class = PRIORITY;
        let queued = &mut self.flows.get_mut(flow).queued;
        queued.count(packet.bytes());
        if queued.packets == 1 {
            self.active += 1;
            self.flows.raise(flow, LIGHT);
        }
        self.stats.to_priority += 1;
        self.stats.priority_bytes += packet.bytes();
        self.priority_held.count(packet.bytes());
        self.priority.push_back(Waiting {
            flow: flow as u32,
            packet,
        });
    }

    /// Queues a packet in its flow's own queue; if that was empty, it gets the last turn.
    #[inline]
    pub(crate) fn push_own(&mut self, flow: usize, mut packet: Packet) {
        packet.class = ELASTIC;
        let queued = &mut self.flows.get_mut(flow).queued;
        queued.count(packet.bytes());
        self.active += u64::from(queued.packets == 1);
        if self.own.is_empty(flow) {
            self.active_own += 1;
            self.flows.raise(flow, IN_TURN);
        }
        self.stats.to_elastic += 1;
        self.own.push(flow, packet);
    }

    /// Takes the packet at the head of the priority queue.
    #[inline]
    pub(crate) fn pop_priority(&mut self) -> Option<Packet> {
        let Waiting { flow, packet } = self.priority.pop_front()?;
        self.priority_held.uncount(packet.bytes());
        let queued = &mut self.flows.get_mut(flow as usize).queued;
        queued.uncount(packet.bytes());
        if queued.packets == 0 {
            self.active -= 1;
            self.flows.raise(flow as usize, IDLE);
        }
        Some(packet)
    }

    /// Takes the packet at the head of a flow's own queue.
    #[inline]
    pub(crate) fn pop_own(&mut self, flow: usize) -> Option<Packet> {
        let packet = self.own.pop(flow)?;
        let queued = &mut self.flows.get_mut(flow).queued;
        queued.uncount(packet.bytes());
        if self.own.is_empty(flow) {
            let idle = queued.packets == 0;
            self.active -= u64::from(idle);
            self.active_own -= 1;
            self.flows.raise(flow, if idle { IDLE } else { LIGHT });
        }
        Some(packet)
    }

    /// Drops the packet at the head of the longest own queue, and returns its flow; `None` if all are empty.
    pub(crate) fn make_room(&mut self, cx: &mut Cx<'_>) -> Option<usize> {
        let Some(flow) = self.own.longest() else {
            self.stats.full += 1;
            return None;
        };
        let packet = self.pop_own(flow)?;
        self.stats.longest_flow += 1;
        cx.fates.discard(packet, Reason::LongestFlow);
        Some(flow)
    }

    /// Reports the priority queue, and the flows that take turns behind it.
    pub(crate) fn report_waiting(&self, report: &mut dyn FnMut(waiting::Waiting<'_>)) {
        scheduler::report_priority(&self.priority, report);
        for flow in self.flows.upwards(IN_TURN).take(REPORTS_MAX / 2) {
            if let Some(first) = self.own.front(flow) {
                report(waiting::Waiting {
                    first,
                    held: self.own.tally(flow),
                    common: Some(KeyKind::Flow),
                    service: Service::EVEN,
                });
            }
        }
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        self.flows.state_bytes()
            + self.own.state_bytes()
            + self.priority.capacity() * size_of::<Waiting>()
    }

    /// The gauges of the counters.
    pub(crate) fn inspect_counts(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("longest_flow", self.stats.longest_flow);
        report("full", self.stats.full);
        report("to_priority", self.stats.to_priority);
        report("to_elastic", self.stats.to_elastic);
    }

    /// The gauges of the waiting packets.
    pub(crate) fn inspect_backlogs(&self, report: &mut dyn FnMut(&'static str, u64)) {
        let backlogs = scheduler::Backlogs {
            priority: self.priority_held,
            elastic: self.own.held(),
            active: self.active,
            active_elastic: self.active_own,
        };
        backlogs.inspect(report);
    }
}
