//! What the northbound service asks of the running router.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use weir_lfb::get::{self, DeviceState};
use weir_live::capture::Captures;
use weir_live::clock;
use weir_live::worker::{LinkState, Worker};
use weir_model::capture::{CaptureRefusal, CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::report::{
    AdmissionReport, ApplyReport, BypassReport, DropReport, FlowQuery, HogQuery, HogReport,
    NeighbourReport, PortReport, QueueReport, RouteReport, StatusReport,
};
use weir_model::{Change, ChangeRequest};
use weir_northbound::{Answer, Operator, Peer};
use weir_path::plane::PlanePort;

use crate::router::{Running, bypass, lock};
use crate::{configuration, journal};

/// The running router, as an operator sees it.
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

    /// Asks on the forwarding thread.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Answer<T> {
        self.running
            .handle
            .call(question)
            .map_err(|e| e.to_string())
    }
}

impl Operator for Console {
    fn status(&self) -> Answer<StatusReport> {
        let pool = self.ask(|worker| worker.plane.pool_packets())?;
        let plan = self.running.plan();
        Ok(StatusReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            mode: plan.router.mode_word().to_owned(),
            socket: plan.router.socket,
            uptime_s: self.started.elapsed().as_secs_f64(),
            ports: plan.ports.len() as u64,
            pool_packets: pool as u64,
        })
    }

    fn ports(&self) -> Answer<Vec<PortReport>> {
        let dropped = lock(&self.running.guard).local_dropped();
        let dropped = dropped.map_err(|e| format!("cannot read the kernel's counters: {e}"))?;
        self.ask(move |worker| {
            let links = worker.links();
            let state = |(link, slot): (LinkState, &PlanePort)| DeviceState {
                up: link.up,
                missed: link.counters.missed,
                refused: link.counters.refused,
                local_dropped: dropped.get(&slot.interface).copied().unwrap_or_default(),
            };
            let devices: Vec<_> = links
                .into_iter()
                .zip(worker.plane.ports())
                .map(state)
                .collect();
            get::ports(&worker.plane, &devices)
        })
    }

    fn queues(&self) -> Answer<Vec<QueueReport>> {
        self.ask(|worker| get::queues(&worker.plane))
    }

    fn hogs(&self, query: HogQuery) -> Answer<Vec<HogReport>> {
        self.ask(move |worker| get::hogs(&worker.plane, clock::now(), query))
    }

    fn flows(&self, query: FlowQuery) -> Answer<Vec<AdmissionReport>> {
        self.ask(move |worker| get::flows(&worker.plane, clock::now(), query))
    }

    fn routes(&self) -> Vec<RouteReport> {
        // A full table takes long to print: not on the forwarding thread.
        get::routes(&self.running.tables.load())
    }

    fn neighbours(&self) -> Answer<Vec<NeighbourReport>> {
        self.ask(|worker| get::neighbours(&worker.plane))
    }

    fn drops(&self) -> Answer<Vec<DropReport>> {
        self.ask(|worker| get::drops(&worker.plane))
    }

    fn netfilter(&self) -> Vec<BypassReport> {
        bypass::report(&lock(&self.running.bypassed))
    }

    fn config(&self) -> BTreeMap<String, String> {
        self.running.plan().shown()
    }

    fn apply(&self, text: &str, by: Peer) -> ApplyReport {
        let plan = configuration::plan("configuration", text);
        let done = plan.and_then(|plan| self.running.apply(plan).map_err(|why| vec![why]));
        journal::changed("apply", Some(by), &done);
        report(done)
    }

    fn change(&self, requests: Vec<ChangeRequest>, by: Peer) -> ApplyReport {
        let read = |request: ChangeRequest| -> Result<Change, String> {
            let path = weir_config::path(&request.path)?;
            Ok(Change::new(path, request.value.into()))
        };
        let changes: Result<Vec<Change>, String> = requests.into_iter().map(read).collect();
        let changes = changes.map_err(|why| vec![why]);
        let done = changes.and_then(|changes| self.running.change(&changes));
        journal::changed("set", Some(by), &done);
        report(done)
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

/// What was put in force, or why nothing was.
fn report(done: Result<Vec<String>, Vec<String>>) -> ApplyReport {
    let applied = done.is_ok();
    let (Ok(messages) | Err(messages)) = done;
    ApplyReport { applied, messages }
}
