//! Builds nodes, interfaces and addresses from a scenario, and finds the paths between the nodes. This module starts
//! nothing, and does not depend on the habitat.
//!
//! ```text
//!   wire n:  10.(64 + n/256).(n mod 256).0/24   and   fd77:6569:7200:n::/64
//!            first end .1, second end .2
//! ```
//!
//! Addresses follow from the order of the links in the file, so they are the same in every run.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_base::graph::{Graph, ShortestPaths};
use weir_controller::Role;

use crate::error::Error;
use crate::scenario::{
    Auto, Controller, Direction, Discipline, HostGroup, Link, Scenario, Traffic,
};

/// Port of the first flow group at its receiver; each further flow group has the next port.
pub const PORT_FIRST: u16 = 5001;
/// Length in packets of a queue without a discipline: the kernel's default.
pub const QUEUE_PACKETS: u32 = 1000;
/// Maximum number of wires: each wire has its own network.
pub const WIRES_MAX: usize = 192 * 256;

/// The network of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Routers first, then hosts.
    pub nodes: Vec<Node>,
    /// Number of wires.
    pub wires: usize,
    places: HashMap<String, usize>,
}

/// A router or a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The name.
    pub name: String,
    /// Whether it is a router.
    pub is_router: bool,
    /// The interfaces; a host has one.
    pub interfaces: Vec<Interface>,
}

/// One end of a wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// The name: the peer's name on a router (the port's name), `eth0` on a host.
    pub name: String,
    /// IPv4 address, in a /24.
    pub v4: Ipv4Addr,
    /// IPv6 address, in a /64.
    pub v6: Ipv6Addr,
    /// The node and interface at the other end.
    pub peer: (usize, usize),
    /// The number of the wire.
    pub wire: usize,
    /// The index of the wire's link in the scenario.
    pub link: usize,
    /// Rate and delay of the packets that the interface sends.
    pub direction: Direction,
    /// From a packet's IP length to its bytes on the wire.
    pub framing: weir_base::Framing,
    /// The discipline of the queue in front of the interface; if `None`, a FIFO of 1000 packets.
    pub discipline: Option<Discipline>,
}

/// A queue that is sampled or controlled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The queue's name in the result: the link's name; with the suffix `.reverse` at the link's second end; with the
    /// host's name if the link has many wires.
    pub name: String,
    /// The index of the node.
    pub node: usize,
    /// The index of the node's interface.
    pub port: usize,
}

impl Topology {
    /// Builds the network of a scenario.
    pub fn new(scenario: &Scenario) -> Result<Self, Error> {
        let mut topology = Self {
            nodes: Vec::new(),
            wires: 0,
            places: HashMap::new(),
        };
        let routers = scenario.routers.iter();
        let routers = routers.map(|router| (router.name.clone(), true));
        let hosts = scenario.hosts.iter().flat_map(HostGroup::members);
        for (name, is_router) in routers.chain(hosts.map(|name| (name, false))) {
            topology.places.insert(name.clone(), topology.nodes.len());
            topology.nodes.push(Node {
                name,
                is_router,
                interfaces: Vec::new(),
            });
        }
        let mut names = HashSet::new();
        for (index, link) in scenario.links.iter().enumerate() {
            for first in members(scenario, &link.ends[0]) {
                for second in members(scenario, &link.ends[1]) {
                    topology.add_wire(index, link, [&first, &second], &mut names)?;
                }
            }
        }
        topology.check(scenario)?;
        Ok(topology)
    }

    /// The index of the node of this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The nodes of a shaper's reflectors. The error names a reflector that is not a host.
    pub fn reflectors(&self, auto: &Auto) -> Result<Vec<usize>, String> {
        let host = |name: &String| {
            let host = self.node(name).filter(|node| !self.nodes[*node].is_router);
            host.ok_or_else(|| {
                format!(
                    "the reflector \"{name}\" is not a single host; name a host behind the link that is not a group"
                )
            })
        };
        auto.reflectors.iter().map(host).collect()
    }

    /// Sending and receiving node of each pair of hosts of a flow group.
    pub fn pairs(&self, scenario: &Scenario, traffic: &Traffic) -> Vec<(usize, usize)> {
        let nodes = |group: &str| -> Vec<usize> {
            let members = members(scenario, group);
            members.iter().filter_map(|name| self.node(name)).collect()
        };
        let (from, to) = (nodes(&traffic.from), nodes(&traffic.to));
        // One host has all others as its partners.
        let member = |group: &[usize], n: usize| group[n % group.len()];
        let pairs = 0..scenario.pairs(traffic);
        pairs.map(|n| (member(&from, n), member(&to, n))).collect()
    }

