//! Reads the classes of a running router, for operators, programs and control elements.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use weir_base::Span;
use weir_base::setting::Settings;
use weir_lfb::class::ports::Device;
use weir_lfb::class::sampled::{Sample, Sampled};
use weir_lfb::class::status::Process;
use weir_lfb::class::{BLOCKS, Block, Source};
use weir_model::Value;
use weir_path::plane::{Plane, PlanePort};

use super::Running;
use crate::clock::{self, UnixTime};
use crate::mutex::lock;
use crate::thread_times;
use crate::worker::{FORWARDING, LinkState, Worker};

/// Time between two samples.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// The process in which a router runs.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Version of the program.
    pub version: &'static str,
    /// The number of earlier processes that the supervisor had to replace.
    pub restarts: u64,
}

/// Reads the classes of a running router.
pub struct Reader {
    running: Arc<Running>,
    identity: Identity,
    started: Instant,
    sampled: Arc<Mutex<Sampled>>,
    /// Counts the samples, for readers that wait for the next one.
    samples: watch::Sender<u64>,
}

impl Reader {
    /// A reader; the uptime counts from now.
    pub fn new(running: Arc<Running>, identity: Identity) -> Self {
        Self {
            running,
            identity,
            started: Instant::now(),
            sampled: Arc::default(),
            samples: watch::Sender::default(),
        }
    }

    /// Takes a sample each second, so that the forwarding thread does the same work for any number of readers. Returns
    /// only if a sample panics, with the reason.
    pub async fn sample(self: Arc<Self>) -> String {
        let mut timer = tokio::time::interval(SAMPLE_PERIOD);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            let reader = Arc::clone(&self);
            let taken = tokio::task::spawn_blocking(move || reader.take_sample()).await;
            match taken {
                Ok(Ok(())) => self.samples.send_modify(|count| *count += 1),
                // The watchdog ends a router that does not answer for long.
                Ok(Err(error)) => tracing::debug!(error, "cannot sample the counters"),
                Err(error) => return error.to_string(),
            }
        }
    }

    fn take_sample(&self) -> Result<(), String> {
        let control = self.running.control_sent(clock::now());
        let sample = self.with_devices(move |plane, devices| {
            Sample::collect(plane, devices, control, clock::now())
        })?;
        let mut others = BTreeMap::new();
        for block in BLOCKS {
            let value = match block.source {
                Source::Status(read) => read(&self.status(sample.pool_packets, sample.created)),
                Source::Rates(read) if Sampled::has(block) => read(&self.running.finders.report()),
                Source::CeRoutes(read) => read(&self.running.ce_routes()),
                _ => continue,
            };
            others.insert(block.class.name, value);
        }
        lock(&self.sampled).take(sample, others);
        Ok(())
    }

    /// All samples, for readers that look for differences between them.
    pub fn all_samples(&self) -> Arc<Mutex<Sampled>> {
        Arc::clone(&self.sampled)
    }

    /// Receives the number of samples so far, after each new sample.
    pub fn samples(&self) -> watch::Receiver<u64> {
        self.samples.subscribe()
    }

    /// A table of the latest sample, without a call to the forwarding thread; `None` if samples do not contain the
    /// table, or before the first sample.
    pub fn sampled(&self, block: &Block, query: &Settings) -> Option<Value> {
        let sampled = lock(&self.sampled);
        match block.source {
            Source::Sampled(read) => Some(read(&sampled, query)),
            _ => sampled.table(block).cloned(),
        }
    }

    /// The rows of a class, or the one value of a class without rows; an error explains why it cannot be read now.
    /// Blocks for an iteration of the forwarding thread.
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
            Source::Ports(read) => self.with_devices(move |plane, devices| read(plane, devices)),
            Source::Tables(read) => Ok(read(&self.running.tables.load())),
            Source::Sampled(read) => Ok(read(&lock(&self.sampled), query)),
            Source::Rates(read) => Ok(read(&self.running.finders.report())),
            Source::CeRoutes(read) => Ok(read(&self.running.ce_routes())),
            Source::Netfilter(read) => Ok(read(&lock(&self.running.known).report_chains())),
            Source::Kernel(read) => {
                let in_force = self.running.in_force();
                let found = lock(&self.running.known).report(&in_force.plan.router);
                Ok(read(&found))
            }
            Source::Status(read) => {
                let (pool_packets, created) =
                    self.ask(|worker| (worker.plane.pool_packets(), worker.plane.created()))?;
                Ok(read(&self.status(pool_packets, created)))
            }
        }
    }

    /// Runs a query on the forwarding thread and returns its answer.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, String> {
        let answer = self.running.handle.call(question);
        answer.map_err(|error| error.to_string())
    }

    /// Like [`Self::ask`], for a query about the plane and the counters of its ports' devices.
    fn with_devices<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Plane, &[Device]) -> T + Send + 'static,
    ) -> Result<T, String> {
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
            question(&mut worker.plane, &devices)
        })
    }

    fn status(&self, pool_packets: usize, created: u64) -> Process {
        let in_force = self.running.in_force();
        let (bypassed, bypassed_new) = lock(&self.running.known).chains();
        Process {
            version: self.identity.version,
            restarts: self.identity.restarts,
            hostname: hostname(),
            unix_s: UnixTime::now().as_nanos() as f64 / 1e9,
            pid: std::process::id(),
            uptime: Span::from_secs_f64(self.started.elapsed().as_secs_f64()),
            pool_packets,
            created,
            processor_wait_s: processor_wait_s(),
            frame_bytes_max: in_force.limits.frame_bytes_max,
            router: in_force.plan.router.clone(),
            ports: in_force.plan.ports.len(),
            bypassed,
            bypassed_new,
            handed_back: in_force.handed_back.clone(),
            stopped: self.running.stopped(),
            certificate_left_s: self.running.certificate_left_s(),
        }
    }
}

/// Time for which the forwarding thread was ready but had no processor.
fn processor_wait_s() -> f64 {
    let threads = thread_times::read().unwrap_or_default();
    let mut forwarding = threads.iter().filter(|thread| thread.name == FORWARDING);
    forwarding.next().map_or(0.0, |thread| thread.wait_s)
}

/// Name of the machine; empty if it cannot be read.
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
