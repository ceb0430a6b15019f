//! Builds the simulation of a scenario: its network, its traffic, and the watched ports.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_base::pace::Load;
use weir_base::setting::Scalar;
use weir_base::{Framing, Instant, Span, Streams};
use weir_discipline::Spec;
use weir_sim::network::End;
use weir_sim::tcp::{Options, Variant};
use weir_sim::web::Web;
use weir_sim::{FlowSpec, LineSpec, Measurement, Sender, Simulation};
use weir_sim::{Network, NodeId, PortId};

use super::control::{ControllerActor, SharedRecord};
use super::layer::{LAYERS, SimulatedLayer};
use super::shaper::{ShaperActor, SharedCourse};
use crate::control::{self, ControlledQueue};
use crate::error::Error;
use crate::habitat::Habitat;
use crate::scenario::{
    Congestion, Direction, Discipline, Medium, Scenario, Shaper, TcpOptions, Traffic, TrafficKind,
    flow_name,
};
use crate::topology::{PORT_FIRST, QUEUE_PACKETS, Topology, Watched};
use crate::transports::Transports;

/// Number of source ports that the simulator assigns.
const PORTS: u32 = 55_000;

/// Refuses traffic and links that the simulator cannot model.
fn check_models(scenario: &Scenario) -> Result<(), Error> {
    for traffic in &scenario.traffic {
        if let Some(options) = traffic.kind.tcp_options()
            && options.congestion == Congestion::Bbr
        {
            let why = format!(
                "traffic {} has congestion = \"bbr\", which only the lab supports; the simulator supports cubic, sack \
                     and newreno",
                traffic.name
            );
            return Err(Error::unsupported(Habitat::Sim, why));
        }
    }
    if let Some(link) = scenario
        .links
        .iter()
        .find(|link| link.medium != Medium::Ethernet)
    {
        let why = format!(
            "link {} sets `medium`, which the simulator does not support; try --on lab",
            link.name
        );
        return Err(Error::unsupported(Habitat::Sim, why));
    }
    for traffic in &scenario.traffic {
        let flows = traffic.kind.flows();
        if flows > PORTS {
            let name = &traffic.name;
            let why =
                format!("traffic {name} has {flows} flows per host, but a host has {PORTS} ports");
            return Err(Error::unsupported(Habitat::Sim, why));
        }
    }
    Ok(())
}

/// The simulation of a scenario.
pub(super) struct World {
    pub(super) simulation: Simulation,
    /// Watched ports, by the name of their link.
    pub(super) watched: Vec<(String, PortId)>,
    /// The name of every port: its link and direction, as for the watched ports.
    pub(super) ports: Vec<String>,
    /// The record of each controller.
    pub(super) records: Vec<SharedRecord>,
    /// The record of each shaper that finds its rate, by the name of the shaper's port.
    pub(super) shapers: Vec<(String, SharedCourse)>,
    /// The network layers besides IP.
    pub(super) layers: Vec<Box<dyn SimulatedLayer>>,
}

