//! Routing: the decisions of each router, and the path of each connection.
//!
//! A router decides like a live one, by [`next_hop`]. It decides once for each connection, because neither routes nor
//! flow keys change during a run; the frames of the connection follow its path.
//!
//! ```text
//!   hops:  ... | port, port, END | port, port, port, END | ...      one path, after its host's port
//! ```
//!
//! Where a router on the path has a network layer besides IP, a mark precedes its port: there, the layer decides about
//! each packet.

use std::collections::HashMap;

use weir_base::graph::FirstHops;
use weir_packet::Shared;
use weir_path::ip::forward::next_hop;
use weir_path::ip::tables::{Action, NextHop};

use crate::id::{EndpointId, NodeId, PortId};

/// The path of an endpoint's packets, and the data for counting them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// The identifier of this endpoint.
    pub(crate) own: EndpointId,
    /// The other end.
    pub(crate) peer: EndpointId,
    /// The port of this endpoint's host.
    pub(crate) uplink: PortId,
    /// The first hop after that port.
    pub(crate) first_hop: Hop,
    /// Addresses and ports.
    pub(crate) key: Shared,
    /// Length of the link-layer and IP headers in bytes.
    pub(crate) headers: u32,
    /// The traffic whose meter counts the packets.
    pub(crate) traffic: u32,
    /// The flow; all fetches of a web traffic count as one flow.
    pub(crate) flow: u32,
}

/// The routes of every router, to every node.
#[derive(Debug)]
pub(crate) struct Routes {
    /// For each router, by destination: the index of its action, or `NO_ROUTE`; empty for a host.
    places: Vec<Vec<u32>>,
    actions: Vec<Action>,
}

const NO_ROUTE: u32 = u32::MAX;

impl Routes {
    /// No routes yet, in a network with this number of nodes.
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            places: vec![Vec::new(); nodes],
            actions: Vec::new(),
        }
    }

    /// Adds the routes of a router with these ports.
    pub(crate) fn add_router(&mut self, ports: &[PortId], first: Vec<FirstHops>, router: usize) {
        let mut known: HashMap<Vec<usize>, u32> = HashMap::new();
        let place = |first: FirstHops| {
            if first.ports.is_empty() {
                return NO_ROUTE;
            }
            *known.entry(first.ports).or_insert_with_key(|places| {
                let next_hop = |place: &usize| NextHop {
                    interface: ports[*place].0,
                    gateway: None,
                    weight: 1,
                };
                let next_hops = places.iter().map(next_hop);
                self.actions.push(Action::Forward(next_hops.collect()));
                self.actions.len() as u32 - 1
            })
        };
        self.places[router] = first.into_iter().map(place).collect();
    }

    /// The port through which `router` sends a flow with this hash to `destination`.
    pub(crate) fn port(&self, router: NodeId, destination: NodeId, hash: u64) -> Option<PortId> {
        // Each router rotates the hash by a different amount, as live routers have their own secrets: the choice at one
        // router must not determine the choice at the next.
        let hash = hash.rotate_left(router.0.wrapping_mul(11));
        let next_hop = next_hop(self.action(router, destination), hash).ok()?;
        Some(PortId(next_hop.interface))
    }

    /// All ports through which `router` may send to `destination`.
    pub(crate) fn ports(
        &self,
        router: NodeId,
        destination: NodeId,
    ) -> impl Iterator<Item = PortId> {
        let next_hops = match self.action(router, destination) {
            Some(Action::Forward(next_hops)) => next_hops.as_slice(),
            _ => &[],
        };
        next_hops.iter().map(|hop| PortId(hop.interface))
    }

    /// The route of a router to a node. A host has no routes, because it does not forward.
    fn action(&self, router: NodeId, destination: NodeId) -> Option<&Action> {
        let places = &self.places[router.0 as usize];
        let place = *places.get(destination.0 as usize)?;
        self.actions.get(place as usize)
    }
}

/// An index in the list of all hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop(u32);

impl Hop {
    /// The layer of the next node decides.
    pub const LAYER: Self = Self(0);

    /// The hop after this one.
    #[inline]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The end of a path.
const END: u32 = u32::MAX;
/// A mark: the layer besides IP decides; its port by IP is the next hop.
const LAYER: u32 = u32::MAX - 1;

/// The hops of all paths, one path after another. They are kept for the whole run, like flow keys.
#[derive(Debug)]
pub(crate) struct Hops(Vec<u32>);

impl Default for Hops {
    fn default() -> Self {
        Self(vec![LAYER]) // the place of `Hop::LAYER`
    }
}

impl Hops {
    /// Stores a path through these ports; returns its first hop. The flag of a port means that the layer
    /// besides IP decides before it.
    pub(crate) fn keep(&mut self, ports: impl Iterator<Item = (PortId, bool)>) -> Hop {
        let first = Hop(self.0.len() as u32);
        for (port, decides) in ports {
            self.0.extend(decides.then_some(LAYER));
            self.0.push(port.0);
        }
        self.0.push(END);
        first
    }

    /// Stores a path that ends at the first router unless its layer leads further.
    pub(crate) fn keep_nowhere(&mut self) -> Hop {
        let first = Hop(self.0.len() as u32);
        self.0.extend([LAYER, END]);
        first
    }

    /// The port through which a packet continues; `None` if it has reached its host, or a router whose
    /// layer decides.
    #[inline]
    pub(crate) fn port(&self, hop: Hop) -> Option<PortId> {
        match self.0[hop.0 as usize] {
            END | LAYER => None,
            port => Some(PortId(port)),
        }
    }

    /// Whether a packet has reached its host.
    #[inline]
    pub(crate) fn is_end(&self, hop: Hop) -> bool {
        self.0[hop.0 as usize] == END
    }
}
