//! From a scenario to nodes, interfaces, addresses and routes. Nothing is started here.
//!
//! ```text
//!   wire n:  10.(64 + n/256).(n mod 256).0/24   and   fd77:6569:7200:n::/64
//!            first end .1, second end .2
//!   hosts with many source addresses: 172.(16 + k).0.0/16 behind the k-th of them
//! ```
//!
//! Addresses follow from the order of the links in the file, so two runs have the same ones.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_base::{Rate, Span};

use crate::error::Error;
use crate::scenario::{Discipline, Link, Scenario, TrafficKind};
use crate::traffic;

/// Hosts and routers at most: each is a namespace with processes of its own.
pub const NODES_MAX: usize = 500;
/// TCP connections of a run at most.
pub const CONNECTIONS_MAX: u64 = 5_000;
/// Delays below this are what namespaces have anyway.
const DELAY_MIN: Span = Span::from_millis(1);
/// Hosts with many source addresses at most.
const SPREAD_MAX: usize = 16;

/// Everything that the lab builds.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Routers first, then hosts.
    pub nodes: Vec<Node>,
    /// What the lab leaves out, in sentences.
    pub notes: Vec<String>,
    wires: usize,
}

/// A router or a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether it is a router.
    pub is_router: bool,
    /// Its interfaces; a host has one.
    pub interfaces: Vec<Interface>,
    /// Its routes.
    pub routes: Vec<Route>,
    /// The network of its extra source addresses, if it has them.
    pub spread: Option<Ipv4Addr>,
}

/// One end of a wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Its name: the peer's on a router (the port's name), `eth0` on a host.
    pub name: String,
    /// IPv4 address, in a /24.
    pub v4: Ipv4Addr,
    /// IPv6 address, in a /64.
    pub v6: Ipv6Addr,
    /// The node and interface at the other end.
    pub peer: (usize, usize),
    /// Which wire.
    pub wire: usize,
    /// Rate of what it sends.
    pub rate: Option<Rate>,
    /// The queue of what it sends, on a router.
    pub discipline: Option<Discipline>,
}

/// A route of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination, as `ip route` writes it.
    pub to: String,
    /// The gateway's address.
    pub via: String,
}

impl Topology {
    /// Lays the scenario out, if the lab can build it.
    pub fn new(scenario: &Scenario) -> Result<Self, Error> {
        check_size(scenario)?;
        let mut topology = Self {
            nodes: Vec::new(),
            notes: Vec::new(),
            wires: 0,
        };
        let routers = scenario.routers.iter().map(|name| (name.clone(), true));
        let hosts = scenario.hosts.iter().flat_map(|group| group.members());
        for (name, is_router) in routers.chain(hosts.map(|name| (name, false))) {
            topology.nodes.push(Node {
                name,
                is_router,
                interfaces: Vec::new(),
                routes: Vec::new(),
                spread: None,
            });
        }
        for link in &scenario.links {
            topology.add_link(scenario, link)?;
        }
        for host in topology.nodes.iter().filter(|n| !n.is_router) {
            if host.interfaces.len() != 1 {
                return Err(unsupported(format!(
                    "host {} has {} links, and the lab's hosts have exactly one",
                    host.name,
                    host.interfaces.len()
                )));
            }
        }
        let delayed = scenario.links.iter().filter(|l| l.delay > Span::ZERO);
        let delayed: Vec<_> = delayed.map(|l| l.name.as_str()).collect();
        if !delayed.is_empty() {
            topology.notes.push(format!(
                "delays below {DELAY_MIN} are not emulated (links {}): the lab's wires take \
                 0.02 to 0.1 ms by themselves",
                delayed.join(", ")
            ));
        }
        topology.add_spread(scenario)?;
        topology.add_routes()?;
        Ok(topology)
    }

