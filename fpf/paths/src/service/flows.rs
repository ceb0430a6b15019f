//! Flows: converts a request to its paths, identifiers, reservations and the rule of its edge FE.

use weir_base::Rate;

use super::tree::{self, Fork, Planned};
use super::{Change, Changes, Paths};
use crate::choice::{Choice, choose};
use crate::error::PathError;
use crate::lids::Meaning;
use crate::request::{Carry, Encapsulation, Request, Spread};
use crate::route::{Route, View};
use crate::rules::Branch;
use crate::topology::{DomainId, FeId, LinkId, Topology};

/// An answered request.
#[derive(Clone, Debug)]
pub(super) struct Established {
    pub(super) request: Request,
    /// Paths of the request; empty while no path exists.
    pub(super) routes: Vec<Route>,
    pub(super) rule: Option<Encapsulation>,
    /// Used links, each with the FE that sends on it, and the rate on each.
    pub(super) reserved: Vec<(LinkId, FeId)>,
    pub(super) rate: Option<Rate>,
}

impl Paths {
    /// The current paths of a request over the same exits, if all of them work.
    pub(super) fn still(&self, one: &Established) -> Option<Vec<Route>> {
        let behaviour = one.request.behaviour.as_deref();
        let is_gone = self.network.gone[one.request.source.0];
        if one.routes.is_empty() || is_gone || one.rule.is_none() {
            return None;
        }
        let targets = one.request.targets.iter().cycle();
        let now = one.routes.iter().zip(targets).map(|(route, target)| {
            let view = self.view();
            view.route(one.request.source, *target, behaviour, &route.exits)
                .ok()?
        });
        now.collect()
    }

    /// Whether a request has the paths that a new request would get.
    pub(super) fn has_best(&mut self, id: u64) -> bool {
        let Some(one) = self.established.get(&id).cloned() else {
            return true;
        };
        let topology = &self.network.topology;
        if let Some(rate) = one.rate {
            self.books.release(topology, &one.reserved, rate);
        }
        let best = self.select(&one.request);
        if let Some(rate) = one.rate {
            self.books
                .reserve(&self.network.topology, &one.reserved, rate);
        }
        best.is_ok_and(|best| best == one.routes)
    }

    /// Moves the reservations of a request whose paths have changed inside a domain.
    pub(super) fn rebook(&mut self, id: u64, routes: Vec<Route>) {
        let Some(one) = self.established.get_mut(&id) else {
            return;
        };
        let topology = &self.network.topology;
        if let Some(rate) = one.rate {
            self.books.release(topology, &one.reserved, rate);
        }
        one.reserved = used(&routes, one.request.targets.len() > 1);
        if let Some(rate) = one.rate {
            self.books.reserve(topology, &one.reserved, rate);
        }
        one.routes = routes;
    }

    pub(super) fn select(&self, request: &Request) -> Result<Vec<Route>, PathError> {
        let mut targets = request.targets.clone();
        targets.sort_unstable();
        targets.dedup();
        if targets.is_empty() || targets.len() < request.targets.len() {
            return Err(PathError::Targets);
        }
        let is_tree = request.targets.len() > 1;
        if !request.through.is_empty() {
            return self.named(request).map(|route| vec![route]);
        }
        let mut all = Vec::new();
        for &target in &request.targets {
            let choice = Choice {
                source: request.source,
                target,
                behaviour: request.behaviour.as_deref(),
                spread: if is_tree { Spread::One } else { request.spread },
                rate: request.rate,
            };
            all.extend(choose(&self.view(), &self.books, &choice)?);
        }
        Ok(all)
    }

    /// The path that a request names, if its links have enough capacity left.
    fn named(&self, request: &Request) -> Result<Route, PathError> {
        let [target] = request.targets[..] else {
            return Err(PathError::Targets);
        };
        let behaviour = request.behaviour.as_deref();
        let route = self.along(request.source, target, behaviour, &request.through)?;
        let topology = &self.network.topology;
        let has_left = |(link, from): &(LinkId, FeId)| {
            self.books.has_left(topology, *link, *from, request.rate)
        };
        if used(std::slice::from_ref(&route), false)
            .iter()
            .all(has_left)
        {
            Ok(route)
        } else {
            Err(PathError::NoCapacity {
                from: topology.fe(request.source).name.clone(),
                to: topology.domain(self.view().domain_of(target)).name.clone(),
                bps: request.rate.map_or(0, Rate::as_bps),
            })
        }
    }