impl World {
    /// Builds the simulation for a run with this seed.
    pub(super) fn new(
        scenario: &Scenario,
        seed: u64,
        transports: Option<&dyn Transports>,
    ) -> Result<Self, Error> {
        check_models(scenario)?;
        let topology = Topology::new(scenario)?;
        let mut network = Network::default();
        for node in &topology.nodes {
            if node.is_router {
                network.router(&node.name)
            } else {
                let interface = &node.interfaces[0];
                network.host(&node.name, interface.v4, interface.v6)
            };
        }
        let mut ports: Vec<Vec<PortId>> = vec![Vec::new(); topology.nodes.len()];
        for (index, node) in topology.nodes.iter().enumerate() {
            ports[index].resize(node.interfaces.len(), PortId(u32::MAX));
        }
        let mut taken = HashMap::new();
        for (index, node) in topology.nodes.iter().enumerate() {
            for (place, interface) in node.interfaces.iter().enumerate() {
                let (peer, peer_place) = interface.peer;
                if peer < index {
                    continue; // created from the other end
                }
                let other = &topology.nodes[peer];
                let ends = [
                    (index, interface, &other.name),
                    (peer, &other.interfaces[peer_place], &node.name),
                ];
                let ends = ends.map(|(here, interface, there)| End {
                    node: NodeId(here as u32),
                    name: port_name(&topology.nodes[here].name, there, &mut taken),
                    spec: spec(interface.discipline.as_ref()),
                });
                let framing = interface.framing.from_ethernet();
                let directions = [interface, &other.interfaces[peer_place]].map(|i| &i.direction);
                let made = add_link(&mut network, ends, directions, framing);
                ports[index][place] = made[0];
                ports[peer][peer_place] = made[1];
            }
        }
        let named = |w: Watched| (w.name, ports[w.node][w.port]);
        let watched = topology.watched(scenario).into_iter().map(named).collect();
        let ends = scenario
            .links
            .iter()
            .flat_map(|link| [(link, 0), (link, 1)]);
        let all = ends.flat_map(|(link, end)| topology.queues(scenario, link, end));
        let mut all: Vec<(String, PortId)> = all.map(named).collect();
        all.sort_by_key(|(_, port)| *port);
        let measurement = Measurement {
            from: Instant::ZERO + scenario.warm_up,
            until: Instant::ZERO + scenario.duration,
            step: scenario.sample,
            traffics: scenario.traffic.len() as u32,
        };
        let streams = Streams::new(seed);
        let simulation = Simulation::new(network, measurement, streams.clone());
        let mut world = Self {
            simulation: simulation.map_err(impossible)?,
            watched,
            ports: all.into_iter().map(|(name, _)| name).collect(),
            records: Vec::new(),
            shapers: Vec::new(),
            layers: Vec::new(),
        };
        let ids: Vec<_> = world.watched.iter().map(|(_, id)| *id).collect();
        world.simulation.watch(&ids);
        let hogs: Vec<bool> = scenario.traffic.iter().map(|t| t.hog).collect();
        if hogs.contains(&true) {
            world.simulation.examine(&ids, &hogs);
        }
        // The paths of traffic depend on them.
        for simulate in LAYERS.all() {
            world.layers.extend(simulate(
                scenario,
                &topology,
                &ports,
                &mut world.simulation,
            )?);
        }
        for (number, traffic) in scenario.traffic.iter().enumerate() {
            world.add_traffic(scenario, &topology, traffic, number as u32, seed)?;
        }
        world.add_shapers(&topology, &ports, &streams)?;
        for controller in &scenario.controllers {
            let queues = control::queues(&topology, scenario, controller);
            let port = |queue: &ControlledQueue| ports[queue.place.node][queue.place.port];
            world
                .simulation
                .expose(&queues.iter().map(port).collect::<Vec<_>>());
            let actor = ControllerActor::new(controller, &queues, port, &streams, transports)?;
            world.records.push(actor.record());
            world.simulation.actor(Box::new(actor), Instant::ZERO);
        }
        Ok(world)
    }

    /// Adds the controllers of shapers that find their rate.
    fn add_shapers(
        &mut self,
        topology: &Topology,
        ports: &[Vec<PortId>],
        streams: &Streams,
    ) -> Result<(), Error> {
        for (number, node) in topology.nodes.iter().enumerate() {
            for (place, interface) in node.interfaces.iter().enumerate() {
                let modem = interface.direction.modem.as_ref();
                let Some(Shaper::Auto(auto)) = modem.and_then(|modem| modem.shaper.as_ref()) else {
                    continue;
                };
                let port = ports[number][place];
                let hosts = topology.reflectors(auto);
                let hosts = hosts.map_err(|why| Error::unsupported(Habitat::Sim, why))?;
                let reflectors = hosts.into_iter().map(|host| {
                    let router = NodeId(number as u32);
                    let host = NodeId(host as u32);
                    self.simulation
                        .reflect(router, port, host)
                        .map_err(impossible)
                });
                let reflectors = reflectors.collect::<Result<Vec<_>, Error>>()?;
                let name = self.ports[port.0 as usize].clone();
                if auto.by_traffic {
                    let secret = streams.hash_key("round-trips");
                    let fabric = self.simulation.fabric_mut();
                    fabric.measure_round_trips(port, secret);
                }
                let actor = ShaperActor::new(auto, port, reflectors);
                self.shapers.push((name, actor.record()));
                self.simulation.actor(Box::new(actor), Instant::ZERO);
            }
        }
        Ok(())
    }

