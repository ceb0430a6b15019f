//! Implements the northbound service's [`Operator`] with the running router. This bridge is in the binary, so that
//! neither the live habitat nor the service depends on the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use weir_base::Span;
use weir_lfb::class::ports::Device;
use weir_lfb::class::status::Process;
use weir_lfb::class::{self, Block, Source};
use weir_live::capture::Captures;
use weir_live::clock;
use weir_live::mutex::lock;
use weir_live::router::{Running, bypass};
use weir_live::worker::{LinkState, Worker};
use weir_model::capture::{CaptureRefusal, CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::{ApplyReport, Change, ChangeRequest, Class, DeleteRequest, Operation, Value};
use weir_northbound::{Operator, Peer, Refusal};
use weir_path::plane::{Plane, PlanePort};

use crate::{configuration, journal};

/// The running router, as the northbound service sees it.
pub(crate) struct Console {
    running: Arc<Running>,
    captures: Captures,
    started: Instant,
}

impl Console {
    pub(crate) fn new(running: Arc<Running>) -> Self {
        let captures = Captures::new(running.handle.clone());
        let started = Instant::now();
        Self {
            running,
            captures,
            started,
        }
    }

    /// Runs a question on the forwarding thread and returns its answer.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let answer = self.running.handle.call(question);
        answer.map_err(|e| Refusal::Silent(e.to_string()))
    }

    fn ports(&self, read: fn(&Plane, &[Device]) -> Value) -> Result<Value, Refusal> {
        let dropped = lock(&self.running.guard).local_dropped();
        let silent = |e| Refusal::Silent(format!("cannot read the kernel's counters: {e}"));
        let dropped = dropped.map_err(silent)?;
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

    fn status(&self) -> Result<Process, Refusal> {
        let in_force = self.running.in_force();
        Ok(Process {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime: Span::from_secs_f64(self.started.elapsed().as_secs_f64()),
            pool_packets: self.ask(|worker| worker.plane.pool_packets())?,
            frame_bytes_max: in_force.limits.frame_bytes_max,
            router: in_force.plan.router.clone(),
            ports: in_force.plan.ports.len(),
        })
    }
}

impl Console {
    /// Carries out operations that were read, or says why one cannot be read.
    fn carry_out(
        &self,
        how: &str,
        operations: Result<Vec<Operation>, String>,
        by: Peer,
    ) -> ApplyReport {
        let operations = operations.map_err(|why| vec![why]);
        let done = operations.and_then(|operations| {
            self.running
                .change(operations)
                .map_err(configuration::sentences)
        });
        journal::changed(how, Some(by), &done);
        report(done)
    }
}

impl Operator for Console {
    fn classes(&self) -> Vec<&'static Class> {
        class::classes()
    }

    fn read(
        &self,
        class: &'static Class,
        query: BTreeMap<String, String>,
    ) -> Result<Value, Refusal> {
        let Some(block) = Block::find(class.name) else {
            unreachable!("{} is not one of `classes`", class.name)
        };
        let query = query.iter().map(|(name, text)| (&name[..], &text[..]));
        let query = block
            .query(query)
            .map_err(|e| Refusal::Wrong(e.to_string()))?;
        match block.source {
            Source::Plane(read) => self.ask(move |worker| read(&worker.plane)),
            Source::Flows(collect, write) => self
                .ask(move |worker| collect(&worker.plane, clock::now(), &query))
                .map(write),
            Source::Ports(read) => self.ports(read),
            Source::Tables(read) => Ok(read(&self.running.tables.load())),
            Source::Netfilter(read) => Ok(read(&bypass::report(&lock(&self.running.bypassed)))),
            Source::Status(read) => self.status().map(|process| read(&process)),
        }
    }

    fn config(&self) -> BTreeMap<String, String> {
        self.running.in_force().plan.shown()
    }

    fn apply(&self, text: &str, by: Peer) -> ApplyReport {
        let plan = configuration::plan("configuration", text);
        let done = plan.and_then(|plan| self.running.apply(plan).map_err(configuration::sentences));
        journal::changed("apply", Some(by), &done);
        report(done)
    }

    fn change(&self, requests: Vec<ChangeRequest>, by: Peer) -> ApplyReport {
        let read = |request: ChangeRequest| {
            let path = weir_config::path(&request.path)?;
            Ok(Operation::Set(Change::new(path, request.value.into())))
        };
        self.carry_out("set", requests.into_iter().map(read).collect(), by)
    }

    fn delete(&self, requests: Vec<DeleteRequest>, by: Peer) -> ApplyReport {
        let read =
            |request: &DeleteRequest| weir_config::path(&request.path).map(Operation::Delete);
        self.carry_out("unset", requests.iter().map(read).collect(), by)
    }

    fn capture(&self, request: CaptureRequest) -> Result<CaptureTicket, CaptureRefusal> {
        self.captures.start(request)
    }

    fn captured(&self, id: u64) -> Result<Option<Vec<u8>>, CaptureRefusal> {
        self.captures.fetch(id)
    }

    fn end_capture(&self, id: u64) -> Result<CaptureReport, CaptureRefusal> {
        self.captures.end(id)
    }
}

/// The changes that were put in force, or the reasons why none was.
fn report(done: Result<Vec<String>, Vec<String>>) -> ApplyReport {
    let applied = done.is_ok();
    let (Ok(messages) | Err(messages)) = done;
    ApplyReport { applied, messages }
}
