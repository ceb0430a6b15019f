//! End-to-end paths: which exits a packet takes, which FEs it passes, and the vector of identifiers that says so.
//!
//! ```text
//!   C: c1 ═══▶ B: b1 ──▶ b2 ═══▶ A: a1         exits ═▶: c1's and b2's. Vector: [LID of c1's exit in C,
//!                                                                                LID of b2's exit in B]
//!   Index      0 → n     n      n → n + m      n, m: bytes of a LID of C, of B. At a1 Index = Length.
//! ```
//!
//! The names of Figure 1 follow the far side: its LID_B is used in domain C and leads to B.
//!
//! The target is a domain, whose first FE removes the header because Index = Length; or an edge FE. An edge FE that is
//! not the first FE of its domain, or whose payload is not IP, is named by one more LID, that of its own domain.

use super::error::PathError;
use super::inside::{Inside, Network};
use super::lids::{Lids, Meaning};
use super::search::{Arc, Digraph};
use super::topology::{DomainId, FeId, LinkId, Payload};

/// Most bytes of a vector: Length is one byte.
pub(super) const VECTOR_BYTES_MAX: usize = 255;

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A domain: its first FE removes the header, and IP goes on.
    Domain(DomainId),
    /// An edge FE, which takes this payload out of the header.
    Fe(FeId, Payload),
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The links between domains, in order.
    pub exits: Vec<LinkId>,
    /// All links, in order, those inside domains included.
    pub links: Vec<LinkId>,
    /// All FEs, in order: the ingress edge first, the one that removes the header last.
    pub fes: Vec<FeId>,
    /// The sum of the links' costs.
    pub cost: u64,
    /// The identifiers.
    pub vector: Vec<u8>,
}

/// The network with everything that a path is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) network: &'a Network,
    pub(super) inside: &'a [Inside],
    pub(super) lids: &'a [Lids],
}

impl View<'_> {
    /// The index of a behaviour in a domain; the first one if none is named.
    pub(super) fn behaviour(&self, domain: DomainId, name: Option<&str>) -> Option<usize> {
        let mut behaviours = self.network.topology.domain(domain).behaviours.iter();
        match name {
            None => Some(0),
            Some(name) => behaviours.position(|behaviour| behaviour.name == name),
        }
    }

    /// The graph for paths to a target: its nodes are the FEs where packets enter domains, and after them the target.
    /// `usable` leaves links out.
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

    /// The path from an FE over these exits, if all of it works. The error is that its vector is too long.
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

    /// Whether the target must be named by an identifier of its own domain.
    pub(super) fn needs_delivery(&self, target: Target) -> bool {
        let last = self.exits.last();
        let entered = last.and_then(|link| self.entry(*link));
        match target {
            Target::Domain(_) => false,
            Target::Fe(fe, payload) => payload != Payload::Ip || entered != Some(fe),
        }
    }

    /// Whether it passes no FE twice.
    pub(super) fn is_simple(&self) -> bool {
        let mut fes = self.fes.clone();
        fes.sort_unstable();
        fes.windows(2).all(|pair| pair[0] != pair[1])
    }
}