    /// The shortest paths between the nodes, by their indices.
    pub fn shortest_paths(&self) -> ShortestPaths {
        let mut graph = Graph::default();
        for node in &self.nodes {
            graph.add_node(node.is_router);
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for interface in &node.interfaces {
                graph.add_port(index, interface.peer.0);
            }
        }
        graph.shortest_paths()
    }

    /// The queues to sample: for each watched link the queues with a discipline, or the first end's if neither end has
    /// a discipline.
    pub fn watched(&self, scenario: &Scenario) -> Vec<Watched> {
        let mut watched = Vec::new();
        for link in scenario.watched() {
            let mut ends = vec![(&link.discipline, 0), (&link.reverse_discipline, 1)];
            ends.retain(|(discipline, _)| discipline.is_some());
            if ends.is_empty() {
                ends.push((&link.discipline, 0));
            }
            for (_, end) in ends {
                watched.extend(self.queues(scenario, link, end));
            }
        }
        watched
    }

    /// The queues of a controller, each with its role, in the order of the roles.
    pub fn steered(
        &self,
        scenario: &Scenario,
        controller: &Controller,
    ) -> Vec<(&'static Role, Watched)> {
        let queues = controller.queues.iter().flat_map(|queue| {
            let link = scenario.links.iter().find(|link| link.name == queue.link);
            let queues = link.map(|link| self.queues(scenario, link, usize::from(queue.reverse)));
            let queues = queues.into_iter().flatten();
            queues.map(|place| (queue.role, place))
        });
        queues.collect()
    }

    /// The queues at an end of a link, one for each wire of the link.
    pub fn queues(&self, scenario: &Scenario, link: &Link, end: usize) -> Vec<Watched> {
        let mut queues = Vec::new();
        let members = |end: usize| members(scenario, &link.ends[end]);
        let index = scenario.links.iter().position(|l| l == link);
        let suffix = [String::new(), ".reverse".to_owned()];
        let (here, there) = (members(end), members(1 - end));
        let many = here.len() * there.len() > 1;
        for node in here.iter().filter_map(|name| self.node(name)) {
            let ports = self.nodes[node].interfaces.iter().enumerate();
            // Both ends of a wire have the same link; this end's peer belongs to the other group.
            for (port, interface) in ports.filter(|(_, i)| Some(i.link) == index) {
                let peer = &self.nodes[interface.peer.0];
                let host = match here.len() {
                    1 => &peer.name,
                    _ => &self.nodes[node].name,
                };
                let of = if many {
                    format!(".{host}")
                } else {
                    String::new()
                };
                queues.push(Watched {
                    name: format!("{}{of}{}", link.name, suffix[end]),
                    node,
                    port,
                });
            }
        }
        queues
    }

    fn add_wire(
        &mut self,
        index: usize,
        link: &Link,
        ends: [&str; 2],
        names: &mut HashSet<(usize, String)>,
    ) -> Result<(), Error> {
        let missing = |name: &str| Error::Network(format!("unknown node {name}"));
        let nodes = [
            self.node(ends[0]).ok_or_else(|| missing(ends[0]))?,
            self.node(ends[1]).ok_or_else(|| missing(ends[1]))?,
        ];
        let wire = self.wires;
        if wire == WIRES_MAX {
            return Err(Error::Network(format!(
                "more than {WIRES_MAX} links, which is the maximum"
            )));
        }
        self.wires += 1;
        let places = nodes.map(|n| self.nodes[n].interfaces.len());
        let disciplines = [link.discipline.clone(), link.reverse_discipline.clone()];
        for (end, discipline) in disciplines.into_iter().enumerate() {
            let other = 1 - end;
            let name = self.interface_name(nodes[end], nodes[other], names);
            let node = &mut self.nodes[nodes[end]];
            if !node.is_router {
                node.interfaces.reserve_exact(1); // exact, since there may be thousands of hosts
            }
            node.interfaces.push(Interface {
                name,
                v4: v4_address(wire, end),
                v6: v6_address(wire, end),
                peer: (nodes[other], places[other]),
                wire,
                link: index,
                direction: link.directions[end].clone(),
                framing: link.framing,
                discipline,
            });
        }
        Ok(())
    }

