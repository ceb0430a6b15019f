//! The network of a scenario as a path controller sees it.

use std::collections::BTreeMap;

use weir_experiment::Error;
use weir_experiment::scenario::Medium;
use weir_experiment::scenario::Scenario;
use weir_experiment::topology::{Topology, mac_address};
use weir_paths::{
    Address, Domain, End, Fe, FeId, Link, LinkId, PathError, Payload, Topology as Network,
};

use crate::scenario::Forwarding;

/// The VLAN ID of links with medium `vlan`.
const VLAN: u16 = 7;

/// The network of a scenario as a controller sees it.
pub(super) struct Survey {
    pub(super) network: Network,
    /// The node of each element, by the topology's index.
    pub(super) nodes: BTreeMap<FeId, usize>,
    /// For each link of the scenario, the links between elements that it consists of.
    pub(super) links: Vec<Vec<LinkId>>,
}

impl Survey {
    pub(super) fn of(scenario: &Scenario, topology: &Topology) -> Result<Self, Error> {
        let mut network = Network::default();
        let (mut nodes, mut fes) = (BTreeMap::new(), BTreeMap::new());
        for domain in &Forwarding::of(scenario).domains {
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
                nodes.insert(fe, node);
            }
        }
        let mut links = vec![Vec::new(); scenario.links.len()];
        for (node, of_node) in topology.nodes.iter().enumerate() {
            for (place, interface) in of_node.interfaces.iter().enumerate() {
                let (peer, peer_place) = interface.peer;
                let (Some(near), Some(far)) = (fes.get(&node), fes.get(&peer)) else {
                    continue;
                };
                if (node, place) > interface.peer {
                    continue; // added from the other end
                }
                let medium = scenario.links[interface.link].medium;
                let end = |fe: &FeId, node: usize, place: usize| {
                    let own = &topology.nodes[node].interfaces[place];
                    End {
                        fe: *fe,
                        interface: match medium {
                            Medium::Vlan => format!("{}.{VLAN}", own.name),
                            _ => own.name.clone(),
                        },
                        address: Some(match medium {
                            Medium::Gre => Address::Tunnel(own.v4.into()),
                            _ => Address::Ethernet(mac_address(node, place)),
                        }),
                    }
                };
                let added = network.add_link(Link {
                    ends: [end(near, node, place), end(far, peer, peer_place)],
                    cost: 1,
                    rate: None,
                });
                let name = &scenario.links[interface.link].name;
                let place = format!("link.{name}");
                links[interface.link].push(added.map_err(refused(&place))?);
            }
        }
        Ok(Self {
            network,
            nodes,
            links,
        })
    }
}

/// Maps an error of the path computation about `what` to an error of the run.
pub(super) fn refused(what: &str) -> impl FnOnce(PathError) -> Error + '_ {
    move |error| Error::Network(format!("{what}: {error}"))
}
