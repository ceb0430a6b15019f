//! The network of a scenario as a controller of paths sees it.

use std::collections::BTreeMap;

use weir_controller::paths::{
    Domain, End, Fe, FeId, Link, LinkId, PathError, Payload, Topology as Network,
};
use weir_sim::{NodeId, PortId};

use crate::error::Error;
use crate::scenario::Scenario;
use crate::topology::Topology;

/// A router in a domain.
pub(super) struct Element {
    pub(super) router: NodeId,
    /// By interface.
    pub(super) ports: BTreeMap<String, PortId>,
}

/// The network of a scenario as a controller sees it.
pub(super) struct Survey {
    pub(super) network: Network,
    pub(super) elements: BTreeMap<FeId, Element>,
    pub(super) links: Vec<(Vec<LinkId>, Vec<PortId>)>,
}

impl Survey {
    pub(super) fn of(
        scenario: &Scenario,
        topology: &Topology,
        ports: &[Vec<PortId>],
    ) -> Result<Self, Error> {
        let mut network = Network::default();
        let (mut elements, mut fes) = (BTreeMap::new(), BTreeMap::new());
        for domain in &scenario.forwarding.domains {
            let place = format!("domain.{}", domain.name);
            let added = network.add_domain(Domain {
                name: domain.name.clone(),
                behaviours: Vec::new(),
                lid_bytes: domain.lid_bytes,
                special: None,
            });
            let id = added.map_err(refused(&place))?;
            for router in &domain.routers {
                let fe = network.add_fe(Fe {
                    name: router.clone(),
                    domain: id,
                    delivers: vec![Payload::Ip],
                });
                let fe = fe.map_err(refused(&place))?;
                let Some(node) = topology.node(router) else {
                    continue; // names have been checked
                };
                fes.insert(node, fe);
                let router = NodeId(node as u32);
                let ports = BTreeMap::new();
                elements.insert(fe, Element { router, ports });
            }
        }
        let mut links = vec![(Vec::new(), Vec::new()); scenario.links.len()];
        for (node, of_node) in topology.nodes.iter().enumerate() {
            for (place, interface) in of_node.interfaces.iter().enumerate() {
                let (peer, peer_place) = interface.peer;
                let (of_controller, of_link) = &mut links[interface.link];
                of_link.push(ports[node][place]);
                let (Some(near), Some(far)) = (fes.get(&node), fes.get(&peer)) else {
                    continue;
                };
                if let Some(element) = elements.get_mut(near) {
                    let name = interface.name.clone();
                    element.ports.insert(name, ports[node][place]);
                }
                if node > peer {
                    continue; // added from the other end
                }
                let end = |fe: &FeId, name: &str| End {
                    fe: *fe,
                    interface: name.to_owned(),
                    address: None,
                };
                let other = &topology.nodes[peer].interfaces[peer_place];
                let added = network.add_link(Link {
                    ends: [end(near, &interface.name), end(far, &other.name)],
                    cost: 1,
                    rate: None,
                });
                let name = &scenario.links[interface.link].name;
                let place = format!("link.{name}");
                of_controller.push(added.map_err(refused(&place))?);
            }
        }
        Ok(Self {
            network,
            elements,
            links,
        })
    }
}

/// The error that something of a scenario is refused.
pub(super) fn refused(what: &str) -> impl FnOnce(PathError) -> Error + '_ {
    move |error| Error::Network(format!("{what}: {error}"))
}
