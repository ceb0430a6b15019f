//! Controllers and samplers on the lab: threads of the run that talk to the routers' northbound
//! services.
//!
//! ```text
//!   every period:  GET /v1/queues of each router ────▶ channel and controller (the same as in
//!                                                          │                   simulation)
//!                  PATCH /v1/config of each router ◀───────┘
//! ```
//!
//! The delay and the losses of the channel are the scenario's; what the sockets, the routers and
//! this machine take comes on top: about a millisecond. A router that does not answer in time has no
//! sample. A thread ends by itself with the run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use serde::Deserialize;
use weir_base::{Instant, Span, Streams, Tally};
use weir_controller::contract::READS_MAX;
use weir_controller::{Order, Sample};

use super::northbound::Service;
use super::traffic::sleep_until;
use crate::error::Error;
use crate::results::Curve;
use crate::scenario::Scenario;
use crate::statistics::mean;
use crate::steered::{self, Channel, Gauges};
use crate::topology::{Topology, Watched};

/// Queues are not asked more often than this.
pub(super) const PERIOD_MIN: Span = Span::from_millis(10);

/// Changes of one request; a router takes no more than 256.
const CHANGES_MAX: usize = 256;

/// All that looks at the queues of a run, and steers them.
#[derive(Debug)]
pub(super) struct Steering {
    controllers: Vec<JoinHandle<Steered>>,
    sampler: Option<JoinHandle<Sampled>>,
}

/// What a controller did.
#[derive(Debug, Default)]
struct Steered {
    gauges: Gauges,
    /// The first thing that a router refused.
    refused: Option<String>,
}

/// What was seen of the watched queues.
#[derive(Debug)]
struct Sampled {
    step: Span,
    /// Name, packets held at each sampling, and the gauges of the last one.
    queues: Vec<(String, Vec<f64>, BTreeMap<String, u64>)>,
}

/// When a run begins and ends, on the machine's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Its common start.
    pub(super) start: Instant,
    /// Its end.
    pub(super) end: Instant,
    /// Its seed.
    pub(super) seed: u64,
}

impl Steering {
    /// Starts what the scenario asks for; `socket` gives the service of a router by its name.
    pub(super) fn start(
        scenario: &Scenario,
        topology: &Topology,
        socket: &dyn Fn(&str) -> PathBuf,
        course: Course,
    ) -> Result<Self, Error> {
        let failed = |error| Error::io("cannot start a thread")(error);
        let controllers = scenario.controllers.iter().map(|described| {
            let queues = Queues::new(topology, &topology.steered(scenario, described), socket);
            let period = described.period.max(PERIOD_MIN);
            let channel = Channel::new(described, period, &Streams::new(course.seed));
            let reads: Vec<_> = described.spec.reads().collect();
            let steered = Steered {
                gauges: Gauges::new(period),
                refused: None,
            };
            let thread = thread::Builder::new().name(format!("controller-{}", described.name));
            thread.spawn(move || steer(channel, queues, &reads, steered, course))
        });
        let controllers = controllers.collect::<Result<_, _>>().map_err(failed)?;
        let watched = match scenario.watch {
            Some(_) => topology.watched(scenario),
            None => Vec::new(),
        };
        let sampler = (!watched.is_empty()).then(|| {
            let queues = Queues::new(topology, &watched, socket);
            let step = scenario.sample.max(PERIOD_MIN);
            let thread = thread::Builder::new().name("sampler".into());
            thread.spawn(move || sample(watched, queues, step, course))
        });
        Ok(Self {
            controllers,
            sampler: sampler.transpose().map_err(failed)?,
        })
    }

    /// Waits for the end, and adds what was seen; gives what went wrong.
    pub(super) fn finish(
        self,
        scenario: &Scenario,
        metrics: &mut BTreeMap<String, f64>,
        curves: &mut BTreeMap<String, Curve>,
    ) -> Vec<String> {
        let steered = self.controllers.into_iter().map(JoinHandle::join);
        let steered: Vec<Steered> = steered.map(Result::unwrap_or_default).collect();
        let names = scenario.controllers.iter().map(|c| &c.name);
        let trouble = steered
            .iter()
            .zip(names)
            .filter_map(|(s, name)| Some(format!("controller {name}: {}", s.refused.as_ref()?)))
            .collect();
        let gauges: Vec<Gauges> = steered.into_iter().map(|s| s.gauges).collect();
        steered::add(scenario, &gauges, metrics, curves);
        if let Some(Ok(sampled)) = self.sampler.map(JoinHandle::join) {
            sampled.add(scenario.warm_up, metrics, curves);
        }
        trouble
    }
}

impl Sampled {
    fn add(
        self,
        warm_up: Span,
        metrics: &mut BTreeMap<String, f64>,
        curves: &mut BTreeMap<String, Curve>,
    ) {
        let skipped = warm_up.as_nanos().div_ceil(self.step.as_nanos()) as usize;
        for (name, values, gauges) in self.queues {
            if let Some(mean) = mean(values.get(skipped..).unwrap_or_default()) {
                metrics.insert(format!("queue_packets_mean.{name}"), mean);
            }
            for (gauge, value) in gauges {
                metrics.insert(format!("gauge.{name}.{gauge}"), value as f64);
            }
            let step_s = self.step.as_secs_f64();
            curves.insert(format!("queue_packets.{name}"), Curve { step_s, values });
        }
    }
}

