//! What a simulated network is made of: hosts, routers, links, and the ways between them.
//!
//! ```text
//!   a.port ── rate ──▶ delay ──▶ b          the port serialises, the link only delays
//!   a      ◀── delay ◀── rate ── b.port     each direction has a port of its own
//! ```
//!
//! Ways are the shortest in hops. Of several equally short ones each flow takes one, by its hash.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_base::{Rate, Span, Streams};
use weir_discipline::Spec;
use weir_path::port::Link;

use crate::fabric::Fabric;
use crate::wire::Wire;

/// A host or router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A port: one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// Longest frame that a port's burst is reckoned with; in virtual time no port is ever late.
const FRAME_BYTES_MAX: u32 = 1514;

/// What a network cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A host has no link, or more than one.
    #[error("host {0} has {1} links; a host has exactly one")]
    Links(String, usize),
    /// There is no way between two nodes.
    #[error("there is no way from {0} to {1}")]
    NoWay(String, String),
    /// A way round takes no time at all.
    #[error("the way from {0} to {1} takes no time: no link of it has a rate or a delay")]
    NoTime(String, String),
}

/// One end of a link: how it sends.
#[derive(Clone, Debug)]
pub struct End {
    /// The node.
    pub node: NodeId,
    /// The port's name, for reports.
    pub name: String,
    /// Its queue.
    pub spec: Spec,
}

/// A network while it is described.
#[derive(Debug, Default)]
pub struct Network {
    nodes: Vec<Node>,
    wires: Vec<Draft>,
}

#[derive(Debug)]
struct Node {
    name: String,
    is_router: bool,
    v4: Ipv4Addr,
    v6: Ipv6Addr,
    ports: Vec<PortId>,
}

/// One direction of a link.
#[derive(Debug)]
struct Draft {
    to: NodeId,
    name: String,
    spec: Spec,
    link: Link,
    delay: Span,
}

impl Network {
    /// Adds a router.
    pub fn router(&mut self, name: &str) -> NodeId {
        self.node(name, true, Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED)
    }

    /// Adds a host with its addresses.
    pub fn host(&mut self, name: &str, v4: Ipv4Addr, v6: Ipv6Addr) -> NodeId {
        self.node(name, false, v4, v6)
    }

    fn node(&mut self, name: &str, is_router: bool, v4: Ipv4Addr, v6: Ipv6Addr) -> NodeId {
        self.nodes.push(Node {
            name: name.to_owned(),
            is_router,
            v4,
            v6,
            ports: Vec::new(),
        });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Joins two nodes. `overhead` is what a frame costs on the wire beyond its layer-2 length.
    /// Gives the port of each end.
    pub fn link(
        &mut self,
        ends: [End; 2],
        rate: Option<Rate>,
        delay: Span,
        overhead: i32,
    ) -> [PortId; 2] {
        let nodes = [ends[0].node, ends[1].node];
        let mut place = 0;
        ends.map(|end| {
            let id = PortId(self.wires.len() as u32);
            self.wires.push(Draft {
                to: nodes[1 - place],
                name: end.name,
                spec: end.spec,
                link: Link {
                    rate,
                    overhead,
                    frame_bytes_max: FRAME_BYTES_MAX,
                },
                delay,
            });
            self.nodes[nodes[place].0 as usize].ports.push(id);
            place += 1;
            id
        })
    }

    /// The network in being, at time zero, for a run with these random streams.
    pub(crate) fn build(self, streams: &Streams) -> Result<Fabric, NetworkError> {
        for node in self.nodes.iter().filter(|n| !n.is_router) {
            if node.ports.len() != 1 {
                return Err(NetworkError::Links(node.name.clone(), node.ports.len()));
            }
        }
        let ways = self.ways();
        let secret = streams.hash_key("flow-hash");
        let streams = streams.below("port");
        let wires = self.wires.into_iter().map(|draft| {
            let streams = streams.below(&draft.name);
            Wire::new(draft.spec, draft.link, draft.to, draft.delay, &streams)
        });
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|n| crate::fabric::Node {
            name: n.name.clone(),
            v4: n.v4,
            v6: n.v6,
            uplink: (!n.is_router).then(|| n.ports[0]),
        });
        Ok(Fabric::new(nodes.collect(), wires.collect(), ways, secret))
    }

