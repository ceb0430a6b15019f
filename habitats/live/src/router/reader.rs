//! Reads the classes of a running router, for whoever asks: a person, a program, a control element.

use std::sync::Arc;
use std::time::Instant;

use weir_base::Span;
use weir_base::setting::Settings;
use weir_lfb::class::ports::Device;
use weir_lfb::class::status::Process;
use weir_lfb::class::{Block, Source};
use weir_model::Value;
use weir_path::plane::{Plane, PlanePort};

use super::{Running, bypass};
use crate::clock;
use crate::mutex::lock;
use crate::worker::{LinkState, Worker};

/// Reads the classes of a running router.
pub struct Reader {
    running: Arc<Running>,
    version: &'static str,
    started: Instant,
}

impl Reader {
    /// A reader; the uptime counts from now.
    pub fn new(running: Arc<Running>, version: &'static str) -> Self {
        Self {
            running,
            version,
            started: Instant::now(),
        }
    }

    /// The rows of a class, or the one value of a class without rows; an error says why it cannot be read now.
    /// Blocks for a turn of the forwarding thread.
    pub fn read(&self, block: &Block, query: &Settings) -> Result<Value, String> {
        match block.source {
            Source::Plane(read) => self.ask(move |worker| read(&worker.plane)),
            Source::Redirect(read) => {
                let now = clock::now();
                let control = self.running.control_sent(now);
                self.ask(move |worker| read(&worker.plane, now, control))
            }
            Source::Flows(collect, write) => {
                let query = query.clone();
                self.ask(move |worker| collect(&worker.plane, clock::now(), &query))
                    .map(write)
            }
            Source::Ports(read) => self.ports(read),
            Source::Tables(read) => Ok(read(&self.running.tables.load())),
            Source::Rates(read) => Ok(read(&self.running.finders.report())),
            Source::Netfilter(read) => Ok(read(&bypass::report(&lock(&self.running.bypassed)))),
            Source::Status(read) => self.status().map(|process| read(&process)),
        }
    }

    /// Runs a question on the forwarding thread and returns its answer.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, String> {
        let answer = self.running.handle.call(question);
        answer.map_err(|error| error.to_string())
    }

    fn ports(&self, read: fn(&Plane, &[Device]) -> Value) -> Result<Value, String> {
        let dropped = lock(&self.running.guard).local_dropped();
        let dropped = dropped.map_err(|e| format!("cannot read the kernel's counters: {e}"))?;
        self.ask(move |worker| {
            let links = worker.links();
            let device = |(link, slot): (LinkState, &PlanePort)| Device {
                up: link.up,
                missed: link.counters.missed,
                refused: link.counters.refused,
                local_dropped: dropped.get(&slot.interface).copied().unwrap_or_default(),
            };
            let devices = links.into_iter().zip(worker.plane.ports()).map(device);
            let devices: Vec<_> = devices.collect();
            read(&worker.plane, &devices)
        })
    }

    fn status(&self) -> Result<Process, String> {
        let in_force = self.running.in_force();
        Ok(Process {
            version: self.version,
            pid: std::process::id(),
            uptime: Span::from_secs_f64(self.started.elapsed().as_secs_f64()),
            pool_packets: self.ask(|worker| worker.plane.pool_packets())?,
            frame_bytes_max: in_force.limits.frame_bytes_max,
            router: in_force.plan.router.clone(),
            ports: in_force.plan.ports.len(),
        })
    }
}