    /// The index of the node of this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == name)
    }

    fn add_link(&mut self, scenario: &Scenario, link: &Link) -> Result<(), Error> {
        self.check_link(link)?;
        let members = |end: &str| {
            let group = scenario.group(end);
            group.map_or_else(|| vec![end.to_owned()], |g| g.members())
        };
        for first in members(&link.ends[0]) {
            for second in members(&link.ends[1]) {
                self.add_wire(link, &first, &second)?;
            }
        }
        Ok(())
    }

    fn check_link(&self, link: &Link) -> Result<(), Error> {
        let is_router = |end: &String| {
            let node = self.node(end);
            node.is_some_and(|n| self.nodes[n].is_router)
        };
        let routers = link.ends.each_ref().map(is_router);
        let disciplines = [&link.discipline, &link.reverse_discipline];
        if !routers.contains(&true) {
            let why = format!("link {} joins two hosts without a router", link.name);
            return Err(unsupported(why));
        }
        for end in 0..2 {
            if disciplines[end].is_some() && !routers[end] {
                return Err(unsupported(format!(
                    "link {} has a queue discipline at host {}, where the kernel's own queue is",
                    link.name, link.ends[end]
                )));
            }
        }
        if link.delay >= DELAY_MIN {
            return Err(unsupported(format!(
                "link {} has a delay of {}, and delays of {DELAY_MIN} or more are not yet on the lab",
                link.name, link.delay
            )));
        }
        Ok(())
    }

    fn add_wire(&mut self, link: &Link, first: &str, second: &str) -> Result<(), Error> {
        let missing = |name: &str| unsupported(format!("there is no node {name}"));
        let nodes = [
            self.node(first).ok_or_else(|| missing(first))?,
            self.node(second).ok_or_else(|| missing(second))?,
        ];
        let wire = self.wires;
        self.wires += 1;
        let places = nodes.map(|n| self.nodes[n].interfaces.len());
        let disciplines = [link.discipline.clone(), link.reverse_discipline.clone()];
        for (end, discipline) in disciplines.into_iter().enumerate() {
            let other = 1 - end;
            let name = self.interface_name(nodes[end], nodes[other]);
            self.nodes[nodes[end]].interfaces.push(Interface {
                name,
                v4: v4_address(wire, end),
                v6: v6_address(wire, end),
                peer: (nodes[other], places[other]),
                wire,
                rate: link.rate,
                discipline,
            });
        }
        Ok(())
    }

    /// A router's interface has the peer's name if the kernel takes that, else a number.
    fn interface_name(&self, node: usize, peer: usize) -> String {
        const LENGTH_MAX: usize = 15;
        let node = &self.nodes[node];
        if !node.is_router {
            return "eth0".into();
        }
        let name = &self.nodes[peer].name;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let taken = node.interfaces.iter().any(|i| i.name == *name) || name == "lo";
        if name.len() <= LENGTH_MAX && name.chars().all(plain) && !taken {
            name.clone()
        } else {
            format!("port{}", node.interfaces.len())
        }
    }

    /// Gives hosts whose UDP comes from many addresses a network for them.
    fn add_spread(&mut self, scenario: &Scenario) -> Result<(), Error> {
        let mut networks = 0;
        for traffic in &scenario.traffic {
            let spreads =
                matches!(traffic.kind, TrafficKind::Udp { addresses, .. } if addresses > 1);
            if !spreads {
                continue;
            }
            if traffic.ipv6 {
                let why = format!("traffic {} wants many IPv6 source addresses", traffic.name);
                return Err(unsupported(why));
            }
            let members = scenario.group(&traffic.from).map(|g| g.members());
            for name in members.unwrap_or_default() {
                let Some(node) = self.node(&name) else {
                    continue;
                };
                if self.nodes[node].spread.is_none() {
                    if networks == SPREAD_MAX {
                        let why = format!("more than {SPREAD_MAX} hosts with many addresses");
                        return Err(unsupported(why));
                    }
                    let network = Ipv4Addr::new(172, 16 + networks as u8, 0, 0);
                    self.nodes[node].spread = Some(network);
                    networks += 1;
                }
            }
        }
        Ok(())
    }

    fn add_routes(&mut self) -> Result<(), Error> {
        for node in 0..self.nodes.len() {
            let routes = match self.nodes[node].is_router {
                false => {
                    let (gateway, port) = self.nodes[node].interfaces[0].peer;
                    let gateway = &self.nodes[gateway].interfaces[port];
                    vec![route("default", gateway.v4), route("default", gateway.v6)]
                }
                true => self.router_routes(node)?,
            };
            self.nodes[node].routes = routes;
        }
        Ok(())
    }

    /// The shortest way from `router` to every network that it is not part of.
    fn router_routes(&self, router: usize) -> Result<Vec<Route>, Error> {
        let ways = self.first_hops(router);
        let mut routes = Vec::new();
        let mut seen: HashMap<usize, ()> = HashMap::new();
        let own = &self.nodes[router].interfaces;
        seen.extend(own.iter().map(|i| (i.wire, ())));
        for host_or_router in 0..self.nodes.len() {
            for interface in &self.nodes[host_or_router].interfaces {
                if seen.insert(interface.wire, ()).is_some() {
                    continue;
                }
                let ends = [host_or_router, interface.peer.0];
                let near = ends.iter().filter_map(|n| ways.get(n)).min_by_key(|w| w.0);
                let (_, via) = near.ok_or_else(|| {
                    let (a, b) = (&self.nodes[router].name, &self.nodes[ends[0]].name);
                    unsupported(format!("router {a} has no way to {b}"))
                })?;
                let via = &own[*via].peer;
                let via = &self.nodes[via.0].interfaces[via.1];
                let (v4, v6) = (network_v4(interface.wire), network_v6(interface.wire));
                routes.push(route(&v4, via.v4));
                routes.push(route(&v6, via.v6));
            }
        }
        self.spread_routes(router, &ways, &mut routes);
        Ok(routes)
    }

    fn spread_routes(&self, router: usize, ways: &Ways, routes: &mut Vec<Route>) {
        for node in self.nodes.iter() {
            let Some(network) = node.spread else { continue };
            let host = &node.interfaces[0];
            let via = match host.peer.0 == router {
                true => host.v4,
                false => {
                    let Some((_, way)) = ways.get(&host.peer.0) else {
                        continue;
                    };
                    let (next, port) = self.nodes[router].interfaces[*way].peer;
                    self.nodes[next].interfaces[port].v4
                }
            };
            routes.push(route(&format!("{network}/16"), via));
        }
    }

    /// For every other router that can be reached: how far, and by which interface.
    fn first_hops(&self, router: usize) -> Ways {
        let mut ways = Ways::new();
        let mut queue = VecDeque::new();
        for (port, interface) in self.nodes[router].interfaces.iter().enumerate() {
            queue.push_back((interface.peer.0, 1, port));
        }
        while let Some((node, distance, port)) = queue.pop_front() {
            if !self.nodes[node].is_router || node == router || ways.contains_key(&node) {
                continue;
            }
            ways.insert(node, (distance, port));
            for interface in &self.nodes[node].interfaces {
                queue.push_back((interface.peer.0, distance + 1, port));
            }
        }
        ways
    }
}

