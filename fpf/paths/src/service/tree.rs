//! Multicast: one packet to several targets, copied where their paths diverge.
//!
//! ```text
//!                    ┌─▶ d1        the edge sends one copy with [LID x, copies]. The FE where the paths diverge has a
//!   edge ──x──▶ (copies)           rule for `copies`, with a vector for each branch: [LID y, ..] and [LID z, ..].
//!                    └─▶ d2        A branch may branch again. If they diverge at the edge, it has several vectors.
//! ```
//!
//! Source: section III.A, Table I, LID 0xf1. The tree consists of the cheapest paths to each target. All of them follow
//! the same trees inside domains, so paths that have diverged never meet again with the same sequence of exits.
//!
//! The FE at which the trunk enters the domain makes the copies, and a rule for copies applies only to packets from
//! there. So a tree needs no rows at other FEs.

use std::collections::BTreeMap;

use crate::error::PathError;
use crate::lids::Meaning;
use crate::request::Request;
use crate::route::{Route, Target, VECTOR_BYTES_MAX, View};
use crate::topology::{FeId, LinkId};

/// The place where routes diverge: each of its branches has its own vector.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fork {
    /// The FE that makes the copies.
    pub(super) fe: FeId,
    /// The link over which the trunk arrives; `None` at the edge.
    pub(super) over: Option<LinkId>,
    /// Number of exits that the routes have passed.
    depth: usize,
    ways: Vec<TreeBranch>,
}

/// A branch of a fork.
#[derive(Debug, PartialEq, Eq)]
struct TreeBranch {
    /// Index of a route that takes the branch.
    route: usize,
    /// Number of exits that the route has passed at the end of the branch.
    depth: usize,
    /// The next fork; `None` if the route ends.
    fork: Option<Fork>,
}

/// The fork at which routes from one FE diverge.
pub(super) fn fork(routes: &[Route]) -> Option<Fork> {
    let source = *routes.first()?.fes.first()?;
    let all: Vec<usize> = (0..routes.len()).collect();
    Some(fork_at(routes, &all, 0, (source, None)))
}

fn fork_at(
    routes: &[Route],
    of: &[usize],
    depth: usize,
    (fe, over): (FeId, Option<LinkId>),
) -> Fork {
    let exit = |index: usize, depth: usize| routes[index].exits.get(depth).copied();
    let mut by_exit: BTreeMap<Option<LinkId>, Vec<usize>> = BTreeMap::new();
    for &index in of {
        by_exit.entry(exit(index, depth)).or_default().push(index);
    }
    let mut ways = Vec::new();
    for (first, of) in by_exit {
        let end = |index: usize| TreeBranch {
            route: index,
            depth: routes[index].exits.len(),
            fork: None,
        };
        if first.is_none() || of.len() == 1 {
            ways.extend(of.into_iter().map(end)); // each target is a separate branch
            continue;
        }
        // The trunk continues while all routes take the same exit.
        let route = of[0];
        let same = |deep: &usize| {
            let next = exit(route, *deep);
            next.is_some() && of.iter().all(|index| exit(*index, *deep) == next)
        };
        let deep = depth + (depth..).take_while(same).count();
        let over = exit(route, deep - 1);
        let entered = over.and_then(|link| routes[route].entry(link));
        let at = (entered.unwrap_or(fe), over);
        ways.push(TreeBranch {
            route,
            depth: deep,
            fork: Some(fork_at(routes, &of, deep, at)),
        });
    }
    Fork {
        fe,
        over,
        depth,
        ways,
    }
}

impl Fork {
    /// All forks behind this one.
    pub(super) fn inner(&self) -> Vec<&Self> {
        let next = self.ways.iter().filter_map(|way| way.fork.as_ref());
        let all = next.flat_map(|fork| std::iter::once(fork).chain(fork.inner()));
        all.collect()
    }
}

/// A tree with allocated identifiers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned<'a> {
    pub(super) view: View<'a>,
    pub(super) tree: u64,
    pub(super) request: &'a Request,
    pub(super) routes: &'a [Route],
}

impl Planned<'_> {
    /// The vectors of a fork's branches, starting at its FE.
    pub(super) fn vectors(&self, fork: &Fork) -> Result<Vec<Vec<u8>>, PathError> {
        let ways = fork.ways.iter();
        ways.map(|way| self.vector(fork.depth, way)).collect()
    }

    fn vector(&self, from: usize, way: &TreeBranch) -> Result<Vec<u8>, PathError> {
        let route = &self.routes[way.route];
        let target = self.request.targets[way.route];
        let mut vector = Vec::new();
        let behaviour = self.request.behaviour.as_deref();
        let exits = &route.exits[from..way.depth];
        for &link in exits {
            let exit = route.exit(link).ok_or(PathError::Targets)?;
            self.append(
                &mut vector,
                exit,
                |behaviour| Meaning::Exit { link, behaviour },
                behaviour,
            )?;
        }
        match (&way.fork, target) {
            (Some(fork), _) => {
                let meaning = Meaning::Copies(self.tree, fork.fe);
                self.append(&mut vector, fork.fe, |_| meaning, behaviour)?;
            }
            // A vector needs at least one identifier: an edge FE at a fork uses its own identifier.
            (None, Target::Fe(fe, payload)) if exits.is_empty() || route.needs_delivery(target) => {
                let meaning = |behaviour| Meaning::Deliver {
                    fe,
                    payload,
                    behaviour,
                };
                self.append(&mut vector, fe, meaning, behaviour)?;
            }
            (None, Target::Domain(domain)) if exits.is_empty() => {
                let name = &self.view.network.topology.domain(domain).name;
                return Err(PathError::NoEdge(name.clone()));
            }
            (None, _) => {}
        }
        match vector.len() {
            0..=VECTOR_BYTES_MAX => Ok(vector),
            bytes => Err(PathError::TooLong(bytes)),
        }
    }

    /// Appends the identifier for a meaning in the domain of an FE.
    fn append(
        &self,
        vector: &mut Vec<u8>,
        at: FeId,
        meaning: impl Fn(usize) -> Meaning,
        behaviour: Option<&str>,
    ) -> Result<(), PathError> {
        let domain = self.view.network.topology.domain_of(at);
        let index = self.view.behaviour(domain, behaviour);
        let lid = index.and_then(|index| self.view.lids[domain.0].get(meaning(index)));
        let lid = lid.ok_or_else(|| PathError::NoPath {
            from: self.view.network.topology.fe(at).name.clone(),
            to: self.view.network.topology.domain(domain).name.clone(),
            behaviour: self.request.behaviour.clone(),
        })?;
        lid.append_to(vector);
        Ok(())
    }
}
