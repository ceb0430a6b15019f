//! Selects the ports of a simulation that are recorded, and the records. All of this is set up before the run.

use weir_base::Instant;

use crate::actor::{Examiner, Sampler};
use crate::id::PortId;
use crate::identification::Identification;
use crate::meter::{Meters, Watch};
use crate::simulation::Simulation;
use crate::trace::Trace;

impl Simulation {
    /// Keeps these ports up to date at every instant, for actors that read or change them. An actor must not read any
    /// other port.
    pub fn expose(&mut self, ports: &[PortId]) {
        for port in ports {
            self.fabric.wires[port.0 as usize].stepped();
        }
    }

    /// Records the queues of these ports.
    pub fn watch(&mut self, ports: &[PortId]) {
        let Meters { from, interval, .. } = self.fabric.meters;
        for port in ports {
            let stepped = self.fabric.wires[port.0 as usize].stepped();
            let mut watch = Watch::new(from, stepped.port.link().framing);
            if stepped.port.queue().spec().knows_flows() {
                watch.track_flows(self.fabric.meters.traffics.len());
            }
            stepped.watch = Some(Box::new(watch));
        }
        let sampler = Sampler {
            ports: ports.to_vec(),
            step: interval,
        };
        self.actor(Box::new(sampler), Instant::ZERO);
    }

    /// Compares the hogs that the queues of these ports report with the truth: `hogs` contains, for each flow group,
    /// whether its flows are hogs. The ports must be watched.
    pub fn examine(&mut self, ports: &[PortId], hogs: &[bool]) {
        let from = self.fabric.meters.from;
        for port in ports {
            if let Some((_, watch)) = self.fabric.wires[port.0 as usize].watched() {
                watch.identification = Some(Identification::new(from, hogs.to_vec()));
            }
        }
        let examiner = Examiner {
            ports: ports.to_vec(),
        };
        self.actor(Box::new(examiner), Instant::ZERO);
    }

    /// Records the first `packets` packets that leave a port or are dropped there.
    pub fn trace(&mut self, port: PortId, packets: usize) {
        let from = self.fabric.meters.from;
        let stepped = self.fabric.wires[port.0 as usize].stepped();
        let framing = stepped.port.link().framing;
        let watch = stepped
            .watch
            .get_or_insert_with(|| Box::new(Watch::new(from, framing)));
        watch.trace = Some(Trace::new(packets));
    }

    /// The record of a port, if it is watched.
    pub fn watched(&self, port: PortId) -> Option<&Watch> {
        self.fabric.wires[port.0 as usize].watch()
    }
}