/// Distance and first interface, by router.
type Ways = HashMap<usize, (u32, usize)>;

fn unsupported(why: String) -> Error {
    Error::Unsupported(why)
}

/// Refuses what the lab has no hope of doing.
fn check_size(scenario: &Scenario) -> Result<(), Error> {
    let hosts: usize = scenario.hosts.iter().map(|h| h.count as usize).sum();
    let nodes = hosts + scenario.routers.len();
    if nodes > NODES_MAX {
        return Err(unsupported(format!(
            "it has {nodes} nodes, and the lab, where each is a namespace, has room for {NODES_MAX}; try --on sim"
        )));
    }
    let mut connections = 0;
    for traffic in &scenario.traffic {
        let senders = scenario.group(&traffic.from).map_or(1, |g| g.count);
        let (what, count, max) = match &traffic.kind {
            TrafficKind::Tcp { flows, .. } => ("TCP connections", *flows, traffic::tcp::FLOWS_MAX),
            TrafficKind::Udp { flows, .. } => ("UDP flows", *flows, traffic::udp::FLOWS_MAX),
            TrafficKind::Web { clients, .. } => {
                ("web clients", *clients, traffic::web::fetch::CLIENTS_MAX)
            }
        };
        if count > max {
            return Err(unsupported(format!(
                "traffic {} has {count} {what} from one host, and the lab's tools do {max}; try --on sim",
                traffic.name
            )));
        }
        if !matches!(traffic.kind, TrafficKind::Udp { .. }) {
            connections += u64::from(count) * u64::from(senders);
        }
    }
    if connections > CONNECTIONS_MAX {
        return Err(unsupported(format!(
            "it has {connections} TCP connections, and the lab has room for {CONNECTIONS_MAX}; try --on sim"
        )));
    }
    Ok(())
}

fn route(to: &str, via: impl ToString) -> Route {
    Route {
        to: to.to_owned(),
        via: via.to_string(),
    }
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

fn network_v4(wire: usize) -> String {
    let [a, b, c, _] = v4_address(wire, 0).octets();
    format!("{a}.{b}.{c}.0/24")
}

fn network_v6(wire: usize) -> String {
    format!("fd77:6569:7200:{wire:x}::/64")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;

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
[link.r]
ends = ["b", "right"]
"#;

    fn routes(topology: &Topology, node: &str) -> Vec<String> {
        let node = &topology.nodes[topology.node(node).unwrap()];
        let text = |r: &Route| format!("{} via {}", r.to, r.via);
        node.routes.iter().map(text).collect()
    }

    #[test]
    fn routers_know_the_way_to_every_network() {
        let topology = lay_out(TWO_ROUTERS).unwrap();
        // wires: 0 left1-a, 1 left2-a, 2 a-b, 3 b-right
        assert_eq!(
            routes(&topology, "a"),
            [
                "10.64.3.0/24 via 10.64.2.2",
                "fd77:6569:7200:3::/64 via fd77:6569:7200:2::2"
            ]
        );
        assert_eq!(
            routes(&topology, "b")[..2],
            [
                "10.64.0.0/24 via 10.64.2.1",
                "fd77:6569:7200:0::/64 via fd77:6569:7200:2::1"
            ]
        );
        assert_eq!(routes(&topology, "right")[0], "default via 10.64.3.1");
        let a = &topology.nodes[0];
        let names: Vec<_> = a.interfaces.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["left1", "left2", "b"]);
    }

    #[test]
    fn what_the_lab_cannot_do_is_said_in_a_sentence() {
        let error = |old: &str, new: &str| {
            assert!(TWO_ROUTERS.contains(old));
            lay_out(&TWO_ROUTERS.replace(old, new))
                .unwrap_err()
                .to_string()
        };
        let many = error("count = 2", "count = 4000");
        assert!(many.contains("4003 nodes"), "{many}");
        let delay = error("[\"a\", \"b\"]", "[\"a\", \"b\"]\ndelay = \"10 ms\"");
        assert!(delay.contains("not yet on the lab"), "{delay}");
        let two = error("[\"a\", \"b\"]", "[\"a\", \"right\"]");
        assert!(two.contains("host right has 2 links"), "{two}");
    }
}
