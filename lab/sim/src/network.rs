//! The description of a simulated network: hosts, routers and links.
//!
//! ```text
//!   a.port ── rate ──▶ delay ──▶ b          the port serialises, the link only delays
//!   a      ◀── delay ◀── rate ── b.port     each direction has a port of its own
//! ```
//!
//! A link may have a line whose rate and delay change with time, see [`line`](crate::line): then the port's rate is
//! that of a shaper, if it has one.
//!
//! Routing uses shortest-hop paths. Among several equally short paths, the hash of a flow selects one.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_base::graph::Graph;
use weir_base::{Framing, Rate, Span, Streams};
use weir_discipline::Spec;
use weir_path::egress::port::Link;

use crate::error::NetworkError;
use crate::fabric::Fabric;
use crate::id::{NodeId, PortId};
use crate::line::LineSpec;
use crate::route::Routes;
use crate::wire::Wire;

/// Longest frame, for the size of a port's burst; in virtual time, a port is never late.
const FRAME_BYTES_MAX: u32 = 1514;

/// One end of a link, and how it sends.
#[derive(Clone, Debug)]
pub struct End {
    /// The node.
    pub node: NodeId,
    /// The port's name, for reports.
    pub name: String,
    /// The specification of its queue.
    pub spec: Spec,
}

/// A network under construction.
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
    line: Option<LineSpec>,
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

    /// Joins two nodes. `framing` converts a frame's layer-2 length to its bytes on the wire. Returns the port of each
    /// end.
    pub fn link(
        &mut self,
        ends: [End; 2],
        rate: Option<Rate>,
        delay: Span,
        framing: Framing,
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
                    framing,
                    frame_bytes_max: FRAME_BYTES_MAX,
                },
                delay,
                line: None,
            });
            self.nodes[nodes[place].0 as usize].ports.push(id);
            place += 1;
            id
        })
    }

    /// Sets the rate and the delay of the direction of a link from this port.
    pub fn direction(&mut self, port: PortId, rate: Option<Rate>, delay: Span) {
        let draft = &mut self.wires[port.0 as usize];
        (draft.link.rate, draft.delay) = (rate, delay);
    }

    /// Replaces the rate and the delay of the link behind a port with a line. `shaper` is the rate at which the port
    /// sends to the line's modem; without it, the port sends as fast as it can.
    pub fn line(&mut self, port: PortId, line: LineSpec, shaper: Option<Rate>) {
        let draft = &mut self.wires[port.0 as usize];
        draft.link.rate = shaper;
        draft.line = Some(line);
    }

    /// Builds the network, at time zero, for a run with these random streams.
    pub(crate) fn build(self, streams: &Streams) -> Result<Fabric, NetworkError> {
        for node in self.nodes.iter().filter(|n| !n.is_router) {
            if node.ports.len() != 1 {
                return Err(NetworkError::Links(node.name.clone(), node.ports.len()));
            }
        }
        let routes = self.routes();
        let secret = streams.hash_key("flow-hash");
        let streams = streams.below("port");
        let wires = self.wires.into_iter().map(|draft| {
            let streams = streams.below(&draft.name);
            let wire = Wire::new(draft.spec, draft.link, draft.to, draft.delay, &streams);
            match draft.line {
                Some(line) => wire.over(line),
                None => wire,
            }
        });
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|n| crate::fabric::Node {
            name: n.name.clone(),
            v4: n.v4,
            v6: n.v6,
            uplink: (!n.is_router).then(|| n.ports[0]),
            has_layer: false,
        });
        Ok(Fabric::new(
            nodes.collect(),
            wires.collect(),
            routes,
            secret,
        ))
    }

    /// The routes of every router.
    fn routes(&self) -> Routes {
        let mut graph = Graph::default();
        for node in &self.nodes {
            graph.add_node(node.is_router);
        }
        for (number, node) in self.nodes.iter().enumerate() {
            for port in &node.ports {
                graph.add_port(number, self.wires[port.0 as usize].to.0 as usize);
            }
        }
        let paths = graph.shortest_paths();
        let mut routes = Routes::new(self.nodes.len());
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, n)| n.is_router) {
            routes.add_router(&node.ports, paths.first_hops(number), number);
        }
        routes
    }
}
