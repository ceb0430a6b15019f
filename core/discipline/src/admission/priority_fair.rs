//! A priority fair queue: packets of streaming flows go first, and a rule shares the rest of the link between elastic
//! flows.
//!
//! ```text
//!                at most one mtu of the flow waits
//!  arrivals --+------------------------------------> [ priority ]     --first--+--> link
//!             +--> [ flow 3 ] [ flow 8 ] [ flow 2 ]  Elastic::next    --then---+
//! ```
//!
//! This is the common part of `pfq` and `pdrr`; an [`Elastic`] is what distinguishes them.

use weir_base::setting::SettingError;
use weir_base::{Instant, Rate, Streams, Tally};
use weir_packet::{Class, KeyKind, Packet, Reason};

use crate::admission::active::ActiveFlows;
use crate::admission::scheduler::{Idle, MTU, Scheduler, Sums};
use crate::contract::{Admission, Configured, Cx, Discipline, Manual};
use crate::fifo::LIMIT;
use crate::params::{Parameters, params};
use crate::parts::link_rate::{LinkRate, RATE};
use crate::waiting::Waiting;

params! {
    /// The common parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Common {
        /// Bytes that a streaming flow may have waiting.
        pub mtu_bytes: u64 = MTU.id(1),
        /// Rate of the link; zero to use the port's.
        pub rate: Rate = RATE.id(2),
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(3),
    }
}

/// The queue for an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The priority queue: its flow is a streaming flow.
    Streaming,
    /// The flow's own queue, which is empty.
    First,
    /// The flow's own queue, behind other packets.
    Behind,
}

/// How elastic flows share the link.
pub(crate) trait Elastic: Sized + Send + 'static {
    /// The parameters.
    type Params: Parameters;
    /// The state of each flow.
    type Flow: Send;
    /// The manual page.
    const MANUAL: Manual;

    /// The common parameters among them.
    fn common(params: &Self::Params) -> &Common;

    /// The state before the first packet, with room for `limit` flows, which is allocated now.
    fn new(limit: usize) -> Self;

    /// Ensures room for `limit` flows.
    fn reserve(&mut self, _limit: usize) {}

    /// The state of a new flow.
    fn fresh(&self) -> Self::Flow;

    /// Called before a packet of this flow is queued.
    fn arrive(
        &mut self,
        params: &Self::Params,
        flows: &mut ActiveFlows<Self::Flow>,
        flow: usize,
        bytes: u64,
        arrival: Arrival,
    );

    /// Takes the next elastic packet.
    fn next(
        &mut self,
        params: &Self::Params,
        flows: &mut ActiveFlows<Self::Flow>,
    ) -> Option<Packet>;

    /// Called when the last packet of a flow's own queue was dropped to make room.
    fn emptied(&mut self, _flow: usize) {}

    /// Called when the last packet has left.
    fn settle(&mut self) {}

    /// Bytes that a flow with packets waiting at all times would have been served.
    fn fair_bytes(&self) -> u64;

    /// The gauge that only this scheduler has: its name and value.
    fn gauge(&self) -> (&'static str, u64);

    /// Bytes of memory allocated besides the flows.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Streaming flows first, then elastic flows.
#[derive(Debug)]
pub(crate) struct PriorityFair<E: Elastic> {
    params: E::Params,
    link_rate: LinkRate,
    flows: ActiveFlows<E::Flow>,
    elastic: E,
    idle: Idle,
}

impl<E: Elastic> PriorityFair<E> {
    /// Empty queues at `now`.
    pub(crate) fn new(params: E::Params, now: Instant) -> Self {
        let &Common { rate, limit, .. } = E::common(&params);
        let link_rate = LinkRate::of(rate);
        Self {
            link_rate,
            flows: ActiveFlows::new(limit),
            elastic: E::new(limit),
            idle: Idle::new(now, link_rate.get()),
            params,
        }
    }

    /// Makes room for one packet, if an elastic packet can be dropped.
    fn make_room(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(flow) = self.flows.make_room(cx) else {
            return false;
        };
        if self.flows.own_is_empty(flow) {
            self.elastic.emptied(flow);
        }
        true
    }

    fn next(&mut self) -> Option<Packet> {
        match self.flows.pop_priority() {
            Some(packet) => Some(packet),
            None => self.elastic.next(&self.params, &mut self.flows),
        }
    }
}

impl<E: Elastic> Scheduler for PriorityFair<E> {
    fn queued_bytes(&self, flow: u64) -> u64 {
        self.flows.bytes_of(flow)
    }

    fn sums(&self, now: Instant) -> Sums {
        Sums {
            priority_bytes: self.flows.priority_bytes(),
            fair_bytes: self.elastic.fair_bytes() as f64,
            idle: self.idle.until(now),
        }
    }
}

impl<E: Elastic> Configured for PriorityFair<E> {
    type Params = E::Params;
    const MANUAL: Manual = E::MANUAL;

    fn limit(params: &E::Params) -> Result<usize, SettingError> {
        Ok(E::common(params).limit)
    }

    fn build(params: E::Params, now: Instant, _streams: &Streams) -> Self {
        Self::new(params, now)
    }

    fn change(&mut self, params: E::Params, _now: Instant) {
        let &Common { rate, limit, .. } = E::common(&params);
        self.flows.reserve(limit);
        self.elastic.reserve(limit);
        self.link_rate.given = rate;
        self.params = params;
        self.idle.set_rate(self.link_rate.get());
    }
}

impl<E: Elastic> Discipline for PriorityFair<E> {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        if !self.has_room(packet.class) && !self.make_room(cx) {
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        self.idle.end(cx.now);
        let Self {
            params,
            flows,
            elastic,
            ..
        } = self;
        let hash = cx.keys.hash(&packet, KeyKind::Flow);
        let flow = flows.flow(hash, elastic.fresh());
        let arrival = match flows.own_is_empty(flow) {
            true if flows.bytes(flow) <= E::common(params).mtu_bytes => Arrival::Streaming,
            true => Arrival::First,
            false => Arrival::Behind,
        };
        elastic.arrive(params, flows, flow, packet.bytes(), arrival);
        match arrival {
            Arrival::Streaming => flows.push_priority(flow, packet),
            Arrival::First | Arrival::Behind => flows.push_own(flow, packet),
        }
        Admission::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.next()?;
        if self.flows.held().packets == 0 {
            self.elastic.settle();
            self.idle.send(cx.now, packet.bytes());
            self.idle.begin(cx.now);
        }
        Some(packet)
    }

    fn prefetch(&self, cx: &Cx<'_>, packet: &Packet) {
        self.flows.touch(cx.keys.hash(packet, KeyKind::Flow));
    }

    fn has_room(&self, _class: Class) -> bool {
        self.flows.held().packets < E::common(&self.params).limit as u64
    }

    fn backlog(&self) -> Tally {
        self.flows.held()
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.flows.state_bytes() + self.elastic.heap_bytes()
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
        let (name, value) = self.elastic.gauge();
        report(name, value);
        self.flows.inspect_backlogs(report);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        self.flows.report_waiting(report);
    }
}
