//! Shortest paths by cost (Dijkstra), and the next shortest paths (Yen).
//!
//! ```text
//!   first path       s ──▶ a ──▶ b ──▶ t
//!   deviations       s ──▶ c ··▶ t         for each of its nodes: keep the path up to the node, forbid the arcs that
//!                    s ──▶ a ──▶ d ··▶ t   known paths with this beginning take next, find the shortest rest
//! ```
//!
//! Source: J. Y. Yen, "Finding the K Shortest Loopless Paths in a Network", Management Science 17 (1971). Paths are in
//! the order of their costs; paths of equal cost are ordered by the number of arcs, then by the order in which their
//! arcs were added. So the result depends only on the graph.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::topology::LinkId;

/// An arc of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arc {
    /// The destination node.
    pub(super) to: usize,
    /// Cost of the arc.
    pub(super) cost: u64,
    /// The link to another domain that the arc represents; `None` for the last step to the target.
    pub(super) exit: Option<LinkId>,
}

/// A directed graph with costs; nodes are numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Digraph {
    /// The arcs of each node.
    pub(super) arcs: Vec<Vec<Arc>>,
}

/// A path: its cost, and its arcs by node and index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Walk {
    pub(super) cost: u64,
    /// Number of arcs; declared before the arcs, so that shorter paths sort first.
    len: usize,
    steps: Vec<(usize, usize)>,
}

/// A node's cost, its distance in arcs, and the arc that leads to it.
type Label = (u64, u32, Option<(usize, usize)>);

/// Nodes and arcs that a search omits.
#[derive(Debug, Default)]
struct Without {
    nodes: BTreeSet<usize>,
    /// Arcs of the node at which the search begins.
    arcs: BTreeSet<usize>,
}

/// Number of paths, accepted or refused, that a search may find per requested path.
const REFUSED_MAX: usize = 16;

impl Digraph {
    /// The links to other domains that a path takes.
    pub(super) fn exits(&self, walk: &Walk) -> Vec<LinkId> {
        let arcs = walk.steps.iter().map(|(node, arc)| self.arcs[*node][*arc]);
        arcs.filter_map(|arc| arc.exit).collect()
    }

    /// The cheapest path.
    pub(super) fn shortest(&self, from: usize, to: usize) -> Option<Walk> {
        self.search(from, to, &Without::default())
    }

    /// The `k` cheapest paths that visit no node twice and that `accept` accepts, ordered by cost. Stops after finding
    /// `k` * [`REFUSED_MAX`] paths.
    pub(super) fn k_shortest(
        &self,
        (from, to): (usize, usize),
        k: usize,
        mut accept: impl FnMut(&Walk) -> bool,
    ) -> Vec<Walk> {
        let (mut accepted, mut known) = (Vec::new(), Vec::<Walk>::new());
        let mut candidates: BTreeSet<Walk> = self.shortest(from, to).into_iter().collect();
        while accepted.len() < k && known.len() < k.saturating_mul(REFUSED_MAX) {
            let Some(next) = candidates.pop_first() else {
                break;
            };
            if accept(&next) {
                accepted.push(next.clone());
            }
            known.push(next);
            self.deviations(to, &known, &mut candidates);
        }
        accepted
    }

    /// Adds the cheapest deviation from the latest known path at each of its nodes.
    fn deviations(&self, to: usize, known: &[Walk], candidates: &mut BTreeSet<Walk>) {
        let Some(latest) = known.last() else { return };
        let mut without = Without::default();
        let mut cost = 0;
        for (place, &(node, arc)) in latest.steps.iter().enumerate() {
            let root = &latest.steps[..place];
            let same_root = known.iter().filter(|walk| walk.steps.starts_with(root));
            let next = same_root.filter_map(|walk| walk.steps.get(place));
            without.arcs = next.map(|(_, arc)| *arc).collect();
            if let Some(rest) = self.search(node, to, &without) {
                candidates.insert(Walk::new(cost + rest.cost, [root, &rest.steps].concat()));
            }
            without.nodes.insert(node);
            cost += self.arcs[node][arc].cost;
        }
    }

