//! The routes of a topology in the form of the kernel's `ip route`, networks for hosts with many source addresses, and
//! addresses of groups.
//!
//! ```text
//!   hosts with many source addresses: 172.(16 + k).0.0/16 behind the k-th of them
//!   receivers of traffic n with copies: 10.63.(n/256).(n mod 256), or fd77:6569:71ff::n
//! ```
//!
//! Every receiver has the address of its group, and only the router of each receiver has a route to it: routers forward
//! no packets to addresses of IP multicast, and by IP alone no packet of the group gets past the first router.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_base::graph::ShortestPaths;

use crate::scenario::{Scenario, TrafficKind};
use crate::topology::{Interface, Topology};

/// The routes of every node, by the topology's node index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// The routes of each node.
    pub routes: Vec<Vec<Route>>,
    /// The network of each node's extra source addresses, if any.
    pub spread: Vec<Option<Ipv4Addr>>,
    /// The groups of which each node is a receiver, as `ip route` writes their addresses.
    pub groups: Vec<Vec<String>>,
}

/// A route of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination, as `ip route` writes it.
    pub to: String,
    /// The gateways' addresses: several for equally short paths.
    pub via: Vec<String>,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to)?;
        match self.via.as_slice() {
            [gateway] => write!(f, " via {gateway}"),
            gateways => gateways
                .iter()
                .try_for_each(|gateway| write!(f, " nexthop via {gateway}")),
        }
    }
}

impl Routes {
    /// The routes of a topology in which every host has one link, to a router.
    pub fn new(scenario: &Scenario, topology: &Topology) -> Self {
        let mut spread = vec![None; topology.nodes.len()];
        for (k, node) in spread_hosts(scenario, topology).into_iter().enumerate() {
            spread[node] = Some(Ipv4Addr::new(172, 16 + k as u8, 0, 0));
        }
        let paths = topology.shortest_paths();
        let routes = topology.nodes.iter().enumerate();
        let routes = routes.map(|(index, node)| {
            if node.is_router {
                router_routes(topology, &paths, &spread, index)
            } else {
                let (gateway, port) = node.interfaces[0].peer;
                let gateway = [&topology.nodes[gateway].interfaces[port]];
                vec![
                    route("default", &gateway, |i| i.v4.to_string()),
                    route("default", &gateway, |i| i.v6.to_string()),
                ]
            }
        });
        let mut routes: Vec<Vec<Route>> = routes.collect();
        let mut groups = vec![Vec::new(); topology.nodes.len()];
        for (number, traffic) in scenario.traffic.iter().enumerate() {
            let copies = traffic.kind.copies_to();
            if copies.is_empty() {
                continue;
            }
            let group = match group_address(number, traffic.ipv6) {
                IpAddr::V4(address) => format!("{address}/32"),
                IpAddr::V6(address) => format!("{address}/128"),
            };
            let receivers = [&traffic.to].into_iter().chain(copies);
            for host in receivers.filter_map(|name| topology.node(name)) {
                let interface = &topology.nodes[host].interfaces[0];
                let address = |i: &Interface| {
                    if traffic.ipv6 {
                        i.v6.to_string()
                    } else {
                        i.v4.to_string()
                    }
                };
                routes[interface.peer.0].push(Route {
                    to: group.clone(),
                    via: vec![address(interface)],
                });
                groups[host].push(group.clone());
            }
        }
        Self {
            routes,
            spread,
            groups,
        }
    }
}

/// The group address of the receivers of a flow group with copies.
pub(super) fn group_address(traffic: usize, ipv6: bool) -> IpAddr {
    let [.., high, low] = traffic.to_be_bytes();
    if ipv6 {
        Ipv6Addr::new(0xfd77, 0x6569, 0x71ff, 0, 0, 0, 0, traffic as u16).into()
    } else {
        Ipv4Addr::new(10, 63, high, low).into()
    }
}

/// Hosts whose UDP traffic has many source addresses, in the order of the file.
pub(super) fn spread_hosts(scenario: &Scenario, topology: &Topology) -> Vec<usize> {
    let mut hosts = Vec::new();
    for traffic in &scenario.traffic {
        if matches!(traffic.kind, TrafficKind::Udp { addresses, .. } if addresses > 1) {
            for (from, _) in topology.pairs(scenario, traffic) {
                if !hosts.contains(&from) {
                    hosts.push(from);
                }
            }
        }
    }
    hosts
}

