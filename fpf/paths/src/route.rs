//! End-to-end paths: the exits that a packet takes, the FEs on its path, and the vector of identifiers that encodes
//! them.
//!
//! ```text
//!   C: c1 ═══▶ B: b1 ──▶ b2 ═══▶ A: a1         exits ═▶: c1's and b2's. Vector: [LID of c1's exit in C,
//!                                                                                LID of b2's exit in B]
//!   Index      0 → n     n      n → n + m      n, m: bytes of a LID of C, of B. At a1 Index = Length.
//! ```
//!
//! Figure 1 names an identifier after the far domain: its LID_B is used in domain C and leads to B.
//!
//! The target is a domain or an edge FE. In a target domain, the first FE removes the header because Index = Length. An
//! edge FE that is not the first FE of its domain, or whose payload is not IP, needs one more LID, from its own domain.

use super::error::PathError;
use super::inside::{Inside, Network};
use super::lids::{Lids, Meaning};
use super::search::{Arc, Digraph};
use super::topology::{DomainId, FeId, LinkId, Payload};

/// Maximum bytes of a vector, because Length is one byte.
pub(super) const VECTOR_BYTES_MAX: usize = 255;

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A domain: its first FE removes the header, and IP forwards the packets.
    Domain(DomainId),
    /// An edge FE, which removes the header of packets with this payload.
    Fe(FeId, Payload),
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The links between domains, in order.
    pub exits: Vec<LinkId>,
    /// All links, in order, including those inside domains.
    pub links: Vec<LinkId>,
    /// All FEs, in order, from the ingress edge to the FE that removes the header.
    pub fes: Vec<FeId>,
    /// Sum of the links' costs.
    pub cost: u64,
    /// Identifiers of the path.
    pub vector: Vec<u8>,
}

/// The network with all data that paths are made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) network: &'a Network,
    pub(super) inside: &'a [Inside],
    pub(super) lids: &'a [Lids],
}

