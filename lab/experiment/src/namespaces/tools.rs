//! The traffic tools that a scenario needs: on which nodes, and with which options.
//!
//! Flow group number n of the scenario has port 5001 + n at its receiver, so the port in a receiver's report identifies
//! the flow group.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use weir_base::pace::OnOff;
use weir_base::{Bytes, Instant, Spacing, Span};

use super::endpoints::kernel_word;
use super::routes::{Routes, group_address};
use super::traffic::{Chance, Command, Line, Rhythm, Timetable, Timing, sink, tcp, udp, web};
use crate::scenario::{Flow, Scenario, Starts, TcpOptions, Traffic, TrafficKind};
use crate::topology::{PORT_FIRST, Topology};

/// A tool to start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invocation {
    /// Index of the node in the topology.
    pub(crate) node: usize,
    /// The tool's name in messages.
    pub(crate) what: String,
    /// The tool's purpose.
    pub(crate) role: Role,
    command: Command,
}

/// The purpose of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Receives every flow group sent to its host, which is this node.
    Sink { node: usize },
    /// Serves the files of a flow group.
    Serve,
    /// Sends or fetches for the traffic of this index; with `stops` it ends before the end of the run.
    Active { traffic: usize, stops: bool },
}

impl Role {
    /// Whether the tool must listen before others start.
    pub(crate) fn listens(&self) -> bool {
        matches!(self, Self::Sink { .. } | Self::Serve)
    }

    /// Whether the tool may end before the end of the run.
    pub(crate) fn may_end_early(&self) -> bool {
        matches!(self, Self::Active { stops: true, .. })
    }

    /// The index of the traffic of a line of the tool's report.
    pub(crate) fn traffic_of(&self, line: &Line) -> Option<usize> {
        match (self, line) {
            (Self::Active { traffic, .. }, _) => Some(*traffic),
            (Self::Sink { .. }, Line::Flow(flow)) => Some(usize::from(flow.port - PORT_FIRST)),
            (Self::Sink { .. }, Line::Series(series)) => {
                Some(usize::from(series.port - PORT_FIRST))
            }
            (Self::Sink { .. }, Line::Delays(delays)) => {
                Some(usize::from(delays.port - PORT_FIRST))
            }
            _ => None,
        }
    }
}

impl Invocation {
    /// The arguments of `weir traffic`, for a run that starts at `start`.
    pub(crate) fn args(&self, start: Instant) -> Vec<String> {
        let start = format!("--start-ns={}", start.as_nanos());
        let mut args = match &self.command {
            Command::Sink(options) => options.to_args(),
            Command::Tcp(options) => options.to_args(),
            Command::Udp(options) => options.to_args(),
            Command::Web(web::Command::Serve(options)) => options.to_args(),
            Command::Web(web::Command::Fetch(options)) => options.to_args(),
        };
        args.push(start);
        args
    }
}

/// All tools of a scenario.
pub(crate) fn invocations(
    scenario: &Scenario,
    topology: &Topology,
    routes: &Routes,
    seed: u64,
) -> Vec<Invocation> {
    let timing = Timing {
        duration: scenario.duration,
        warm_up: scenario.warm_up,
        interval: interval(scenario.sample),
        start_ns: None,
    };
    let mut invocations = Vec::new();
    let mut sinks: BTreeMap<usize, sink::Options> = BTreeMap::new();
    for (index, traffic) in scenario.traffic.iter().enumerate() {
        let port = PORT_FIRST + index as u16;
        let pairs = topology.pairs(scenario, traffic);
        let flows = traffic.flows(pairs.len() as u32, seed);
        for (place, &(from, to)) in pairs.iter().enumerate() {
            let flows: Vec<Flow> = flows
                .iter()
                .skip(place)
                .step_by(pairs.len())
                .copied()
                .collect();
            let place = Place {
                topology,
                spread: routes.spread[from],
                flows: &flows,
                traffic,
                port,
                from,
                to,
                index,
                until: traffic.stop,
                timing: &timing,
                chance: Chance {
                    seed,
                    name: traffic.name.clone(),
                    first: place as u32,
                    step: pairs.len() as u32,
                },
            };
            match traffic.kind {
                TrafficKind::Web { .. } => {
                    // The server of a flow group with many client hosts starts once.
                    let mut tools = place.web();
                    tools.retain(|tool| !invocations.contains(tool));
                    invocations.extend(tools);
                }
                _ => {
                    let copies = traffic.kind.copies_to().iter();
                    let copies = copies.filter_map(|host| topology.node(host));
                    for receiver in std::iter::once(to).chain(copies) {
                        let sink = sinks.entry(receiver).or_insert_with(|| sink::Options {
                            tcp: Vec::new(),
                            udp: Vec::new(),
                            timing: timing.clone(),
                        });
                        let ports = match traffic.kind {
                            TrafficKind::Tcp { .. } => &mut sink.tcp,
                            _ => &mut sink.udp,
                        };
                        if !ports.contains(&port) {
                            ports.push(port);
                        }
                    }
                    invocations.extend(place.sender());
                }
            }
        }
    }
    invocations.extend(sinks.into_iter().map(|(node, options)| Invocation {
        node,
        what: format!("the receiver on {}", topology.nodes[node].name),
        role: Role::Sink { node },
        command: Command::Sink(options),
    }));
    invocations
}