    fn add_traffic(
        &mut self,
        scenario: &Scenario,
        topology: &Topology,
        traffic: &Traffic,
        number: u32,
        seed: u64,
    ) -> Result<(), Error> {
        let pairs = topology.pairs(scenario, traffic);
        let senders = scenario
            .group(&traffic.from)
            .map_or(1, |g| g.count as usize);
        let flows = traffic.flows(pairs.len() as u32, seed);
        let stop = match traffic.stop {
            Some(stop) => Instant::ZERO + stop,
            None => Instant::FAR_FUTURE,
        };
        for (place, flow) in flows.iter().enumerate() {
            if flow.start >= traffic.end(scenario.duration) {
                continue;
            }
            let pair = place % pairs.len();
            let (from, to) = pairs[pair];
            let flow_spec = FlowSpec {
                from: NodeId(from as u32),
                to: NodeId(to as u32),
                port: PORT_FIRST + number as u16,
                ipv6: traffic.ipv6,
                source: None,
                start: Instant::ZERO + flow.start,
                stop,
                traffic: number,
                name: flow_name(&traffic.name, place),
            };
            let copies = copies(topology, traffic, to);
            let place = (pair % senders, place / pairs.len());
            self.add_flow(traffic, flow_spec, flow.size, place, &copies)
                .map_err(impossible)?;
        }
        Ok(())
    }

    fn add_flow(
        &mut self,
        traffic: &Traffic,
        mut flow_spec: FlowSpec,
        size: Option<u64>,
        (host, flow_of_host): (usize, usize),
        receivers: &[NodeId],
    ) -> Result<(), weir_sim::NetworkError> {
        match &traffic.kind {
            TrafficKind::Tcp {
                offered,
                spacing,
                activity,
                options,
                ..
            } => {
                let options = tcp_options(options);
                let load = offered.map(|rate| Load {
                    rate,
                    piece: options.mss,
                    spacing: *spacing,
                    on_off: activity.clone(),
                });
                let sender = match (load, size) {
                    (Some(load), size) => Sender::Paced(load, size),
                    (None, Some(bytes)) => Sender::Transfer(bytes),
                    (None, None) => Sender::Greedy,
                };
                self.simulation.tcp(&flow_spec, &options, sender)
            }
            TrafficKind::Udp {
                offered,
                activity,
                payload,
                spacing,
                addresses,
                ..
            } => {
                if *addresses > 1 {
                    let address = flow_of_host as u32 % addresses;
                    flow_spec.source = Some(spread_address(host, address, traffic.ipv6));
                }
                let load = Load {
                    rate: *offered,
                    piece: *payload,
                    spacing: *spacing,
                    on_off: activity.clone(),
                };
                match receivers.len() {
                    1 => self.simulation.udp(&flow_spec, load),
                    _ => {
                        let group = group_address(flow_spec.traffic, traffic.ipv6);
                        let simulation = &mut self.simulation;
                        simulation.multicast(&flow_spec, group, receivers, load)
                    }
                }
            }
            TrafficKind::Web {
                mix,
                think,
                chunks,
                options,
                ..
            } => {
                let web = Web {
                    server: flow_spec.from,
                    client: flow_spec.to,
                    port: flow_spec.port,
                    ipv6: flow_spec.ipv6,
                    options: tcp_options(options),
                    sizes: mix.clone(),
                    think: think.clone(),
                    start: flow_spec.start,
                    stop: flow_spec.stop,
                    traffic: flow_spec.traffic,
                    chunks: chunks.clone(),
                };
                self.simulation.web(web, &flow_spec.name)
            }
        }
    }
}

