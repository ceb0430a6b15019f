//! Speed of the simulator: packets through the bottleneck in a second of processor time.
//!
//! ```text
//!  source 1 ──┐                                  ┌── sink 1
//!    ...      ├──[ r1 ]═══════════════[ r2 ]─────┤    ...          1 ms, 10 ms, 1 ms
//!  source n ──┘       the bottleneck             └── sink n
//! ```
//!
//! `bottleneck` is the workload that the literature uses to compare simulators: twenty greedy TCP
//! connections with SACK, an acknowledgment for each packet, a drop-tail queue. `fan` is the network
//! of the AFAN paper: hundreds of transfers of random size, each between its own pair of hosts, and
//! RED with a queue of thousands of packets. Every packet is queued five times or more on its way there
//! and back; only the passage through the bottleneck is counted.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;
use weir_base::setting::Scalar;
use weir_base::{Distribution, Framing, Instant, Rate, Sizes, Span, Streams, Times};
use weir_discipline::Spec;
use weir_discipline::spec::SpecError;
use weir_live::clock;
use weir_sim::NetworkError;
use weir_sim::network::End;
use weir_sim::tcp::{Options, Variant};
use weir_sim::{FlowSpec, Measurement, Network, NodeId, PortId, Sender, Simulation};

/// Bytes to add to a frame's length: the links have no Ethernet header, as in the simulators to compare with.
const FRAMING: Framing = Framing::bytes(-14);
/// Delay of the access links.
const ACCESS_DELAY: Span = Span::from_millis(1);
/// Delay of the bottleneck.
const DELAY: Span = Span::from_millis(10);

/// One workload's speed.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// Simulated seconds.
    pub simulated_s: f64,
    /// Processor time of the run without set-up, the smallest of the rounds.
    pub cpu_s: f64,
    /// Packets through the bottleneck.
    pub packets: u64,
    /// Packets through the bottleneck per second of processor time.
    pub packets_per_cpu_s: f64,
    /// Events per second of processor time.
    pub events_per_cpu_s: f64,
}

/// Why a workload could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A queue.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

/// The simulated network and its traffic.
struct Workload {
    name: &'static str,
    rate: Rate,
    access: Rate,
    queue: Spec,
    /// Number of connections, each between its own pair of hosts.
    flows: u32,
    /// Mean time between the starts of two connections.
    gap: Span,
    /// Mean bytes of a transfer (Pareto, shape 1.5); `None` for greedy connections.
    size: Option<f64>,
    mss: u32,
    length: Span,
}

/// Measures every workload `rounds` times.
pub fn run(rounds: usize) -> Result<Vec<Row>, Error> {
    workloads()?
        .iter()
        .map(|workload| measure(workload, rounds))
        .collect()
}

fn workloads() -> Result<Vec<Workload>, SpecError> {
    let bottleneck = |name, mbps, limit, seconds| {
        Ok::<_, SpecError>(Workload {
            name,
            rate: Rate::from_mbps(mbps),
            access: Rate::from_mbps(1000),
            queue: fifo(limit)?,
            flows: 20,
            gap: Span::from_millis(50),
            size: None,
            mss: 960,
            length: Span::from_secs(seconds),
        })
    };
    let fan = |name, mbps: u64, seconds| {
        Ok::<_, SpecError>(Workload {
            name,
            rate: Rate::from_mbps(mbps),
            access: Rate::from_mbps(mbps / 10),
            queue: red(mbps)?,
            flows: 4 * mbps as u32,
            gap: Span::from_millis(200),
            size: Some(210e6 / 8.0),
            mss: 1000,
            length: Span::from_secs(seconds),
        })
    };
    Ok(vec![
        bottleneck("bottleneck, 100 Mbit/s", 100, 300, 60)?,
        bottleneck("bottleneck, 1 Gbit/s", 1000, 3000, 10)?,
        fan("fan, 100 Mbit/s", 100, 300)?,
        fan("fan, 1 Gbit/s", 1000, 20)?,
    ])
}

