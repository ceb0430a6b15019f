//! Controllers in virtual time: an actor that carries samples and orders, with the delay and the
//! losses of the channel between a controller and its queues.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rand::RngExt;
use weir_base::setting::Scalar;
use weir_base::{Instant, Span, Stream, Streams};
use weir_controller::{Controller, Order, READS_MAX, Sample};
use weir_sim::{Actor, Fabric, PortId};

use crate::scenario::Controller as Described;
use crate::steered;

/// What a controller's gauges were, while it runs and after that.
pub(super) type Gauges = Arc<Mutex<steered::Gauges>>;

/// A controller with its queues and the channel to them.
pub(super) struct Steering {
    controller: Box<dyn Controller>,
    /// Each queue's port, and the gauges that are read there.
    queues: Vec<(PortId, &'static [&'static str])>,
    period: Span,
    /// Of a sample, and of an order.
    delay: Span,
    loss: f64,
    chance: Stream,
    /// Of the run, for disciplines that are built anew.
    streams: Streams,
    next_sample: Instant,
    /// Orders on their way.
    under_way: VecDeque<(Instant, Vec<Order>)>,
    gauges: Gauges,
}

impl Steering {
    /// The controller as it is described, for these queues.
    pub(super) fn new(described: &Described, ports: Vec<PortId>, streams: &Streams) -> Self {
        Self {
            controller: described.spec.build(),
            queues: ports.into_iter().zip(described.spec.reads()).collect(),
            period: described.period,
            delay: described.delay,
            loss: described.loss,
            chance: streams.below("controller").stream(&described.name),
            streams: streams.clone(),
            next_sample: Instant::ZERO,
            under_way: VecDeque::new(),
            gauges: Arc::new(Mutex::new(steered::Gauges::new(described.period))),
        }
    }

    /// Where its gauges can be read, also after the run.
    pub(super) fn gauges(&self) -> Gauges {
        Arc::clone(&self.gauges)
    }

    fn is_lost(&mut self) -> bool {
        self.loss > 0.0 && self.chance.random_bool(self.loss)
    }

    /// Samples every queue. What the controller makes of it arrives a round trip later.
    fn sample(&mut self, fabric: &Fabric) {
        let queues = self.queues.clone();
        let samples: Vec<Option<Sample>> = queues
            .iter()
            .map(|(port, reads)| (!self.is_lost()).then(|| look(fabric, *port, reads)))
            .collect();
        let mut orders = Vec::new();
        let there = fabric.now() + self.delay;
        self.controller.sample(there, &samples, &mut orders);
        orders.retain(|_| !self.is_lost());
        self.under_way.push_back((there + self.delay, orders));
        let mut gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.note(self.controller.as_ref());
    }

    fn carry_out(&self, orders: Vec<Order>, fabric: &mut Fabric) {
        for order in orders {
            let (port, _) = self.queues[order.queue];
            let value = Scalar::Text(order.value.to_string());
            let spec = fabric.port(port).queue().spec();
            match spec.with(order.parameter, &value) {
                Ok(spec) => fabric.reconfigure(port, spec, &self.streams),
                Err(error) => unreachable!("the queues of a controller are checked: {error}"),
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
        if self.next_sample <= now {
            self.sample(fabric);
            self.next_sample = now + self.period;
        }
        while let Some((_, orders)) = self.under_way.pop_front_if(|(due, _)| *due <= now) {
            self.carry_out(orders, fabric);
        }
        let arrival = self.under_way.front().map(|(due, _)| *due);
        Some(arrival.map_or(self.next_sample, |due| due.min(self.next_sample)))
    }
}
