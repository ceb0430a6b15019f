//! Actors, which act at times of their own choice: controllers and samplers.

use weir_base::{Instant, Span};

use crate::fabric::Fabric;
use crate::id::PortId;

/// An actor reads the network, and may change it, at times of its own choice.
pub trait Actor: Send {
    /// Handles its turn. Returns the time of its next turn, or `None` if there is no further turn.
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant>;
}

/// Periodically lets idle ports release their memory.
#[derive(Debug)]
pub(crate) struct Housekeeper;

/// Time between two turns. A queue that is busy at every turn keeps its memory.
const HOUSEKEEPING: Span = Span::from_secs(1);

impl Actor for Housekeeper {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        for wire in &mut fabric.wires {
            wire.relax();
        }
        Some(fabric.now + HOUSEKEEPING)
    }
}

/// Records the queues of watched ports at regular intervals.
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

/// Time between two samples of an [`Examiner`].
const EXAMINATION: Span = Span::from_millis(10);
/// Samples the identifications of ports.
#[derive(Debug)]
pub(crate) struct Examiner {
    pub(crate) ports: Vec<PortId>,
}

impl Actor for Examiner {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        for port in &self.ports {
            if let Some((port, watch)) = fabric.wires[port.0 as usize].watched()
                && let Some(identification) = &mut watch.identification
            {
                identification.compare(port.queue(), fabric.now);
            }
        }
        Some(fabric.now + EXAMINATION)
    }
}
