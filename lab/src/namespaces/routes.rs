//! The routes of a topology as the kernel's `ip route` reads them, and networks for hosts with
//! many source addresses.
//!
//! ```text
//!   hosts with many source addresses: 172.(16 + k).0.0/16 behind the k-th of them
//! ```

use std::net::Ipv4Addr;

use crate::scenario::{Scenario, TrafficKind};
use crate::topology::{Topology, Way};

/// What every node is told of the ways, by the topology's index of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Its routes.
    pub routes: Vec<Vec<Route>>,
    /// The network of its extra source addresses, if it has them.
    pub spread: Vec<Option<Ipv4Addr>>,
}

/// A route of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination, as `ip route` writes it.
    pub to: String,
    /// The gateway's address.
    pub via: String,
}

impl Routes {
    /// Of a topology whose hosts all have one link, to a router.
    pub fn new(scenario: &Scenario, topology: &Topology) -> Self {
        let mut spread = vec![None; topology.nodes.len()];
        for (k, node) in spread_hosts(scenario, topology).into_iter().enumerate() {
            spread[node] = Some(Ipv4Addr::new(172, 16 + k as u8, 0, 0));
        }
        let routes = topology.nodes.iter().enumerate();
        let routes = routes.map(|(index, node)| match node.is_router {
            true => router_routes(topology, &spread, index),
            false => {
                let (gateway, port) = node.interfaces[0].peer;
                let gateway = &topology.nodes[gateway].interfaces[port];
                vec![route("default", gateway.v4), route("default", gateway.v6)]
            }
        });
        Self {
            routes: routes.collect(),
            spread,
        }
    }
}

/// Hosts whose UDP comes from many addresses, in the order of the file.
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

/// The shortest way from `router` to every network that it is not part of.
fn router_routes(topology: &Topology, spread: &[Option<Ipv4Addr>], router: usize) -> Vec<Route> {
    let ways = topology.ways(router);
    let own = &topology.nodes[router].interfaces;
    let gateway = |way: &Way| {
        let (next, port) = own[way.port].peer;
        &topology.nodes[next].interfaces[port]
    };
    let mut routes = Vec::new();
    let mut seen = vec![false; topology.wires];
    own.iter().for_each(|i| seen[i.wire] = true);
    for (index, node) in topology.nodes.iter().enumerate() {
        for interface in &node.interfaces {
            if std::mem::replace(&mut seen[interface.wire], true) {
                continue;
            }
            let ends = [index, interface.peer.0];
            let near = ends.iter().filter_map(|n| ways[*n].as_ref());
            // What cannot be reached has no route; no traffic goes there.
            let Some(way) = near.min_by_key(|way| way.hops) else {
                continue;
            };
            let via = gateway(way);
            let [a, b, c, _] = interface.v4.octets();
            routes.push(route(&format!("{a}.{b}.{c}.0/24"), via.v4));
            let [a, b, c, d, ..] = interface.v6.segments();
            let network = format!("{a:x}:{b:x}:{c:x}:{d:x}::/64");
            routes.push(route(&network, via.v6));
        }
    }
    for (host, network) in spread.iter().enumerate() {
        if let (Some(network), Some(way)) = (network, &ways[host]) {
            routes.push(route(&format!("{network}/16"), gateway(way).v4));
        }
    }
    routes
}

fn route(to: &str, via: impl ToString) -> Route {
    Route {
        to: to.to_owned(),
        via: via.to_string(),
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
    fn routers_know_the_way_to_every_network() {
        let (scenario, _) = plan(TWO_ROUTERS, &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let all = Routes::new(&scenario, &topology);
        let routes = |node: &str| -> Vec<String> {
            let routes = &all.routes[topology.node(node).unwrap()];
            let text = |r: &Route| format!("{} via {}", r.to, r.via);
            routes.iter().map(text).collect()
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
}
