//! The two queues of AFAN, and the packets that each flow has in them.
//!
//! ```text
//!  flow hash --> table:  bytes, packets, of these elastic
//!
//!  [ priority | | ]  first          [ elastic | | | ]  then; any packet can be drawn
//! ```

use std::collections::VecDeque;

use weir_base::Tally;
use weir_packet::Packet;

use crate::admission::scheduler::{self, ELASTIC, PRIORITY};
use crate::admission::urn::{Urn, Waiting};
use crate::parts::table::Table;
use crate::waiting::{self, REPORTS_MAX};

/// The bytes and packets that a flow has waiting.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    bytes: u64,
    packets: u32,
    /// The number of these packets that are in the elastic queue.
    elastic: u32,
}

/// The queues and the flows in them.
#[derive(Debug)]
pub(crate) struct Split {
    flows: Table<Flow>,
    active_elastic: u32,
    priority: VecDeque<Waiting>,
    priority_held: Tally,
    elastic: Urn,
}

impl Split {
    /// Empty queues with room for `limit` packets together, which is allocated now.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            flows: Table::new(limit),
            active_elastic: 0,
            priority: VecDeque::with_capacity(limit),
            priority_held: Tally::ZERO,
            elastic: Urn::new(limit + 1), // a packet is queued before the drawn one leaves
        }
    }

    /// Ensures room for `limit` packets in total.
    pub(crate) fn reserve(&mut self, limit: usize) {
        self.flows.reserve(limit);
        let more = limit.saturating_sub(self.priority.len());
        self.priority.reserve(more);
        self.elastic.reserve(limit + 1);
    }

    /// Packets in both queues.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.priority.len() + self.elastic.len()
    }

    /// Packets and bytes in both queues.
    pub(crate) fn backlog(&self) -> Tally {
        self.priority_held + self.elastic.tally()
    }

    /// Packets in the elastic queue.
    #[inline]
    pub(crate) fn elastic_len(&self) -> usize {
        self.elastic.len()
    }

    /// Flows with packets in the elastic queue.
    #[inline]
    pub(crate) fn active_elastic(&self) -> u32 {
        self.active_elastic
    }

    /// The flow with this hash, if it has packets waiting.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> Option<usize> {
        self.flows.find(hash)
    }

    /// Loads the memory that `find` will need.
    pub(crate) fn touch(&self, hash: u64) {
        self.flows.touch(hash);
    }

    /// Bytes of a flow in both queues.
    pub(crate) fn bytes(&self, flow: usize) -> u64 {
        self.flows.get(flow).bytes
    }

    /// Whether the next packet of a flow is elastic: more than `mtu` bytes of the flow wait, or it has packets
    /// in the elastic queue, which the next one must not overtake.
    #[inline]
    pub(crate) fn is_elastic(&self, flow: usize, mtu: u64) -> bool {
        let flow = self.flows.get(flow);
        flow.bytes > mtu || flow.elastic > 0
    }

    /// Queues a packet of the flow with this hash in the priority queue.
    pub(crate) fn push_priority(&mut self, hash: u64, known: Option<usize>, mut packet: Packet) {
        let known = known.unwrap_or_else(|| self.flows.insert(hash, Flow::default()));
        let flow = self.flows.get_mut(known);
        flow.bytes += packet.bytes();
        flow.packets += 1;
        packet.class = PRIORITY;
        self.priority_held.count(packet.bytes());
        self.priority.push_back(Waiting {
            flow: known as u32,
            packet,
        });
    }

    /// Queues a packet of a flow in the elastic queue.
    pub(crate) fn push_elastic(&mut self, known: usize, mut packet: Packet) {
        let flow = self.flows.get_mut(known);
        flow.bytes += packet.bytes();
        flow.packets += 1;
        self.active_elastic += u32::from(flow.elastic == 0);
        flow.elastic += 1;
        packet.class = ELASTIC;
        self.elastic.push(Waiting {
            flow: known as u32,
            packet,
        });
    }

    /// Takes the packet at the head of the priority queue.
    pub(crate) fn pop_priority(&mut self) -> Option<Packet> {
        let waiting = self.priority.pop_front()?;
        self.priority_held.uncount(waiting.packet.bytes());
        let flow = self.flows.get_mut(waiting.flow as usize);
        flow.bytes -= waiting.packet.bytes();
        flow.packets -= 1;
        if flow.packets == 0 {
            self.flows.remove(waiting.flow as usize);
        }
        Some(waiting.packet)
    }

    /// Takes the packet at the head of the elastic queue.
    pub(crate) fn pop_elastic(&mut self) -> Option<Packet> {
        let waiting = self.elastic.pop()?;
        Some(self.left_elastic(waiting))
    }

    /// The elastic packet that `draw`, from the whole range of `u64`, picks: each with the same probability.
    pub(crate) fn draw(&self, draw: u64) -> Option<usize> {
        self.elastic.draw(draw)
    }

    /// Whether a drawn packet belongs to this flow.
    pub(crate) fn is_of(&self, drawn: usize, flow: usize) -> bool {
        self.elastic.flow(drawn) as usize == flow
    }

    /// Takes a drawn packet.
    pub(crate) fn take(&mut self, drawn: usize) -> Packet {
        let waiting = self.elastic.take(drawn);
        self.left_elastic(waiting)
    }

    /// Reports both queues.
    pub(crate) fn report_waiting(&self, report: &mut dyn FnMut(waiting::Waiting<'_>)) {
        scheduler::report_priority(&self.priority, report);
        let packet = |at| self.elastic.packet(at);
        let words = "the queue of elastic flows behind the priority queue";
        waiting::of_places(self.elastic.len(), packet, words, REPORTS_MAX / 2, report);
    }

    /// The gauges of the waiting packets.
    pub(crate) fn inspect_backlogs(&self, report: &mut dyn FnMut(&'static str, u64)) {
        let backlogs = scheduler::Backlogs {
            priority: self.priority_held,
            elastic: self.elastic.tally(),
            active: self.flows.len() as u64,
            active_elastic: self.active_elastic.into(),
        };
        backlogs.inspect(report);
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        self.flows.state_bytes()
            + self.priority.capacity() * size_of::<Waiting>()
            + self.elastic.state_bytes()
    }

    /// Uncounts a packet of the elastic queue.
    #[inline]
    fn left_elastic(&mut self, waiting: Waiting) -> Packet {
        let flow = self.flows.get_mut(waiting.flow as usize);
        flow.bytes -= waiting.packet.bytes();
        flow.packets -= 1;
        flow.elastic -= 1;
        self.active_elastic -= u32::from(flow.elastic == 0);
        if flow.packets == 0 {
            self.flows.remove(waiting.flow as usize);
        }
        waiting.packet
    }
}
