//! The counters and the queues of a router at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_base::{Delays, Instant, Rate, Span, Tally};
use weir_discipline::waiting::Service;
use weir_model::Value;
use weir_packet::{FlowKey, KeyKind, Reason};
use weir_path::plane::{Plane, PlanePort};
use weir_path::talkers::Taken;

use super::Sampled;
use crate::class::ports::Device;
use crate::class::{BLOCKS, ControlSent, Source};

/// A router at one moment, as plain values.
#[derive(Debug)]
pub struct Sample {
    pub(super) at: Instant,
    /// Packets that the pool can hold.
    pub pool_packets: usize,
    /// Packets that the router has created itself.
    pub created: u64,
    /// Tables with metrics, whose rows are few, by the names of their classes.
    pub(super) tables: BTreeMap<&'static str, Value>,
    pub(super) ports: Vec<PortSample>,
    /// Dropped packets, by reason.
    pub(super) ended: Box<[u64; Reason::COUNT]>,
    pub(super) waiting: Vec<Held>,
}

/// The counters of a port.
#[derive(Debug)]
#[cfg_attr(test, derive(Default))]
pub(super) struct PortSample {
    pub(super) name: Arc<str>,
    pub(super) rate: Option<Rate>,
    /// Bytes on the wire, including the kernel's own frames.
    pub(super) on_wire: u64,
    pub(super) received: Tally,
    /// Packets offered to its queue.
    pub(super) offered: Tally,
    pub(super) sent: Tally,
    pub(super) dropped: u64,
    pub(super) marked: u64,
    pub(super) backlog: Tally,
    /// Queue delays of light and of heavy packets.
    pub(super) delays: Box<[Delays; 2]>,
    /// A sample of the packets that the port has sent since the previous sample.
    pub(super) talkers: Vec<Taken>,
}

/// Packets that waited together.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) port: Arc<str>,
    /// The key of the first packet, and the part of the key that all packets have in common.
    pub(super) key: FlowKey,
    pub(super) common: Option<KeyKind>,
    pub(super) held: Tally,
    /// How long the first packet has waited.
    pub(super) waited: Span,
    pub(super) service: Service,
    /// Whether the port carries what the interface receives: then its hosts are the destinations.
    pub(super) is_inbound: bool,
}

impl Sample {
    /// Reads the plane: its counters, its tables with metrics, and the packet at the head of each queue. The work is
    /// bounded by the number of ports and the queues of their disciplines.
    pub fn collect(
        plane: &mut Plane,
        devices: &[Device],
        control: ControlSent,
        now: Instant,
    ) -> Self {
        let talkers = plane.fetch_talkers();
        let mut tables = BTreeMap::new();
        for block in BLOCKS.iter().filter(|block| Sampled::has(block)) {
            let value = match block.source {
                Source::Plane(read) => read(plane),
                Source::Redirect(read) => read(plane, now, control),
                Source::Ports(read) => read(plane, devices),
                _ => continue,
            };
            tables.insert(block.class.name, value);
        }
        let mut sample = Self {
            at: now,
            pool_packets: plane.pool_packets(),
            created: plane.created(),
            tables,
            ports: Vec::with_capacity(plane.ports().len()),
            ended: Box::new(Reason::ALL.map(|reason| plane.fates().ended(reason).packets)),
            waiting: Vec::new(),
        };
        for (slot, talkers) in plane.ports().iter().zip(talkers) {
            sample.add(plane, slot, talkers, now);
        }
        sample
    }

    /// A sample of a router without ports, with these waiting packets.
    #[cfg(test)]
    pub(super) fn of_waiting(waiting: Vec<Held>) -> Self {
        Self {
            at: Instant::ZERO,
            pool_packets: 0,
            created: 0,
            tables: BTreeMap::new(),
            ports: Vec::new(),
            ended: Box::new([0; Reason::COUNT]),
            waiting,
        }
    }

    /// A sample of a port that has sent these packets.
    #[cfg(test)]
    pub(super) fn of_port(at: Instant, talkers: Vec<Taken>) -> Self {
        let port = PortSample {
            talkers,
            ..PortSample::default()
        };
        Self {
            at,
            ports: vec![port],
            ..Self::of_waiting(Vec::new())
        }
    }

    fn add(&mut self, plane: &Plane, slot: &PlanePort, talkers: Vec<Taken>, now: Instant) {
        let name: Arc<str> = slot.name.as_str().into();
        let (queue, link) = (slot.port.queue(), slot.port.link());
        queue.waiting(&mut |waiting| {
            self.waiting.push(Held {
                port: name.clone(),
                key: *plane.key(waiting.first),
                common: waiting.common,
                held: waiting.held,
                waited: now.since(waiting.first.enqueued),
                service: waiting.service,
                is_inbound: slot.is_inbound(),
            });
        });
        let ledger = queue.ledger();
        self.ports.push(PortSample {
            name,
            rate: link.rate,
            on_wire: slot.on_the_wire(),
            received: slot.received,
            offered: ledger.received,
            sent: ledger.sent,
            dropped: ledger.dropped.packets,
            marked: ledger.marked.packets,
            backlog: queue.backlog(),
            delays: Box::new(slot.port.delays()),
            talkers,
        });
    }
}
