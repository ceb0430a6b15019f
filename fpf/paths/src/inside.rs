//! The working part of the network, and the trees inside each domain.
//!
//! ```text
//!      b1 ── b2 ── b3 ══▶ exit       the tree towards b3: b1 ▶ b2 ▶ b3. Every FE of the domain knows the next one
//!       └─── b4 ───┘                 on its cheapest path to each other FE, so an identifier of b3's exit is enough.
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::topology::{DomainId, FeId, LinkId, Topology};

/// A topology, with the state of its links and FEs.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) topology: Topology,
    /// Whether each link has failed.
    pub(super) down: Vec<bool>,
    /// Whether each FE has failed or is disconnected.
    pub(super) gone: Vec<bool>,
}

impl Network {
    pub(super) fn new(topology: Topology) -> Self {
        Self {
            down: vec![false; topology.links().count()],
            gone: vec![false; topology.fes().count()],
            topology,
        }
    }

    /// Whether a link and the FEs at both ends work.
    pub(super) fn works(&self, link: LinkId) -> bool {
        let mut ends = self.topology.link(link).ends.iter();
        !self.down[link.0] && ends.all(|end| !self.gone[end.fe.0])
    }
}

/// The next step on the path to an FE of the same domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Cost of the whole path.
    pub(super) cost: u64,
    /// The first link; `None` if the FE is the target itself.
    pub(super) link: Option<LinkId>,
}

/// The trees inside a domain: for each target, the next step of every FE that can reach it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Inside {
    toward: BTreeMap<FeId, BTreeMap<FeId, Step>>,
}

impl Inside {
    /// Computes the trees towards all FEs of a domain.
    pub(super) fn of(network: &Network, domain: DomainId) -> Self {
        let members = network.topology.members(domain).iter();
        let working = members.filter(|fe| !network.gone[fe.0]);
        let toward = working.map(|fe| (*fe, tree(network, domain, *fe)));
        Self {
            toward: toward.collect(),
        }
    }

    /// The next step from one FE to another.
    pub(super) fn step(&self, from: FeId, to: FeId) -> Option<Step> {
        self.toward.get(&to)?.get(&from).copied()
    }

    /// The FE with the lowest number among those that can reach this FE: it identifies the part of the domain.
    pub(super) fn part(&self, fe: FeId) -> Option<FeId> {
        self.toward.get(&fe)?.keys().next().copied()
    }
}

/// Dijkstra's algorithm, starting at the target, because links have the same cost in both directions.
fn tree(network: &Network, domain: DomainId, target: FeId) -> BTreeMap<FeId, Step> {
    let topology = &network.topology;
    let mut best = BTreeMap::from([(
        target,
        Step {
            cost: 0,
            link: None,
        },
    )]);
    let mut heap = BinaryHeap::from([Reverse((0, target))]);
    while let Some(Reverse((cost, fe))) = heap.pop() {
        if best.get(&fe).is_none_or(|step| step.cost < cost) {
            continue;
        }
        for link in topology.links_of(fe).filter(|link| network.works(*link)) {
            let peer = topology.peer(link, fe);
            if topology.domain_of(peer) != domain {
                continue;
            }
            let offer = cost + u64::from(topology.link(link).cost);
            // Of two paths with the same cost, take the one over the link with the lower number, so that the result
            // depends only on the topology. The link leads to an FE with a lower cost, because costs are positive, so
            // there are no loops.
            let is_better = |known: &Step| (offer, Some(link)) < (known.cost, known.link);
            if best.get(&peer).is_none_or(is_better) {
                let step = Step {
                    cost: offer,
                    link: Some(link),
                };
                best.insert(peer, step);
                heap.push(Reverse((offer, peer)));
            }
        }
    }
    best
}