    /// For each router, by destination: the ports of the shortest ways.
    fn ways(&self) -> Ways {
        let nodes = self.nodes.len();
        let mut ways = Ways {
            nodes,
            rows: vec![NO_ROW; nodes],
            ports: Vec::new(),
            several: Vec::new(),
        };
        let routers: Vec<_> = (0..nodes).filter(|n| self.nodes[*n].is_router).collect();
        for (row, &router) in routers.iter().enumerate() {
            ways.rows[router] = row as u32;
        }
        ways.ports = vec![NO_PORT; routers.len() * nodes];
        let distances: Vec<_> = routers.iter().map(|&r| self.distances(r)).collect();
        for (row, &router) in routers.iter().enumerate() {
            let mut best: Vec<Vec<PortId>> = vec![Vec::new(); nodes];
            for port in &self.nodes[router].ports {
                let next = self.wires[port.0 as usize].to.0 as usize;
                match routers.binary_search(&next) {
                    Err(_) => best[next].push(*port), // a host, which is reached but passes nothing on
                    Ok(beyond) => {
                        let nearer = |d: &usize| {
                            let whole = distances[row][*d];
                            whole != u32::MAX && whole > 0 && distances[beyond][*d] == whole - 1
                        };
                        (0..nodes).filter(nearer).for_each(|d| best[d].push(*port));
                    }
                }
            }
            for (destination, best) in best.into_iter().enumerate() {
                ways.ports[row * nodes + destination] = match best[..] {
                    [] => NO_PORT,
                    [one] => one.0,
                    _ => {
                        ways.several.push(best);
                        SEVERAL | (ways.several.len() as u32 - 1)
                    }
                };
            }
        }
        ways
    }

    /// Hops from a router to every node; hosts pass nothing on.
    fn distances(&self, router: usize) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.nodes.len()];
        distances[router] = 0;
        let mut queue = VecDeque::from([router]);
        while let Some(node) = queue.pop_front() {
            if !self.nodes[node].is_router {
                continue;
            }
            for port in &self.nodes[node].ports {
                let next = self.wires[port.0 as usize].to.0 as usize;
                if distances[next] == u32::MAX {
                    distances[next] = distances[node] + 1;
                    queue.push_back(next);
                }
            }
        }
        distances
    }
}

const NO_ROW: u32 = u32::MAX;
const NO_PORT: u32 = u32::MAX;
/// Marks an entry that is an index of `several`.
const SEVERAL: u32 = 1 << 31;

/// The ways from each router to each node.
#[derive(Debug)]
pub(crate) struct Ways {
    nodes: usize,
    /// The row of a router.
    rows: Vec<u32>,
    /// A port, or `SEVERAL`, or `NO_PORT`, by row and destination.
    ports: Vec<u32>,
    several: Vec<Vec<PortId>>,
}

impl Ways {
    /// Whether a node passes packets on.
    pub(crate) fn is_router(&self, node: NodeId) -> bool {
        self.rows[node.0 as usize] != NO_ROW
    }

    /// The port by which `router` sends to `destination`; `hash` chooses among equals.
    pub(crate) fn port(&self, router: NodeId, destination: NodeId, hash: u64) -> Option<PortId> {
        let row = self.rows[router.0 as usize] as usize;
        match self.ports[row * self.nodes + destination.0 as usize] {
            NO_PORT => None,
            entry if entry & SEVERAL == 0 => Some(PortId(entry)),
            entry => {
                let ports = &self.several[(entry & !SEVERAL) as usize];
                // Each router looks at the hash in a way of its own: what a flow chose at one must
                // not decide what it chooses at the next.
                let hash = hash.rotate_left(router.0.wrapping_mul(11));
                Some(ports[(hash % ports.len() as u64) as usize])
            }
        }
    }

    /// All ports by which `router` may send to `destination`.
    pub(crate) fn ports(
        &self,
        router: NodeId,
        destination: NodeId,
    ) -> impl Iterator<Item = PortId> {
        let row = self.rows[router.0 as usize] as usize;
        let entry = self.ports[row * self.nodes + destination.0 as usize];
        let (one, several) = match entry {
            NO_PORT => (None, &[][..]),
            entry if entry & SEVERAL == 0 => (Some(PortId(entry)), &[][..]),
            entry => (None, &self.several[(entry & !SEVERAL) as usize][..]),
        };
        one.into_iter().chain(several.iter().copied())
    }
}
