//! Actors act at times of their own: controllers and samplers.

use weir_base::{Instant, Span};

use crate::fabric::Fabric;
use crate::network::PortId;

/// An actor reads the network, and may change it, at times of its own.
pub trait Actor: Send {
    /// Its turn. Gives the time of its next turn; none ends it.
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant>;
}

/// Lets idle ports give back their memory, now and then.
#[derive(Debug)]
pub(crate) struct Housekeeper;

/// How often. A queue that is busy at all that time keeps its memory.
const HOUSEKEEPING: Span = Span::from_secs(1);

impl Actor for Housekeeper {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        for wire in &mut fabric.wires {
            wire.relax();
        }
        Some(fabric.now + HOUSEKEEPING)
    }
}

/// Records the queues of watched ports at even steps of time.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub(crate) ports: Vec<PortId>,
    pub(crate) step: Span,
}

impl Actor for Sampler {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        for port in &self.ports {
            if let Some((port, watch)) = fabric.wires[port.0 as usize].watched() {
                let backlog = port.queue().backlog();
                watch.queue_packets.push(backlog.packets);
                watch.queue_bytes.push(backlog.bytes);
                let meters = &fabric.meters;
                watch.sample(port.queue(), fabric.now, |key| meters.traffic(key));
            }
        }
        Some(fabric.now + self.step)
    }
}