    /// Dijkstra's algorithm, ends at the target.
    fn search(&self, from: usize, to: usize, without: &Without) -> Option<Walk> {
        let mut best: Vec<Option<Label>> = vec![None; self.arcs.len()];
        let mut done = vec![false; self.arcs.len()];
        let mut heap = BinaryHeap::from([Reverse((0, 0, from))]);
        best[from] = Some((0, 0, None));
        while let Some(Reverse((cost, hops, node))) = heap.pop() {
            if std::mem::replace(&mut done[node], true) {
                continue;
            }
            if node == to {
                break;
            }
            for (index, arc) in self.arcs[node].iter().enumerate() {
                let is_left_out = without.nodes.contains(&arc.to)
                    || (node == from && without.arcs.contains(&index));
                if is_left_out || done[arc.to] {
                    continue;
                }
                let offer = (cost + arc.cost, hops + 1, Some((node, index)));
                if best[arc.to].is_none_or(|known| offer < known) {
                    best[arc.to] = Some(offer);
                    heap.push(Reverse((offer.0, offer.1, arc.to)));
                }
            }
        }
        let (cost, ..) = best[to]?;
        let mut steps = Vec::new();
        let mut node = to;
        while let Some((_, _, Some((before, arc)))) = best[node] {
            steps.push((before, arc));
            node = before;
        }
        steps.reverse();
        Some(Walk::new(cost, steps))
    }
}

impl Walk {
    fn new(cost: u64, steps: Vec<(usize, usize)>) -> Self {
        Self {
            cost,
            len: steps.len(),
            steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph(nodes: usize, arcs: &[(usize, usize, u64)]) -> Digraph {
        let mut graph = Digraph {
            arcs: vec![Vec::new(); nodes],
        };
        for (place, &(from, to, cost)) in arcs.iter().enumerate() {
            graph.arcs[from].push(Arc {
                to,
                cost,
                exit: Some(LinkId(place)),
            });
        }
        graph
    }

    /// The costs of all paths that visit no node twice, by exhaustive search.
    fn all(graph: &Digraph, from: usize, to: usize, before: &mut Vec<usize>) -> Vec<u64> {
        if from == to {
            return vec![0];
        }
        before.push(from);
        let mut costs = Vec::new();
        for arc in &graph.arcs[from] {
            if !before.contains(&arc.to) {
                let rest = all(graph, arc.to, to, before);
                costs.extend(rest.into_iter().map(|rest| rest + arc.cost));
            }
        }
        before.pop();
        costs
    }

    #[test]
    fn the_example_of_yen() {
        // C, D, E, F, G, H as in the usual example: cost 5 over E-F, 7 over E-G, 8 over E-F-G.
        let [c, d, e, f, g, h] = [0, 1, 2, 3, 4, 5];
        let arcs = [
            (c, d, 3),
            (c, e, 2),
            (d, f, 4),
            (e, d, 1),
            (e, f, 2),
            (e, g, 3),
            (f, g, 2),
            (f, h, 1),
            (g, h, 2),
        ];
        let graph = graph(6, &arcs);
        let walks = graph.k_shortest((c, h), 3, |_| true);
        let exits: Vec<_> = walks.iter().map(|walk| graph.exits(walk)).collect();
        let numbers = |exits: &[LinkId]| exits.iter().map(|link| link.0).collect::<Vec<_>>();
        assert_eq!(walks.iter().map(|w| w.cost).collect::<Vec<_>>(), [5, 7, 8]);
        assert_eq!(numbers(&exits[0]), [1, 4, 7]);
        assert_eq!(numbers(&exits[1]), [1, 5, 8]);
        // Of the paths with cost 8, the path with fewest arcs: C-D-F-H, not C-E-D-F-H or C-E-F-G-H.
        assert_eq!(numbers(&exits[2]), [0, 2, 7]);
    }

    #[test]
    fn no_path_is_no_walk() {
        let graph = graph(3, &[(0, 1, 1)]);
        assert_eq!(graph.shortest(0, 2), None);
        assert!(graph.k_shortest((0, 2), 5, |_| true).is_empty());
    }

    proptest! {
        #[test]
        fn the_cheapest_paths_are_those_of_a_full_search(
            arcs in proptest::collection::vec((0..6_usize, 0..6_usize, 1..9_u64), 1..20),
            k in 1..12_usize,
        ) {
            let graph = graph(6, &arcs);
            let mut expected = all(&graph, 0, 5, &mut Vec::new());
            expected.sort_unstable();
            expected.truncate(k);
            let walks = graph.k_shortest((0, 5), k, |_| true);
            let costs: Vec<u64> = walks.iter().map(|walk| walk.cost).collect();
            prop_assert_eq!(costs, expected);
            let different: BTreeSet<_> = walks.iter().collect();
            prop_assert_eq!(different.len(), walks.len());
            for walk in &walks {
                let sum: u64 = walk.steps.iter().map(|(n, a)| graph.arcs[*n][*a].cost).sum();
                prop_assert_eq!(sum, walk.cost);
            }
        }
    }
}