fn measure(workload: &Workload, rounds: usize) -> Result<Row, Error> {
    let mut best = f64::INFINITY;
    let (mut packets, mut events) = (0, 0);
    for _ in 0..rounds.max(1) {
        let (mut simulation, port) = build(workload)?;
        let before = clock::thread_cpu_time();
        simulation.run_until(Instant::ZERO + workload.length);
        best = best.min((clock::thread_cpu_time() - before).as_secs_f64());
        packets = simulation.fabric().port(port).sent().packets;
        events = simulation.fabric().events();
    }
    Ok(Row {
        workload: workload.name.to_owned(),
        simulated_s: workload.length.as_secs_f64(),
        cpu_s: best,
        packets,
        packets_per_cpu_s: packets as f64 / best,
        events_per_cpu_s: events as f64 / best,
    })
}

fn build(workload: &Workload) -> Result<(Simulation, PortId), Error> {
    let mut network = Network::default();
    let [r1, r2] = ["r1", "r2"].map(|name| network.router(name));
    let plain = fifo(1000)?;
    let end = |node: NodeId, spec: &Spec| End {
        node,
        name: format!("{}", node.0),
        spec: spec.clone(),
    };
    let reverse = fifo(10_000)?;
    let ends = [end(r1, &workload.queue), end(r2, &reverse)];
    let [port, _] = network.link(ends, Some(workload.rate), DELAY, FRAMING);
    let mut pairs = Vec::new();
    for number in 0..workload.flows {
        let [source, sink] = [(r1, 10_u32), (r2, 11)].map(|(router, net)| {
            let address = Ipv4Addr::from((net << 24) + number + 1);
            let host = network.host(&address.to_string(), address, Ipv6Addr::UNSPECIFIED);
            let ends = [end(host, &plain), end(router, &plain)];
            network.link(ends, Some(workload.access), ACCESS_DELAY, FRAMING);
            host
        });
        pairs.push((source, sink));
    }
    let measurement = Measurement {
        from: Instant::ZERO,
        until: Instant::ZERO + workload.length,
        step: Span::from_millis(500),
        traffics: 1,
    };
    let streams = Streams::new(1);
    let mut simulation = Simulation::new(network, measurement, streams.clone())?;
    let options = Options {
        variant: Variant::Sack,
        mss: workload.mss,
        initial_window: 2,
        receive_window: 1 << 20,
        ack_every: 1,
        ..Options::default()
    };
    let (mut starts, mut sizes) = (streams.stream("starts"), streams.stream("sizes"));
    let gaps = Times(Distribution::Exponential {
        mean: workload.gap.as_secs_f64(),
    });
    let mut start = Instant::ZERO;
    for (number, (from, to)) in pairs.into_iter().enumerate() {
        let flow_spec = FlowSpec {
            from,
            to,
            port: 9,
            ipv6: false,
            source: None,
            start,
            stop: Instant::FAR_FUTURE,
            traffic: 0,
            name: number.to_string(),
        };
        let sender = match workload.size {
            None => Sender::Greedy,
            Some(mean) => Sender::Transfer(
                Sizes(Distribution::Pareto {
                    shape: 1.5,
                    mean,
                    max: None,
                })
                .sample(&mut sizes),
            ),
        };
        simulation.tcp(&flow_spec, &options, sender)?;
        start += gaps.sample(&mut starts);
    }
    Ok((simulation, port))
}

fn fifo(limit: i64) -> Result<Spec, SpecError> {
    Spec::check("fifo", [("limit", &Scalar::Integer(limit))])
}

/// RED as in the AFAN paper: between 4000 and 9000 of 10 000 packets.
fn red(mbps: u64) -> Result<Spec, SpecError> {
    let rate = Scalar::Text(format!("{mbps} Mbit"));
    let mean_packet = Scalar::Text("1040 B".into());
    let [limit, min, max] = [10_000, 4_000, 9_000].map(Scalar::Integer);
    let probability = Scalar::Real(0.02);
    Spec::check(
        "red",
        [
            ("limit", &limit),
            ("min_threshold", &min),
            ("max_threshold", &max),
            ("max_probability", &probability),
            ("rate", &rate),
            ("mean_packet", &mean_packet),
        ],
    )
}