/// Asks for the queues at each step. A router that does not answer leaves them as they were.
fn sample(watched: Vec<Watched>, mut queues: Queues, step: Span, course: Course) -> Sampled {
    let begin = |watched: Watched| (watched.name, Vec::new(), BTreeMap::new());
    let mut seen: Vec<_> = watched.into_iter().map(begin).collect();
    let mut next = course.start + step;
    while next <= course.end {
        sleep_until(next);
        for ((_, values, gauges), said) in seen.iter_mut().zip(queues.look()) {
            let latest = values.last().copied().unwrap_or(0.0);
            values.push(said.as_ref().map_or(latest, |s| s.backlog.packets as f64));
            if let Some(said) = said {
                *gauges = said.gauges;
            }
        }
        next += step;
    }
    Sampled { step, queues: seen }
}

/// Queues in routers, asked router by router.
#[derive(Debug)]
struct Queues {
    places: Vec<Place>,
    services: Vec<Service>,
}

/// Where a queue is.
#[derive(Debug)]
struct Place {
    /// Index of the router's service.
    service: usize,
    /// Name of the router's port.
    port: String,
}

/// What a router says of a queue, as far as it is needed here.
#[derive(Clone, Debug, Deserialize)]
struct Said {
    port: String,
    received: Count,
    sent: Count,
    backlog: Count,
    gauges: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Count {
    packets: u64,
    bytes: u64,
}

impl From<Count> for Tally {
    fn from(Count { packets, bytes }: Count) -> Self {
        Self { packets, bytes }
    }
}

impl Said {
    /// What a controller is handed of it.
    fn sample(&self, reads: &[&str]) -> Sample {
        let mut read = [0; READS_MAX];
        for (value, gauge) in read.iter_mut().zip(reads) {
            *value = self.gauges.get(*gauge).copied().unwrap_or(0);
        }
        Sample {
            received: self.received.into(),
            sent: self.sent.into(),
            backlog: self.backlog.into(),
            read,
        }
    }
}

impl Queues {
    fn new(topology: &Topology, queues: &[Watched], socket: &dyn Fn(&str) -> PathBuf) -> Self {
        let mut routers: Vec<usize> = Vec::new();
        let place = |queue: &Watched| {
            let service = routers.iter().position(|node| *node == queue.node);
            let service = service.unwrap_or_else(|| {
                routers.push(queue.node);
                routers.len() - 1
            });
            let interface = &topology.nodes[queue.node].interfaces[queue.port];
            Place {
                service,
                port: interface.name.clone(),
            }
        };
        let places = queues.iter().map(place).collect();
        let service = |node: usize| Service::new(&socket(&topology.nodes[node].name));
        Self {
            places,
            services: routers.into_iter().map(service).collect(),
        }
    }

    /// What each queue says; none of a router that does not answer.
    fn look(&mut self) -> Vec<Option<Said>> {
        let page = |service: &mut Service| -> Vec<Said> {
            let page = service.get("/v1/queues").ok();
            page.and_then(|page| serde_json::from_value(page).ok())
                .unwrap_or_default()
        };
        let pages: Vec<Vec<Said>> = self.services.iter_mut().map(page).collect();
        let said = |place: &Place| {
            let queues = &pages[place.service];
            queues.iter().find(|said| said.port == place.port).cloned()
        };
        self.places.iter().map(said).collect()
    }

    /// Carries orders out, router by router; what the first to refuse said.
    fn carry_out(&mut self, orders: &[Order]) -> Result<(), String> {
        let mut done = Ok(());
        for (number, service) in self.services.iter_mut().enumerate() {
            let change = |order: &Order| {
                let port = &self.places[order.queue].port;
                let path = format!("port.{port}.discipline.{}", order.parameter);
                (path, order.value.to_string())
            };
            let of_router = orders
                .chunk_by(|a, b| a.queue == b.queue)
                .filter(|of_queue| self.places[of_queue[0].queue].service == number)
                .map(|of_queue| of_queue.iter().map(change).collect());
            for changes in requests(of_router) {
                done = done.and(service.change(&changes).map_err(|e| e.to_string()));
            }
        }
        done
    }
}

/// Paths and values.
type Changes = Vec<(String, String)>;

/// The changes of several queues as requests that a router takes. Those of one queue stay together:
/// they may be wrong one by one.
fn requests(queues: impl Iterator<Item = Changes>) -> Vec<Changes> {
    let mut requests: Vec<Changes> = Vec::new();
    for mut changes in queues {
        match requests.last_mut() {
            Some(last) if last.len() + changes.len() <= CHANGES_MAX => last.append(&mut changes),
            _ => requests.push(changes),
        }
    }
    requests
}

/// Lets a controller steer its queues until the run ends.
fn steer(
    mut channel: Channel,
    mut queues: Queues,
    reads: &[&'static [&'static str]],
    mut steered: Steered,
    course: Course,
) -> Steered {
    let of_run = |now: Instant| Instant::ZERO + now.since(course.start);
    loop {
        let due = course.start + channel.due().since(Instant::ZERO);
        if due >= course.end {
            return steered;
        }
        let now = of_run(sleep_until(due));
        if channel.wants_samples(now) {
            let said = queues.look();
            let sample = |queue: usize| Some(said[queue].as_ref()?.sample(reads[queue]));
            channel.sample(now, said.len(), sample, &mut steered.gauges);
        }
        while let Some(orders) = channel.arrived(now) {
            if let Err(why) = queues.carry_out(&orders) {
                steered.refused.get_or_insert(why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_orders_are_several_requests_and_no_queue_is_split() {
        let of_queue = |n: usize| {
            let change = |name: &str| (format!("port.p{n}.discipline.{name}"), "1".to_owned());
            ["flow_control", "committed", "excess"].map(change).to_vec()
        };
        let requests = requests((0..200).map(of_queue));
        let sizes: Vec<usize> = requests.iter().map(Vec::len).collect();
        assert_eq!(sizes, [255, 255, 90]);
        assert_eq!(requests[1][0].0, "port.p85.discipline.flow_control");
        assert!(super::requests(std::iter::empty()).is_empty());
    }
}