impl View<'_> {
    /// Index of a behaviour in a domain; the first behaviour if `name` is `None`.
    pub(super) fn behaviour(&self, domain: DomainId, name: Option<&str>) -> Option<usize> {
        let mut behaviours = self.network.topology.domain(domain).behaviours.iter();
        match name {
            None => Some(0),
            Some(name) => behaviours.position(|behaviour| behaviour.name == name),
        }
    }

    /// The graph for paths to a target: its nodes are the FEs at which packets enter domains, followed by the target.
    /// Links that are not `usable` are omitted.
    pub(super) fn graph(
        &self,
        target: Target,
        behaviour: Option<&str>,
        usable: impl Fn(LinkId, FeId) -> bool,
    ) -> Digraph {
        let topology = &self.network.topology;
        let sink = topology.fes().count();
        let mut arcs = vec![Vec::new(); sink + 1];
        for domain in topology.domains() {
            if self.behaviour(domain, behaviour).is_none() || target == Target::Domain(domain) {
                continue;
            }
            let exits = topology.exits(domain).into_iter();
            let exits = exits.filter(|(fe, link)| self.network.works(*link) && usable(*link, *fe));
            for (exit, link) in exits {
                for fe in topology.members(domain) {
                    if let Some(step) = self.inside[domain.0].step(*fe, exit) {
                        arcs[fe.0].push(Arc {
                            to: topology.peer(link, exit).0,
                            cost: step.cost + u64::from(topology.link(link).cost),
                            exit: Some(link),
                        });
                    }
                }
            }
        }
        for fe in topology.members(self.domain_of(target)) {
            if let Some(cost) = self.last_cost(*fe, target, behaviour) {
                arcs[fe.0].push(Arc {
                    to: sink,
                    cost,
                    exit: None,
                });
            }
        }
        Digraph { arcs }
    }

    /// The cost from an FE of the target's domain to the target.
    fn last_cost(&self, fe: FeId, target: Target, behaviour: Option<&str>) -> Option<u64> {
        match target {
            Target::Domain(_) => Some(0),
            Target::Fe(to, Payload::Ip) if to == fe => Some(0),
            Target::Fe(to, _) => {
                let domain = self.network.topology.domain_of(to);
                self.behaviour(domain, behaviour)?;
                self.inside[domain.0].step(fe, to).map(|step| step.cost)
            }
        }
    }

    pub(super) fn domain_of(&self, target: Target) -> DomainId {
        match target {
            Target::Domain(domain) => domain,
            Target::Fe(fe, _) => self.network.topology.domain_of(fe),
        }
    }

    /// The path from an FE over these exits; `None` if a part of it does not work. An error means that its vector is
    /// too long.
    pub(super) fn route(
        &self,
        source: FeId,
        target: Target,
        behaviour: Option<&str>,
        exits: &[LinkId],
    ) -> Result<Option<Route>, PathError> {
        let mut route = Route {
            exits: exits.to_vec(),
            links: Vec::new(),
            fes: vec![source],
            cost: 0,
            vector: Vec::new(),
        };
        match self.follow(&mut route, source, target, behaviour) {
            None => Ok(None),
            Some(()) if route.vector.len() > VECTOR_BYTES_MAX => {
                Err(PathError::TooLong(route.vector.len()))
            }
            Some(()) => Ok(Some(route)),
        }
    }

    fn follow(
        &self,
        route: &mut Route,
        source: FeId,
        target: Target,
        behaviour: Option<&str>,
    ) -> Option<()> {
        let topology = &self.network.topology;
        let mut at = source;
        for &link in &route.exits.clone() {
            let domain = topology.domain_of(at);
            let mut ends = topology.link(link).ends.iter();
            let exit = ends.find(|end| topology.domain_of(end.fe) == domain)?.fe;
            self.walk(route, at, exit)?;
            self.network.works(link).then_some(())?;
            let behaviour = self.behaviour(domain, behaviour)?;
            let lid = self.lids[domain.0].get(Meaning::Exit { link, behaviour })?;
            lid.append_to(&mut route.vector);
            at = topology.peer(link, exit);
            route.pass(link, at, topology.link(link).cost);
        }
        match target {
            Target::Domain(domain) => (topology.domain_of(at) == domain).then_some(()),
            Target::Fe(fe, Payload::Ip) if fe == at && !route.exits.is_empty() => Some(()),
            Target::Fe(fe, payload) => {
                let domain = topology.domain_of(fe);
                let behaviour = self.behaviour(domain, behaviour)?;
                let meaning = Meaning::Deliver {
                    fe,
                    payload,
                    behaviour,
                };
                self.walk(route, at, fe)?;
                let lid = self.lids[domain.0].get(meaning)?;
                lid.append_to(&mut route.vector);
                Some(())
            }
        }
    }

    /// Follows the tree inside a domain.
    fn walk(&self, route: &mut Route, from: FeId, to: FeId) -> Option<()> {
        let topology = &self.network.topology;
        let inside = &self.inside[topology.domain_of(to).0];
        let mut at = from;
        while let Some(link) = inside.step(at, to)?.link {
            at = topology.peer(link, at);
            route.pass(link, at, topology.link(link).cost);
        }
        Some(())
    }
}

impl Route {
    fn pass(&mut self, link: LinkId, to: FeId, cost: u32) {
        self.links.push(link);
        self.fes.push(to);
        self.cost += u64::from(cost);
    }

    /// The FE that sends the packet over a link.
    pub(super) fn exit(&self, link: LinkId) -> Option<FeId> {
        let place = self.links.iter().position(|known| *known == link)?;
        self.fes.get(place).copied()
    }

    /// The FE that the packet reaches over a link.
    pub(super) fn entry(&self, link: LinkId) -> Option<FeId> {
        let place = self.links.iter().position(|known| *known == link)?;
        self.fes.get(place + 1).copied()
    }

    /// Whether the target needs an identifier of its own domain.
    pub(super) fn needs_delivery(&self, target: Target) -> bool {
        let last = self.exits.last();
        let entered = last.and_then(|link| self.entry(*link));
        match target {
            Target::Domain(_) => false,
            Target::Fe(fe, payload) => payload != Payload::Ip || entered != Some(fe),
        }
    }

    /// Whether the path visits no FE twice.
    pub(super) fn is_simple(&self) -> bool {
        let mut fes = self.fes.clone();
        fes.sort_unstable();
        fes.windows(2).all(|pair| pair[0] != pair[1])
    }
}
