//! Paths that share no link or no domain, as a minimum-cost flow with one unit per path.
//!
//! ```text
//!   domain-disjoint:   ──▶ [in ─1─▶ out] ──▶      a domain is two nodes, and the arc between them carries one path
//!   link-disjoint:     ──▶ [   node    ] ──▶      an arc carries one path, in one of its directions
//! ```
//!
//! Each path is added by a shortest augmenting path in the residual network: Suurballe, "Disjoint paths in a network",
//! Networks 4 (1974), in Bhandari's form for any number of paths. The search is that of Bellman and Ford, because
//! reversed arcs of earlier paths have negative costs. A shortest path that blocks all others is thus replaced by two
//! compatible paths.
//!
//! A node of the network is a *part*: the FEs of a domain that can reach each other inside it. The costs are the costs
//! of links between domains. Inside a domain all paths follow the domain's trees, and may share links there, because a
//! domain repairs its trees itself ([`rules`](super::rules)).

use std::collections::VecDeque;

use super::topology::LinkId;

/// The parts of the network that disjoint paths do not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disjoint {
    /// Links between domains.
    Links,
    /// Domains, except the first and the last.
    Domains,
}

impl Disjoint {
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Links => "link between domains",
            Self::Domains => "domain",
        }
    }
}

/// A link between two parts, usable in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) parts: [usize; 2],
    pub(super) cost: u64,
    pub(super) link: LinkId,
}

/// An arc of the residual network; the reverse arc has the next or the previous index.
#[derive(Clone, Copy, Debug)]
struct Residual {
    to: usize,
    cost: i64,
    is_free: bool,
    link: Option<LinkId>,
}

#[derive(Debug, Default)]
struct Network {
    arcs: Vec<Residual>,
    of: Vec<Vec<usize>>,
}

/// Up to `wanted` disjoint paths of minimum total cost from one part to another, as lists of links; the cheapest path
/// is first.
pub(super) fn disjoint(
    parts: usize,
    edges: &[Edge],
    [from, to]: [usize; 2],
    kind: Disjoint,
    wanted: usize,
) -> Vec<Vec<LinkId>> {
    let mut network = Network {
        arcs: Vec::new(),
        of: vec![Vec::new(); 2 * parts],
    };
    // Node 2 n is the entry of part n, node 2 n + 1 its exit.
    for part in 0..parts {
        let is_end = part == from || part == to;
        let lanes = match kind {
            Disjoint::Domains if !is_end => 1,
            _ => wanted,
        };
        (0..lanes).for_each(|_| network.add(2 * part, 2 * part + 1, 0, None));
    }
    for edge in edges {
        let [a, b] = edge.parts;
        let cost = i64::try_from(edge.cost).unwrap_or(i64::MAX);
        network.add(2 * a + 1, 2 * b, cost, Some(edge.link));
        network.add(2 * b + 1, 2 * a, cost, Some(edge.link));
    }
    let (source, sink) = (2 * from, 2 * to + 1);
    (0..wanted)
        .take_while(|_| network.augment(source, sink))
        .count();
    network.paths(source, sink, edges)
}

impl Network {
    fn add(&mut self, from: usize, to: usize, cost: i64, link: Option<LinkId>) {
        let arc = |to, cost, is_free| Residual {
            to,
            cost,
            is_free,
            link,
        };
        self.of[from].push(self.arcs.len());
        self.arcs.push(arc(to, cost, true));
        self.of[to].push(self.arcs.len());
        self.arcs.push(arc(from, -cost, false));
    }

    /// Adds one unit of flow along the cheapest path; returns false if no path exists.
    fn augment(&mut self, source: usize, sink: usize) -> bool {
        let mut best = vec![(i64::MAX, usize::MAX); self.of.len()];
        let mut is_queued = vec![false; self.of.len()];
        let mut queue = VecDeque::from([source]);
        best[source].0 = 0;
        while let Some(node) = queue.pop_front() {
            is_queued[node] = false;
            for &index in &self.of[node] {
                let arc = self.arcs[index];
                let cost = best[node].0.saturating_add(arc.cost);
                if arc.is_free && cost < best[arc.to].0 {
                    best[arc.to] = (cost, index);
                    if !std::mem::replace(&mut is_queued[arc.to], true) {
                        queue.push_back(arc.to);
                    }
                }
            }
        }
        if best[sink].0 == i64::MAX {
            return false;
        }
        let mut node = sink;
        while node != source {
            let index = best[node].1;
            self.arcs[index].is_free = false;
            self.arcs[index ^ 1].is_free = true;
            node = self.arcs[index ^ 1].to;
        }
        true
    }

    /// Decomposes the flow into paths.
    fn paths(&mut self, source: usize, sink: usize, edges: &[Edge]) -> Vec<Vec<LinkId>> {
        let mut paths = Vec::new();
        while let Some(path) = self.take_path(source, sink) {
            paths.push(path);
        }
        let cost = |path: &Vec<LinkId>| -> u64 {
            let of = |link: &LinkId| edges.iter().find(|edge| edge.link == *link);
            path.iter().filter_map(of).map(|edge| edge.cost).sum()
        };
        paths.sort_by_cached_key(|path| (cost(path), path.clone()));
        paths
    }