/// The interval in which receivers count: it divides a step of this length evenly.
fn interval(sample: Span) -> Span {
    const USUAL: Span = Span::from_millis(100);
    match sample.as_nanos() % USUAL.as_nanos() {
        0 => USUAL,
        _ => sample,
    }
}

/// One sender and receiver of a flow group.
struct Place<'a> {
    topology: &'a Topology,
    /// The network of the sender's extra addresses.
    spread: Option<Ipv4Addr>,
    /// The flows of the sender, or of the clients at the receiver.
    flows: &'a [Flow],
    traffic: &'a Traffic,
    port: u16,
    from: usize,
    to: usize,
    index: usize,
    until: Option<Span>,
    timing: &'a Timing,
    chance: Chance,
}

impl Place<'_> {
    fn address(&self, node: usize) -> SocketAddr {
        let interface = &self.topology.nodes[node].interfaces[0];
        if self.traffic.ipv6 {
            (interface.v6, self.port).into()
        } else {
            (interface.v4, self.port).into()
        }
    }

    fn invocation(&self, node: usize, role: Role, command: Command) -> Invocation {
        let host = &self.topology.nodes[node].name;
        Invocation {
            node,
            what: format!("traffic {} on {host}", self.traffic.name),
            role,
            command,
        }
    }

    fn active(&self) -> Role {
        Role::Active {
            traffic: self.index,
            stops: self.until.is_some(),
        }
    }

    fn timetable(&self) -> Timetable {
        Timetable {
            chance: self.chance.clone(),
            from: self.traffic.start,
            // Empty if all start at once.
            starts: match self.traffic.starts {
                Starts::Spread(Span::ZERO) => Vec::new(),
                _ => self.flows.iter().map(|f| f.start).collect(),
            },
            until: self.until,
            timing: self.timing.clone(),
        }
    }

    /// The size of each flow; empty if flows have no size.
    fn sizes(&self) -> Vec<Bytes> {
        let mut sizes: Vec<Bytes> = self
            .flows
            .iter()
            .filter_map(|f| f.size.map(Bytes))
            .collect();
        // The last size applies to all flows that follow.
        if sizes.windows(2).all(|pair| pair[0] == pair[1]) {
            sizes.truncate(1);
        }
        sizes
    }

    fn sender(&self) -> Option<Invocation> {
        let to = self.address(self.to);
        let command = match &self.traffic.kind {
            TrafficKind::Tcp {
                flows,
                offered,
                spacing,
                options,
                size: _,
                activity,
            } => Command::Tcp(tcp::Options {
                to,
                flows: *flows,
                congestion: kernel_word(options.congestion).to_owned(),
                mss: mss(options),
                sizes: self.sizes(),
                rate: *offered,
                rhythm: rhythm(*spacing, activity.as_ref()),
                timetable: self.timetable(),
            }),
            TrafficKind::Udp {
                flows,
                offered,
                payload,
                spacing,
                addresses,
                activity,
                copies_to,
            } => Command::Udp(udp::Options {
                to: match copies_to[..] {
                    [] => to,
                    _ => (group_address(self.index, self.traffic.ipv6), self.port).into(),
                },
                flows: *flows,
                rate: *offered,
                payload: *payload,
                rhythm: rhythm(*spacing, activity.as_ref()),
                source: self
                    .spread
                    .filter(|_| *addresses > 1)
                    .map(|network| (u32::from(network) + 1).into()),
                addresses: *addresses,
                timetable: self.timetable(),
            }),
            TrafficKind::Web { .. } => return None,
        };
        Some(self.invocation(self.from, self.active(), command))
    }

    fn web(&self) -> Vec<Invocation> {
        let TrafficKind::Web {
            clients,
            mix,
            think,
            options,
            ..
        } = &self.traffic.kind
        else {
            return Vec::new();
        };
        let serve = Command::Web(web::Command::Serve(web::serve::Options {
            port: self.port,
            congestion: kernel_word(options.congestion).to_owned(),
            mss: mss(options),
            timing: self.timing.clone(),
        }));
        let fetch = Command::Web(web::Command::Fetch(web::fetch::Options {
            server: self.address(self.from),
            clients: *clients,
            mix: mix.clone(),
            think: think.clone(),
            timetable: self.timetable(),
        }));
        vec![
            self.invocation(self.from, Role::Serve, serve),
            self.invocation(self.to, self.active(), fetch),
        ]
    }
}