    /// A router's interface has the peer's name if the kernel accepts it, otherwise a number.
    fn interface_name(
        &self,
        node: usize,
        peer: usize,
        names: &mut HashSet<(usize, String)>,
    ) -> String {
        const LENGTH_MAX: usize = 15;
        if !self.nodes[node].is_router {
            return "eth0".into();
        }
        let name = &self.nodes[peer].name;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let fits = name.len() <= LENGTH_MAX && name.chars().all(plain) && name != "lo";
        if fits && names.insert((node, name.clone())) {
            name.clone()
        } else {
            format!("port{}", self.nodes[node].interfaces.len())
        }
    }

    /// Checks that every host has one link, and that every sender can reach its receivers.
    fn check(&self, scenario: &Scenario) -> Result<(), Error> {
        for host in self.nodes.iter().filter(|n| !n.is_router) {
            if host.interfaces.len() != 1 {
                return Err(Error::Network(format!(
                    "host {} has {} links; a host must have exactly one",
                    host.name,
                    host.interfaces.len()
                )));
            }
        }
        let islands = self.islands();
        for traffic in &scenario.traffic {
            for (from, to) in self.pairs(scenario, traffic) {
                if islands[from] != islands[to] {
                    let (from, to) = (&self.nodes[from].name, &self.nodes[to].name);
                    let why = format!("no path from {from} to {to}");
                    return Err(Error::Network(why));
                }
            }
        }
        Ok(())
    }

    /// The connected parts of the network: for each node, the first node of its part.
    fn islands(&self) -> Vec<usize> {
        let mut islands = vec![usize::MAX; self.nodes.len()];
        for first in 0..self.nodes.len() {
            let mut open = vec![first];
            while let Some(node) = open.pop() {
                if islands[node] == usize::MAX {
                    islands[node] = first;
                    open.extend(self.nodes[node].interfaces.iter().map(|i| i.peer.0));
                }
            }
        }
        islands
    }
}

/// The nodes at an end of a link, or of traffic.
fn members(scenario: &Scenario, end: &str) -> Vec<String> {
    let group = scenario.group(end);
    group.map_or_else(|| vec![end.to_owned()], HostGroup::members)
}

/// The MAC address of an interface of a node, locally administered.
pub fn mac_address(node: usize, interface: usize) -> [u8; 6] {
    let [.., n1, n0] = node.to_be_bytes();
    let [.., i1, i0] = interface.to_be_bytes();
    [0x02, 0x77, n1, n0, i1, i0]
}

fn v4_address(wire: usize, end: usize) -> Ipv4Addr {
    Ipv4Addr::new(
        10,
        64 + (wire / 256) as u8,
        (wire % 256) as u8,
        1 + end as u8,
    )
}