/// The shortest paths from `router` to every network without an interface of `router`.
fn router_routes(
    topology: &Topology,
    paths: &ShortestPaths,
    spread: &[Option<Ipv4Addr>],
    router: usize,
) -> Vec<Route> {
    let first_hops = paths.first_hops(router);
    let own = &topology.nodes[router].interfaces;
    let gateways = |to: usize| -> Vec<&Interface> {
        let peers = first_hops[to].ports.iter().map(|port| own[*port].peer);
        let gateways = peers.map(|(next, port)| &topology.nodes[next].interfaces[port]);
        gateways.collect()
    };
    let mut routes = Vec::new();
    let mut seen = vec![false; topology.wires];
    own.iter().for_each(|i| seen[i.wire] = true);
    for (index, node) in topology.nodes.iter().enumerate() {
        for interface in &node.interfaces {
            if std::mem::replace(&mut seen[interface.wire], true) {
                continue;
            }
            let ends = [index, interface.peer.0].into_iter();
            let reached = ends.filter(|end| first_hops[*end].hops > 0);
            // An unreachable network has no route; it receives no traffic.
            let Some(near) = reached.min_by_key(|end| first_hops[*end].hops) else {
                continue;
            };
            let via = gateways(near);
            let [a, b, c, _] = interface.v4.octets();
            let network = format!("{a}.{b}.{c}.0/24");
            routes.push(route(&network, &via, |i| i.v4.to_string()));
            let [a, b, c, d, ..] = interface.v6.segments();
            let network = format!("{a:x}:{b:x}:{c:x}:{d:x}::/64");
            routes.push(route(&network, &via, |i| i.v6.to_string()));
        }
    }
    for (host, network) in spread.iter().enumerate() {
        if let (Some(network), 1..) = (network, first_hops[host].hops) {
            let network = format!("{network}/16");
            routes.push(route(&network, &gateways(host), |i| i.v4.to_string()));
        }
    }
    routes
}

fn route(to: &str, gateways: &[&Interface], address: fn(&Interface) -> String) -> Route {
    Route {
        to: to.to_owned(),
        via: gateways.iter().map(|gateway| address(gateway)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;

    const TWO_ROUTERS: &str = r#"
title = "two routers"
[router.a]
[router.b]
[host.left]
count = 2
[host.right]
[host.other]
[link.o]
ends = ["other", "a"]
[link.l]
ends = ["left", "a"]
[link.m]
ends = ["a", "b"]
[link.r]
ends = ["b", "right"]
[traffic.flood]
kind = "udp"
rate = "1 Mbit"
from = "right"
to = "other"
addresses = 9
"#;

    #[test]
    fn routers_have_routes_to_every_network() {
        let (scenario, _) = plan(TWO_ROUTERS, &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let all = Routes::new(&scenario, &topology);
        let routes = |node: &str| -> Vec<String> {
            let routes = &all.routes[topology.node(node).unwrap()];
            routes.iter().map(Route::to_string).collect()
        };
        // wires: 0 other-a, 1 left1-a, 2 left2-a, 3 a-b, 4 b-right
        assert_eq!(
            routes("a"),
            [
                "10.64.4.0/24 via 10.64.3.2",
                "fd77:6569:7200:4::/64 via fd77:6569:7200:3::2",
                "172.16.0.0/16 via 10.64.3.2",
            ]
        );
        assert_eq!(
            routes("b")[..2],
            [
                "10.64.0.0/24 via 10.64.3.1",
                "fd77:6569:7200:0::/64 via fd77:6569:7200:3::1"
            ]
        );
        assert_eq!(routes("b").last().unwrap(), "172.16.0.0/16 via 10.64.4.2");
        assert_eq!(routes("right")[0], "default via 10.64.4.1");
    }

    #[test]
    fn equally_short_paths_are_next_hops_of_one_route() {
        let text = TWO_ROUTERS.replace("[link.m]", "[link.n]\nends = [\"a\", \"b\"]\n[link.m]");
        let (scenario, _) = plan(&text, &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let all = Routes::new(&scenario, &topology);
        let routes = &all.routes[topology.node("a").unwrap()];
        assert_eq!(
            routes[0].to_string(),
            "10.64.5.0/24 nexthop via 10.64.3.2 nexthop via 10.64.4.2"
        );
    }
}