fn rhythm(spacing: Spacing, activity: Option<&OnOff>) -> Rhythm {
    Rhythm {
        spacing,
        on: activity.map(|activity| activity.on.clone()),
        off: activity.map(|activity| activity.off.clone()),
    }
}

/// The segments' payload, if it differs from that of the lab's wires.
fn mss(options: &TcpOptions) -> Option<u32> {
    (options.mss != TcpOptions::default().mss).then_some(options.mss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;
    use clap::Parser;
    use rand::RngExt;
    use weir_base::{Stream, Streams};

    #[derive(Debug, Parser)]
    struct Weir {
        #[command(subcommand)]
        command: Command,
    }

    const TEXT: &str = r#"
title = "t"
[router.r]
[host.a]
count = 2
[host.b]
[link.in]
ends = ["a", "r"]
[link.out]
ends = ["r", "b"]
[traffic.long]
kind = "tcp"
from = "a"
to = "b"
congestion = "sack"
mss = "1000 B"
flows = 3
size = "exponential 1 MB"
spread = "2 s"
rate = "0.5*t + 2 Mbit"
spacing = "poisson"
[traffic.flood]
kind = "udp"
from = "a"
to = "b"
flows = 5
addresses = 3
rate = "2*t - 1 Mbit"
on = "pareto 1.5 0.5 s"
off = "0.5 s"
start = "1 s"
stop = "6 s"
[traffic.web]
kind = "web"
from = "b"
to = "a"
clients = 2
think = "exponential 2 s"
arrivals = "0.1 s"
"#;

    /// All tools of [`TEXT`].
    fn tools(seed: u64) -> Vec<Invocation> {
        let (scenario, _) = plan(TEXT, &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let routes = Routes::new(&scenario, &topology);
        invocations(&scenario, &topology, &routes, seed)
    }

    #[test]
    fn what_is_ordered_is_what_a_tool_reads() {
        let invocations = tools(1);
        // two TCP, two UDP, one server, two groups of clients, one sink
        assert_eq!(invocations.len(), 2 + 2 + 1 + 2 + 1);
        for invocation in invocations {
            let mut args = invocation.args(Instant::from_nanos(7));
            args.insert(0, "traffic".into());
            let read = Weir::try_parse_from(&args).unwrap().command;
            let mut expected = invocation.command.clone();
            let timing = match &mut expected {
                Command::Sink(o) => &mut o.timing,
                Command::Tcp(o) => &mut o.timetable.timing,
                Command::Udp(o) => &mut o.timetable.timing,
                Command::Web(web::Command::Serve(o)) => &mut o.timing,
                Command::Web(web::Command::Fetch(o)) => &mut o.timetable.timing,
            };
            timing.start_ns = Some(7);
            assert_eq!(read, expected);
        }
    }

    /// Two hosts send five flows each; the simulator numbers them alternately, so the second host's third flow is
    /// number 5.
    #[test]
    fn a_flow_draws_from_the_stream_of_the_same_flow_in_simulation() {
        let mut hosts = tools(7)
            .into_iter()
            .filter_map(|invocation| match invocation.command {
                Command::Udp(options) => Some(options.timetable.chance),
                _ => None,
            });
        let (_, mut second) = (hosts.next().unwrap(), hosts.next().unwrap().flow(2));
        let mut simulated = weir_sim::flow_stream(&Streams::new(7), "flood.5");
        let draws = |stream: &mut Stream| [stream.random(), stream.random::<u64>()];
        assert_eq!(draws(&mut second), draws(&mut simulated));
    }
}
