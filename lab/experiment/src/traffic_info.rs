//! Facts about the traffic that a reader of the metrics needs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weir_base::graph::ShortestPaths;

use crate::scenario::{Scenario, Traffic, TrafficKind};
use crate::topology::{Topology, Watched};

/// Maximum payload of a small packet. A 20 ms frame of uncompressed speech is 160 B.
const SMALL_PACKET: u32 = 300;
/// The maximum share of a link that sparse traffic offers.
const SPARSE: f64 = 0.05;

/// A flow group of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficInfo {
    /// The name of the traffic.
    pub name: String,
    /// `tcp`, `udp` or `web`.
    pub kind: String,
    /// Number of flows over all hosts; for web traffic, of clients.
    pub flows: u64,
    /// Number of hosts at which the flows begin.
    #[serde(default)]
    pub hosts: u64,
    /// Whether it consists of occasional small packets: other traffic affects them, but they do not affect it. That
    /// is UDP that is not a hog, has at most 300 B in a packet, and offers at most a twentieth of the slowest link on
    /// its path.
    pub is_sparse: bool,
    /// The watched links that the traffic's data crosses.
    pub crosses: Vec<String>,
}

impl TrafficInfo {
    /// The traffic of a scenario; empty if its network cannot be built, which never happens for a scenario that has
    /// run.
    pub fn of_all(scenario: &Scenario) -> Vec<Self> {
        let Ok(topology) = Topology::new(scenario) else {
            return Vec::new();
        };
        let watched = topology.watched(scenario);
        let paths = topology.shortest_paths();
        let info = |traffic: &Traffic| {
            let pairs = topology.pairs(scenario, traffic);
            // Members of a group have equivalent paths.
            let ports = pairs.first().map(|pair| ports(&topology, &paths, *pair));
            let ports = ports.unwrap_or_default();
            let at = |w: &&Watched| ports.contains(&(w.node, w.port));
            let flows = u64::from(traffic.kind.flows()) * pairs.len() as u64;
            let rates = ports.iter().filter_map(|&(node, port)| {
                let rate = topology.nodes[node].interfaces[port]
                    .direction
                    .rate_at_start()?;
                Some(rate.as_bps() as f64)
            });
            Self {
                name: traffic.name.clone(),
                kind: traffic.kind.kind().word().to_owned(),
                flows,
                hosts: pairs
                    .iter()
                    .map(|(from, _)| from)
                    .collect::<BTreeSet<_>>()
                    .len() as u64,
                is_sparse: is_sparse(scenario, traffic, flows, rates.reduce(f64::min)),
                crosses: watched.iter().filter(at).map(|w| w.name.clone()).collect(),
            }
        };
        scenario.traffic.iter().map(info).collect()
    }
}

/// The ports, by node and interface, through which data may go from one node to another, over all equally short
/// paths.
fn ports(
    topology: &Topology,
    paths: &ShortestPaths,
    (from, to): (usize, usize),
) -> BTreeSet<(usize, usize)> {
    let mut ports = BTreeSet::new();
    let mut open = BTreeSet::from([from]);
    while let Some(here) = open.pop_first() {
        for port in paths.first_hops_to(here, to).ports {
            if ports.insert((here, port)) {
                open.insert(topology.nodes[here].interfaces[port].peer.0);
            }
        }
    }
    ports
}

fn is_sparse(scenario: &Scenario, traffic: &Traffic, flows: u64, slowest: Option<f64>) -> bool {
    let TrafficKind::Udp {
        offered, payload, ..
    } = &traffic.kind
    else {
        return false;
    };
    let (from, until) = (0.0, scenario.duration.as_secs_f64());
    let most = offered.at(from).max(offered.at(until)) * flows as f64;
    !traffic.hog && *payload <= SMALL_PACKET && slowest.is_none_or(|rate| most <= SPARSE * rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;

    #[test]
    fn sparse_traffic_is_small_packets_now_and_then() {
        let text = r#"
title = "t"
duration = "2 s"
[router.r]
[host.a]
count = 2
[host.b]
count = 2
[link.in]
ends = ["a", "r"]
rate = "1 Gbit"
[link.out]
ends = ["r", "b"]
rate = "10 Mbit"
discipline = { kind = "fifo" }
reverse_discipline = { kind = "fifo" }
[traffic.up]
kind = "tcp"
from = "a"
to = "b"
flows = 3
[traffic.ping]
kind = "udp"
from = "b"
to = "a"
rate = "10 kbit"
payload = "64 B"
[traffic.flood]
kind = "udp"
from = "a"
to = "b"
rate = "400 kbit"
payload = "64 B"
[traffic.large]
kind = "udp"
from = "a"
to = "b"
rate = "10 kbit"
payload = "1400 B"
"#;
        let info = TrafficInfo::of_all(&plan(text, &[], &[]).unwrap().0);
        let seen = info
            .iter()
            .map(|t| (t.name.as_str(), t.flows, t.is_sparse, t.crosses.join(" ")));
        let seen: Vec<_> = seen.collect();
        // Twice 400 kbit/s is more than a twentieth of 10 Mbit/s.
        let expected = [
            ("up", 6, false, "out.b1"),
            ("ping", 2, true, "out.b1.reverse"),
            ("flood", 2, false, "out.b1"),
            ("large", 2, false, "out.b1"),
        ];
        assert_eq!(seen, expected.map(|(n, f, s, c)| (n, f, s, c.to_owned())));
    }
}
