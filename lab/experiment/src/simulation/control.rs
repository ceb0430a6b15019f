//! Controllers in virtual time: an actor. Its elements answer immediately.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use weir_base::setting::Scalar;
use weir_base::{Instant, Streams};
use weir_controller::runner::{Change, Operation, PolledQueue, Response};
use weir_controller::{QueueName, Sample};
use weir_sim::{Actor, Fabric, PortId};

use crate::control::{Channel, ControlledQueue, Record};
use crate::error::Error;
use crate::scenario::Controller as Described;
use crate::transports::Transports;

/// The record of a controller, which can be read during the run and after it.
pub(super) type SharedRecord = Arc<Mutex<Record>>;

/// A controller with its queues.
pub(super) struct ControllerActor {
    channel: Channel,
    ports: HashMap<QueueName, PortId>,
    record: SharedRecord,
}

impl ControllerActor {
    /// The controller of this description, for these queues; `port` gives the port of each queue.
    pub(super) fn new(
        described: &Described,
        queues: &[ControlledQueue],
        port: impl Fn(&ControlledQueue) -> PortId,
        streams: &Streams,
        transports: Option<&dyn Transports>,
    ) -> Result<Self, Error> {
        let named = |queue: &ControlledQueue| (queue.name.clone(), port(queue));
        let period = described.period;
        Ok(Self {
            channel: Channel::new(described, queues, period, streams, transports)?,
            ports: queues.iter().map(named).collect(),
            record: Arc::new(Mutex::new(Record::new(period))),
        })
    }

    /// The controller's record, which can also be read after the run.
    pub(super) fn record(&self) -> SharedRecord {
        Arc::clone(&self.record)
    }

    fn carry_out(
        &self,
        element: &Arc<str>,
        operation: &Operation,
        fabric: &mut Fabric,
    ) -> Response {
        let place = |port: &Arc<str>| {
            let (element, port) = (Arc::clone(element), Arc::clone(port));
            self.ports[&QueueName { element, port }]
        };
        match operation {
            Operation::Poll(queues) => {
                let sample = |queue: &PolledQueue| {
                    let sample = sample(fabric, place(&queue.port), queue.gauges);
                    (Arc::clone(&queue.port), sample)
                };
                Response::Samples(queues.iter().map(sample).collect())
            }
            Operation::Change(changes) => {
                for change in changes {
                    set(fabric, place(&change.port), change);
                }
                Response::Changed
            }
        }
    }
}

fn sample(fabric: &Fabric, port: PortId, gauges: &[&str]) -> Sample {
    let queue = fabric.port(port);
    let ledger = queue.ledger();
    let mut sample = Sample::new(ledger.received, ledger.sent, queue.backlog());
    queue.inspect(&mut |gauge, value| {
        if gauges.contains(&gauge) {
            sample = sample.with_gauge(gauge, value);
        }
    });
    sample
}

fn set(fabric: &mut Fabric, port: PortId, change: &Change) {
    let value = Scalar::Text(change.value.to_string());
    let spec = fabric.port(port).spec();
    let spec = spec.with([(change.parameter, &value)]);
    let set = spec.map_err(|e| e.to_string()).and_then(|spec| {
        let set = fabric.set(port, spec);
        set.map_err(|e| e.to_string())
    });
    if let Err(error) = set {
        unreachable!("the controller's queues were validated: {error}");
    }
}

impl Actor for ControllerActor {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        let now = fabric.now();
        self.channel.handle_timeout(now);
        while let Some(request) = self.channel.poll_request(now) {
            let response = self.carry_out(&request.element, &request.operation, fabric);
            self.channel.handle_response(now, request.id, response);
        }
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.take_events(&mut self.channel);
        Some(self.channel.poll_timeout())
    }
}