    /// Releases the reservations and the identifiers of a request.
    pub(super) fn give_back(&mut self, id: u64, one: &Established, touched: &mut Vec<DomainId>) {
        let topology = &self.network.topology;
        if let Some(rate) = one.rate {
            self.books.release(topology, &one.reserved, rate);
        }
        let of_tree: Vec<(u64, FeId)> = self
            .branches
            .range((id, FeId(0))..=(id, FeId(usize::MAX)))
            .map(|(key, _)| *key)
            .collect();
        for key in of_tree {
            self.branches.remove(&key);
            let domain = topology.domain_of(key.1);
            self.lids[domain.0].release(Meaning::Copies(key.0, key.1));
            touched.push(domain);
        }
    }

    /// Stores a request with its paths, which may be empty, and adds the change of its edge FE's rule.
    pub(super) fn establish(
        &mut self,
        id: u64,
        request: Request,
        routes: Vec<Route>,
        changes: &mut Changes,
        touched: &mut Vec<DomainId>,
    ) -> Result<(), PathError> {
        let carry = match (request.targets.len(), routes.is_empty()) {
            (_, true) => None,
            (1, false) => Some(Carry::Share {
                vectors: routes.iter().map(|route| route.vector.clone()).collect(),
                by_packet: request.by_packet,
            }),
            _ => Some(Carry::Copies(self.plant(id, &request, &routes, touched)?)),
        };
        let rule = carry.map(|carry| Encapsulation {
            filter: request.filter.clone(),
            carry,
            timeout: request.timeout,
            session: request.session,
        });
        let is_tree = request.targets.len() > 1;
        let share = |rate: Rate| {
            if is_tree {
                rate
            } else {
                Rate::from_bps(rate.as_bps().div_ceil(routes.len().max(1) as u64))
            }
        };
        let rate = request.rate.map(share);
        let reserved = used(&routes, is_tree);
        if let Some(rate) = rate {
            self.books.reserve(&self.network.topology, &reserved, rate);
        }
        let before = self.established.get(&id).and_then(|one| one.rule.as_ref());
        if before != rule.as_ref() && !self.network.gone[request.source.0] {
            changes.vectors.push(Change::Encapsulate {
                fe: request.source,
                request: id,
                rule: rule.clone(),
            });
        }
        let one = Established {
            request,
            routes,
            rule,
            reserved,
            rate,
        };
        self.established.insert(id, one);
        Ok(())
    }

    /// Allocates the identifiers for the copies of a multicast tree, and returns the vectors for the edge.
    fn plant(
        &mut self,
        id: u64,
        request: &Request,
        routes: &[Route],
        touched: &mut Vec<DomainId>,
    ) -> Result<Vec<Vec<u8>>, PathError> {
        let topology = &self.network.topology;
        let fork = tree::fork(routes);
        let fork = fork.ok_or(PathError::Targets)?;
        let mut lids = self.lids.clone();
        for inner in fork.inner() {
            let domain = topology.domain_of(inner.fe);
            let allocated = lids[domain.0].allocate(Meaning::Copies(id, inner.fe));
            allocated.map_err(|_| PathError::Full {
                domain: topology.domain(domain).name.clone(),
                bytes: lids[domain.0].bytes(),
            })?;
        }
        let view = View {
            lids: &lids,
            ..self.view()
        };
        let planned = Planned {
            view,
            tree: id,
            request,
            routes,
        };
        let vectors = planned.vectors(&fork)?;
        let mut branches = Vec::new();
        for inner in fork.inner() {
            branches.push(branch(topology, inner, planned.vectors(inner)?));
        }
        self.lids = lids;
        for branch in branches.into_iter().flatten() {
            touched.push(self.network.topology.domain_of(branch.fe));
            self.branches.insert((id, branch.fe), branch);
        }
        Ok(vectors)
    }
}

/// The links of routes, each with the FE that sends on it. A tree uses each link once.
fn used(routes: &[Route], is_tree: bool) -> Vec<(LinkId, FeId)> {
    let of_route = |route: &Route| {
        let steps = route.links.iter().zip(&route.fes);
        steps.map(|(link, fe)| (*link, *fe)).collect::<Vec<_>>()
    };
    let mut used: Vec<(LinkId, FeId)> = routes.iter().flat_map(of_route).collect();
    if is_tree {
        used.sort_unstable();
        used.dedup();
    }
    used
}

/// The copies of a fork inside the network.
fn branch(topology: &Topology, fork: &Fork, vectors: Vec<Vec<u8>>) -> Option<Branch> {
    let [near, _] = topology.ends(fork.over?, fork.fe);
    Some(Branch {
        fe: fork.fe,
        input: near.interface.clone(),
        vectors,
    })
}