/// Adds a link; a direction with a modem or with changes has a line.
fn add_link(
    network: &mut Network,
    ends: [End; 2],
    directions: [&Direction; 2],
    framing: Framing,
) -> [PortId; 2] {
    let made = network.link(ends, None, Span::ZERO, framing);
    for (port, direction) in made.into_iter().zip(directions) {
        if direction.is_plain() {
            let delay = direction.delay.at(Instant::ZERO);
            network.direction(port, direction.rate_at_start(), delay);
        } else {
            let line = LineSpec {
                rate: direction.rate.clone(),
                delay: direction.delay.clone(),
                buffer: direction.modem.as_ref().map(|modem| modem.buffer),
            };
            let modem = direction.modem.as_ref();
            let shaper = modem.and_then(|modem| modem.shaper.as_ref());
            network.line(port, line, shaper.map(Shaper::first));
        }
    }
    made
}

/// The hosts that receive a flow group's packets: the first receiver, then the receivers of copies.
fn copies(topology: &Topology, traffic: &Traffic, to: usize) -> Vec<NodeId> {
    let more = traffic.kind.copies_to().iter();
    let more = more.filter_map(|name| topology.node(name));
    let all = std::iter::once(to).chain(more);
    all.map(|node| NodeId(node as u32)).collect()
}

/// The group address of a flow group's receivers.
fn group_address(traffic: u32, ipv6: bool) -> IpAddr {
    let [high, low] = [traffic >> 8, traffic & 0xff].map(|n| n as u8);
    if ipv6 {
        Ipv6Addr::new(0xff15, 0x7765, 0x6972, 0, 0, 0, 0, traffic as u16).into()
    } else {
        Ipv4Addr::new(239, 119, high, low).into()
    }
}

/// The name of a port's random stream; the second of two parallel links has a number.
fn port_name(here: &str, there: &str, taken: &mut HashMap<String, u32>) -> String {
    let name = format!("{here}>{there}");
    let count = taken.entry(name.clone()).or_default();
    *count += 1;
    match count {
        1 => name,
        n => format!("{name}#{n}"),
    }
}

/// A source address of a host that has many: from the lab's networks, as far as they suffice.
fn spread_address(host: usize, address: u32, ipv6: bool) -> IpAddr {
    const LAB: usize = 16;
    if ipv6 {
        let [high, low] = [address >> 16, address & 0xffff].map(|n| n as u16);
        return Ipv6Addr::new(0xfd77, 0x6569, 0x72ff, host as u16, 0, 1, high, low).into();
    }
    let network = match host {
        0..LAB => Ipv4Addr::new(172, 16 + host as u8, 0, 0),
        _ => Ipv4Addr::from(0x8000_0000 | (host as u32) << 16),
    };
    Ipv4Addr::from(u32::from(network) + 1 + address).into()
}

/// The discipline of the queue at an end, or a plain FIFO.
fn spec(discipline: Option<&Discipline>) -> Spec {
    match discipline {
        Some(discipline) => discipline.spec.clone(),
        None => {
            let limit = Scalar::Integer(QUEUE_PACKETS.into());
            Spec::check("fifo", [("limit", &limit)]).unwrap_or_else(|error| unreachable!("{error}"))
        }
    }
}

fn tcp_options(options: &TcpOptions) -> Options {
    let modelled = Options::default();
    // As in Linux, where both are `rto_min`. A longer minimum timeout is RFC 6298's floor of a second, and has no
    // margin.
    let granularity = modelled.granularity.min(options.min_rto);
    Options {
        variant: match options.congestion {
            Congestion::NewReno => Variant::NewReno,
            Congestion::Sack => Variant::Sack,
            Congestion::Cubic | Congestion::Bbr => Variant::Cubic,
        },
        mss: options.mss,
        initial_window: options.initial_window,
        receive_window: options.receive_window.min(u64::from(u32::MAX)) as u32,
        min_rto: options.min_rto,
        granularity: options.granularity.unwrap_or(granularity),
        initial_rto: options.initial_rto,
        ack_every: options.ack_every,
        delayed_ack: options.delayed_ack,
        byte_counting: options.byte_counting,
        ecn: options.ecn,
        timestamps: options.timestamps,
        ..modelled
    }
}

fn impossible(error: weir_sim::NetworkError) -> Error {
    Error::unsupported(Habitat::Sim, error.to_string())
}
