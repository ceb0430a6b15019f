//! Samples the watched queues of a run: a thread that queries the routers' northbound services.
//!
//! A task per router queries it at each step of the run. If a router does not answer within a step, its queues
//! keep their last values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use tokio::task::JoinSet;
use weir_base::{Instant, Span};
use weir_northbound::client::Client;

use super::elements::{PERIOD_MIN, runtime};
use super::window::RunWindow;
use crate::error::Error;
use crate::measure::queues;
use crate::metrics::Measured;
use crate::results::Curve;
use crate::scenario::Scenario;
use crate::topology::{Topology, Watched};

/// Maximum time for a router to answer; a step, if a step is shorter.
const ANSWER_MAX: Span = Span::from_secs(3);

/// The thread, if any queue is watched.
#[derive(Debug)]
pub(super) struct Sampler {
    step: Span,
    thread: Option<JoinHandle<Vec<Sampled>>>,
}

/// A watched queue, and its samples.
#[derive(Debug)]
struct Sampled {
    /// The queue's name in the result.
    name: String,
    /// The router's port.
    port: String,
    /// Packets in the queue, at each step.
    packets: Vec<f64>,
    /// The gauges at the last step.
    gauges: BTreeMap<String, u64>,
    /// Packets that the queue has sent: by the end of the warm-up, and by the last step. It sends none before the
    /// start.
    sent: [u64; 2],
}

impl Sampler {
    /// Starts the thread; `socket` gives the path of a router's service by the router's name.
    pub(super) fn start(
        scenario: &Scenario,
        topology: &Topology,
        socket: &dyn Fn(&str) -> PathBuf,
        window: RunWindow,
    ) -> Result<Self, Error> {
        let mut routers: BTreeMap<usize, Vec<Sampled>> = BTreeMap::new();
        let watched = scenario.watch.as_ref().map(|_| topology.watched(scenario));
        for Watched { name, node, port } in watched.unwrap_or_default() {
            routers.entry(node).or_default().push(Sampled {
                name,
                port: topology.nodes[node].interfaces[port].name.clone(),
                packets: Vec::new(),
                gauges: BTreeMap::new(),
                sent: [0; 2],
            });
        }
        let socket = |node: usize| socket(&topology.nodes[node].name);
        let routers = routers.into_iter();
        let routers: Vec<_> = routers.map(|(node, all)| (socket(node), all)).collect();
        let step = scenario.sample.max(PERIOD_MIN);
        let warm_up = Instant::ZERO + scenario.warm_up;
        let thread = (!routers.is_empty()).then(|| {
            let runtime = runtime()?;
            let thread = thread::Builder::new().name("sampler".into());
            thread.spawn(move || runtime.block_on(sample(routers, step, warm_up, window)))
        });
        let thread = thread.transpose();
        let thread = thread.map_err(Error::io("cannot start the sampler's thread"))?;
        Ok(Self { step, thread })
    }

    /// Waits for the thread to end, and adds the samples.
    pub(super) fn finish(
        self,
        warm_up: Span,
        measured: &mut Measured,
        curves: &mut BTreeMap<String, Curve>,
    ) {
        let sampled = self.thread.map(JoinHandle::join).and_then(Result::ok);
        let skipped = warm_up.steps(self.step);
        let step_s = self.step.as_secs_f64();
        for sampled in sampled.into_iter().flatten() {
            let (name, values) = (sampled.name, sampled.packets);
            let [before, after] = sampled.sent;
            let queue = queues::Queue {
                packets: values.get(skipped..).unwrap_or_default(),
                sent: after.saturating_sub(before),
            };
            queues::add_metrics(queue, &[&name], measured);
            for (gauge, value) in sampled.gauges {
                queues::add_gauge(value, &[&name, &gauge], measured);
            }
            curves.insert(format!("queue_packets.{name}"), Curve { step_s, values });
        }
    }
}

/// Samples the queues of all routers until the end of the run.
async fn sample(
    routers: Vec<(PathBuf, Vec<Sampled>)>,
    step: Span,
    warm_up: Instant,
    window: RunWindow,
) -> Vec<Sampled> {
    let mut tasks = JoinSet::new();
    for (socket, queues) in routers {
        tasks.spawn(sample_router(socket, queues, step, warm_up, window));
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// Samples the queues of one router.
async fn sample_router(
    socket: PathBuf,
    mut queues: Vec<Sampled>,
    step: Span,
    warm_up: Instant,
    window: RunWindow,
) -> Vec<Sampled> {
    let mut client = Client::new(&socket);
    let mut next = Instant::ZERO + step;
    while next <= window.last() {
        window.sleep_until(next).await;
        let left = window.until(next + step.min(ANSWER_MAX));
        let answer = tokio::time::timeout(left, client.queues()).await;
        let answer = answer.map_or_else(|_| Vec::new(), Result::unwrap_or_default);
        for sampled in &mut queues {
            let queue = answer.iter().find(|queue| queue.port == sampled.port);
            let latest = sampled.packets.last().copied().unwrap_or(0.0);
            let packets = queue.map_or(latest, |queue| queue.backlog.packets as f64);
            sampled.packets.push(packets);
            if let Some(queue) = queue {
                sampled.gauges.clone_from(&queue.gauges);
                sampled.sent[1] = queue.sent.packets;
                if next <= warm_up {
                    sampled.sent[0] = queue.sent.packets;
                }
            }
        }
        next += step;
    }
    queues
}