fn v6_address(wire: usize, end: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0x6569, 0x7200, wire as u16, 0, 0, 0, 1 + end as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;
    use weir_base::{Instant, Span};
    use weir_live::clock::thread_cpu_time;

    fn lay_out(text: &str) -> Result<Topology, Error> {
        let (scenario, _) = plan(text, &[], &[]).unwrap();
        Topology::new(&scenario)
    }

    const TWO_ROUTERS: &str = r#"
title = "two routers"
[router.a]
[router.b]
[host.left]
count = 2
[host.right]
[link.l]
ends = ["left", "a"]
[link.m]
ends = ["a", "b"]
rate = "1 Mbit"
delay = "10 ms"
framing = "2 B"
discipline = { kind = "fifo" }
reverse_discipline = { kind = "fifo" }
[link.r]
ends = ["b", "right"]
[traffic.t]
kind = "tcp"
from = "left"
to = "right"
"#;

    #[test]
    fn paths_begin_at_interfaces() {
        let topology = lay_out(TWO_ROUTERS).unwrap();
        let a = &topology.nodes[0];
        let names: Vec<_> = a.interfaces.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["left1", "left2", "b"]);
        let first_hops = topology.shortest_paths().first_hops(0);
        let to = |name| &first_hops[topology.node(name).unwrap()];
        assert_eq!(
            (to("left2").ports.as_slice(), to("left2").hops),
            (&[1][..], 1)
        );
        assert_eq!(
            (to("right").ports.as_slice(), to("right").hops),
            (&[2][..], 2)
        );
    }

    #[test]
    fn one_host_may_have_many_partners() {
        let pairs = |text: &str| {
            let (scenario, _) = plan(text, &[], &[]).map_err(|error| error.to_string())?;
            let topology = Topology::new(&scenario).unwrap();
            let name = |node: usize| topology.nodes[node].name.as_str();
            let pairs = topology.pairs(&scenario, &scenario.traffic[0]);
            let pairs = pairs
                .iter()
                .map(|(from, to)| [name(*from), name(*to)].join(" "));
            Ok::<_, String>(pairs.collect::<Vec<_>>())
        };
        let to_one = pairs(TWO_ROUTERS);
        assert_eq!(to_one.unwrap(), ["left1 right", "left2 right"]);
        let text = TWO_ROUTERS.replace("\"left\"\nto = \"right\"", "\"right\"\nto = \"left\"");
        assert_eq!(pairs(&text).unwrap(), ["right left1", "right left2"]);
        let text = TWO_ROUTERS.replace("[host.right]", "[host.right]\ncount = 3");
        let error = pairs(&text).unwrap_err();
        assert!(error.contains("`traffic.t.to` must be one host"), "{error}");
    }

    #[test]
    fn interfaces_say_what_their_link_says() {
        let topology = lay_out(TWO_ROUTERS).unwrap();
        let middle = &topology.nodes[0].interfaces[2];
        assert_eq!(
            middle.direction.delay.at(Instant::ZERO),
            Span::from_millis(10)
        );
        assert_eq!(
            (middle.framing, middle.link, middle.wire),
            (weir_base::Framing::bytes(2), 1, 2)
        );
        assert_eq!(middle.v4, Ipv4Addr::new(10, 64, 2, 1));
        assert_eq!(
            topology.nodes[0].interfaces[0].framing,
            weir_base::Framing::bytes(38)
        );
    }

    #[test]
    fn what_is_no_network_is_said_in_a_sentence() {
        let error = |old: &str, new: &str| {
            assert!(TWO_ROUTERS.contains(old));
            let text = TWO_ROUTERS.replace(old, new);
            let text = text.replace("[router.b]", "[router.b]\n[router.c]");
            lay_out(&text).unwrap_err().to_string()
        };
        assert_eq!(
            error("[\"a\", \"b\"]", "[\"a\", \"right\"]"),
            "cannot build this network: host right has 2 links; a host must have exactly one"
        );
        // The chain of routers without the link from a to b.
        let island = error("[\"a\", \"b\"]", "[\"c\", \"b\"]");
        assert!(island.contains("no path from left1 to right"), "{island}");
        let many = error("count = 2", "count = 50_000");
        assert!(many.contains("more than 49152 links"), "{many}");
    }

    #[test]
    fn queues_that_are_watched_have_names() {
        let names = |text: &str| {
            let (scenario, _) = plan(text, &[], &[]).unwrap();
            let topology = Topology::new(&scenario).unwrap();
            let watched = topology.watched(&scenario);
            let names = watched.into_iter().map(|w| {
                let port = &topology.nodes[w.node].interfaces[w.port].name;
                format!("{} {} {port}", w.name, topology.nodes[w.node].name)
            });
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(TWO_ROUTERS), ["m a b", "m.reverse b a"]);
        let text = TWO_ROUTERS.replace("[router.a]", "watch = [\"l\", \"r\"]\n[router.a]");
        assert_eq!(
            names(&text),
            ["l.left1 left1 eth0", "l.left2 left2 eth0", "r b right"]
        );
    }

    #[test]
    fn ten_times_as_many_hosts_take_some_ten_times_as_long() {
        // Processor time, the minimum of several runs, so that other programs do not affect the result.
        let least = |hosts: usize| {
            let one = |_| {
                let began = thread_cpu_time();
                let count = format!("count = {hosts}");
                let topology = lay_out(&TWO_ROUTERS.replace("count = 2", &count)).unwrap();
                assert_eq!(topology.nodes.len(), hosts + 3);
                let first_hops = topology.shortest_paths().first_hops(0);
                assert!(first_hops.iter().skip(1).all(|first| first.hops > 0));
                thread_cpu_time().as_secs_f64() - began.as_secs_f64()
            };
            (0..5).map(one).fold(f64::INFINITY, f64::min)
        };
        let (some, many) = (least(1000), least(10_000));
        assert!(many < 40.0 * some, "{many} s to {some} s");
    }
}
