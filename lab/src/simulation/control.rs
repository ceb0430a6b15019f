//! Controllers in virtual time: an actor that looks at queues and carries orders out.

use std::sync::{Arc, Mutex, PoisonError};

use weir_base::setting::Scalar;
use weir_base::{Instant, Streams};
use weir_controller::{Order, READS_MAX, Sample};
use weir_sim::{Actor, Fabric, PortId};

use crate::scenario::Controller as Described;
use crate::steered::{self, Channel};

/// What a controller's gauges were, while it runs and after that.
pub(super) type Gauges = Arc<Mutex<steered::Gauges>>;

/// A controller with its queues.
pub(super) struct Steering {
    channel: Channel,
    /// Each queue's port, and the gauges that are read there.
    queues: Vec<(PortId, &'static [&'static str])>,
    gauges: Gauges,
}

impl Steering {
    /// The controller as it is described, for these queues.
    pub(super) fn new(described: &Described, ports: Vec<PortId>, streams: &Streams) -> Self {
        Self {
            channel: Channel::new(described, described.period, streams),
            queues: ports.into_iter().zip(described.spec.reads()).collect(),
            gauges: Arc::new(Mutex::new(steered::Gauges::new(described.period))),
        }
    }

    /// Where its gauges can be read, also after the run.
    pub(super) fn gauges(&self) -> Gauges {
        Arc::clone(&self.gauges)
    }

    fn sample(&mut self, fabric: &Fabric) {
        let queues = &self.queues;
        let look = |queue: usize| {
            let (port, reads) = queues[queue];
            Some(look(fabric, port, reads))
        };
        let mut gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        self.channel
            .sample(fabric.now(), queues.len(), look, &mut gauges);
    }

    fn carry_out(&self, orders: Vec<Order>, fabric: &mut Fabric) {
        for order in orders {
            let (port, _) = self.queues[order.queue];
            let value = Scalar::Text(order.value.to_string());
            let spec = fabric.port(port).queue().spec();
            let spec = spec.with(order.parameter, &value);
            let set = spec.map_err(|e| e.to_string()).and_then(|spec| {
                let set = fabric.set(port, spec);
                set.map_err(|e| e.to_string())
            });
            if let Err(error) = set {
                unreachable!("the queues of a controller are checked: {error}");
            }
        }
    }
}

fn look(fabric: &Fabric, port: PortId, reads: &[&str]) -> Sample {
    let port = fabric.port(port);
    let ledger = port.queue().ledger();
    let mut read = [0; READS_MAX];
    port.queue().inspect(&mut |gauge, value| {
        let place = reads.iter().position(|name| *name == gauge);
        if let Some(value_there) = place.and_then(|place| read.get_mut(place)) {
            *value_there = value;
        }
    });
    Sample {
        received: ledger.received,
        sent: ledger.sent,
        backlog: port.queue().backlog(),
        read,
    }
}

impl Actor for Steering {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        let now = fabric.now();
        if self.channel.wants_samples(now) {
            self.sample(fabric);
        }
        while let Some(orders) = self.channel.arrived(now) {
            self.carry_out(orders, fabric);
        }
        Some(self.channel.due())
    }
}