    fn take_path(&mut self, source: usize, sink: usize) -> Option<Vec<LinkId>> {
        let (mut node, mut path) = (source, Vec::new());
        while node != sink {
            // Forward arcs have even indices; an arc that carries flow is not free.
            let mut forward = self.of[node].iter().copied().filter(|index| index % 2 == 0);
            let index = forward.find(|index| !self.arcs[*index].is_free)?;
            self.arcs[index].is_free = true;
            path.extend(self.arcs[index].link);
            node = self.arcs[index].to;
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn edges(of: &[(usize, usize, u64)]) -> Vec<Edge> {
        let edge = |(place, &(a, b, cost)): (usize, &(usize, usize, u64))| Edge {
            parts: [a, b],
            cost,
            link: LinkId(place),
        };
        of.iter().enumerate().map(edge).collect()
    }

    fn numbers(paths: &[Vec<LinkId>]) -> Vec<Vec<usize>> {
        paths
            .iter()
            .map(|path| path.iter().map(|link| link.0).collect())
            .collect()
    }

    #[test]
    fn the_shortest_path_is_given_up_for_two() {
        // The trap: 0-1-2-3 costs 3 and blocks the two other paths; 0-1-3 and 0-2-3 are disjoint.
        let trap = edges(&[(0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 2, 5), (1, 3, 5)]);
        assert_eq!(
            numbers(&disjoint(4, &trap, [0, 3], Disjoint::Domains, 1)),
            [[0, 1, 2]]
        );
        let two = disjoint(4, &trap, [0, 3], Disjoint::Domains, 2);
        assert_eq!(numbers(&two), [[0, 4], [3, 2]]);
        assert_eq!(disjoint(4, &trap, [0, 3], Disjoint::Links, 3).len(), 2);
    }

    #[test]
    fn paths_may_share_a_domain_but_no_link() {
        // Two links to part 1, and two links from part 1.
        let bow = edges(&[(0, 1, 1), (0, 1, 2), (1, 2, 1), (1, 2, 4)]);
        assert_eq!(disjoint(3, &bow, [0, 2], Disjoint::Domains, 2).len(), 1);
        let two = disjoint(3, &bow, [0, 2], Disjoint::Links, 5);
        assert_eq!(two.len(), 2);
        let links: BTreeSet<usize> = numbers(&two).concat().into_iter().collect();
        assert_eq!(links.len(), 4);
        // Two direct links to the target share no domain.
        assert_eq!(
            disjoint(
                2,
                &edges(&[(0, 1, 1), (0, 1, 1)]),
                [0, 1],
                Disjoint::Domains,
                3
            )
            .len(),
            2
        );
    }

    /// All paths that visit no part twice, as links and inner parts.
    fn all(
        edges: &[Edge],
        at: usize,
        to: usize,
        parts: &mut Vec<usize>,
    ) -> Vec<(Vec<usize>, Vec<usize>, u64)> {
        if at == to {
            return vec![(Vec::new(), parts[1..].to_vec(), 0)];
        }
        parts.push(at);
        let mut found = Vec::new();
        for edge in edges {
            let [a, b] = edge.parts;
            for (near, far) in [(a, b), (b, a)] {
                if near == at && !parts.contains(&far) {
                    for (mut links, inner, cost) in all(edges, far, to, parts) {
                        links.push(edge.link.0);
                        found.push((links, inner, cost + edge.cost));
                    }
                }
            }
        }
        parts.pop();
        found
    }

    proptest! {
        #[test]
        fn two_paths_have_the_least_total_cost(
            of in proptest::collection::vec((0..5_usize, 0..5_usize, 1..9_u64), 1..11),
            by_domain: bool,
        ) {
            let edges = edges(&of.into_iter().filter(|(a, b, _)| a != b).collect::<Vec<_>>());
            let kind = if by_domain { Disjoint::Domains } else { Disjoint::Links };
            let paths = all(&edges, 0, 4, &mut Vec::new());
            let differ = |a: &[usize], b: &[usize]| a.iter().all(|x| !b.contains(x));
            let pairs = paths.iter().enumerate().flat_map(|(place, first)| {
                paths[place + 1..].iter().filter_map(move |second| {
                    let fits = differ(&first.0, &second.0) && (!by_domain || differ(&first.1, &second.1));
                    fits.then_some(first.2 + second.2)
                })
            });
            let best = pairs.min();
            let found = disjoint(5, &edges, [0, 4], kind, 2);
            let cost = |path: &Vec<LinkId>| path.iter().map(|link| edges[link.0].cost).sum::<u64>();
            match best {
                Some(best) => {
                    prop_assert_eq!(found.len(), 2);
                    prop_assert_eq!(found.iter().map(cost).sum::<u64>(), best);
                    prop_assert!(differ(&numbers(&found)[0], &numbers(&found)[1]));
                }
                None => prop_assert_eq!(found.len(), usize::from(!paths.is_empty())),
            }
        }
    }
}
