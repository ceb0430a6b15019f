//! Shortest paths through a network, in hops.
//!
//! ```text
//!   host --- router === router --- host        only routers forward: no path leads through a host
//!                \       /
//!                 router
//! ```
//!
//! The simulator and the lab take their routes from here, so a flow has the same paths in both. All
//! equally short paths are returned; the forwarding code decides which of them a flow takes.

use std::collections::VecDeque;

/// Nodes by their number, and the links between them. A node's links are its *ports*, numbered in the order in which
/// they were added.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Links>,
}

#[derive(Clone, Debug)]
struct Links {
    forwards: bool,
    /// The node at the other end of each port.
    peers: Vec<usize>,
}

/// The first hops of all shortest paths from one node to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstHops {
    /// Links on each of the paths; zero if no path exists.
    pub hops: u32,
    /// The ports of their first hops, in ascending order.
    pub ports: Vec<usize>,
}

/// The shortest paths of a graph.
#[derive(Clone, Debug)]
pub struct ShortestPaths {
    graph: Graph,
    /// Hops from each forwarding node to every node; empty for a node that does not forward.
    distances: Vec<Vec<u32>>,
}

const UNREACHABLE: u32 = u32::MAX;

impl Graph {
    /// Adds a node and returns its number. Paths lead through it only if it forwards.
    pub fn add_node(&mut self, forwards: bool) -> usize {
        self.nodes.push(Links {
            forwards,
            peers: Vec::new(),
        });
        self.nodes.len() - 1
    }

    /// Adds a port to `node`, with `peer` at its other end. The peer's own port is added separately.
    pub fn add_port(&mut self, node: usize, peer: usize) {
        self.nodes[node].peers.push(peer);
    }

    /// Finds the shortest paths from every node that forwards.
    pub fn shortest_paths(self) -> ShortestPaths {
        let nodes = 0..self.nodes.len();
        let distances = nodes.map(|node| {
            if self.nodes[node].forwards {
                self.distances_from(node)
            } else {
                Vec::new()
            }
        });
        ShortestPaths {
            distances: distances.collect(),
            graph: self,
        }
    }

    /// Hops to every node, breadth first.
    fn distances_from(&self, node: usize) -> Vec<u32> {
        let mut distances = vec![UNREACHABLE; self.nodes.len()];
        distances[node] = 0;
        let mut queue = VecDeque::from([node]);
        while let Some(node) = queue.pop_front() {
            if !self.nodes[node].forwards {
                continue;
            }
            for &peer in &self.nodes[node].peers {
                if distances[peer] == UNREACHABLE {
                    distances[peer] = distances[node] + 1;
                    queue.push_back(peer);
                }
            }
        }
        distances
    }
}

impl ShortestPaths {
    /// The first hops from `node` to every node, by number; empty for the node itself. Ports whose peers do not forward
    /// are examined once each, so they cost little.
    pub fn first_hops(&self, node: usize) -> Vec<FirstHops> {
        let peers = &self.graph.nodes[node].peers;
        let ports = peers.iter().copied().enumerate();
        let (ways, ends): (Vec<_>, Vec<_>) =
            ports.partition(|(_, peer)| self.graph.nodes[*peer].forwards);
        let nodes = 0..self.graph.nodes.len();
        let by_ways = nodes.map(|to| self.first_hops_by(ways.iter().copied(), node, to));
        let mut all: Vec<FirstHops> = by_ways.collect();
        for (port, peer) in ends.into_iter().filter(|(_, peer)| *peer != node) {
            let first = &mut all[peer];
            if first.hops != 1 {
                *first = FirstHops {
                    hops: 1,
                    ports: Vec::new(),
                };
            }
            first.ports.push(port);
        }
        all
    }

    /// The first hops from `node` to `to`; empty if both are the same node. The work is proportional to the ports of
    /// `node`.
    pub fn first_hops_to(&self, node: usize, to: usize) -> FirstHops {
        let ports = self.graph.nodes[node].peers.iter().copied();
        self.first_hops_by(ports.enumerate(), node, to)
    }

    /// The same, through these ports with their peers.
    fn first_hops_by(
        &self,
        ports: impl Iterator<Item = (usize, usize)>,
        node: usize,
        to: usize,
    ) -> FirstHops {
        let mut first = FirstHops::default();
        if to == node {
            return first;
        }
        for (port, peer) in ports {
            let hops = match self.distances[peer].get(to) {
                _ if peer == to => 1,
                None | Some(&UNREACHABLE) => continue,
                Some(distance) => distance + 1,
            };
            if first.hops != 0 && first.hops < hops {
                continue;
            }
            if first.hops != hops {
                first = FirstHops {
                    hops,
                    ports: Vec::new(),
                };
            }
            first.ports.push(port);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(graph: &mut Graph, a: usize, b: usize) {
        graph.add_port(a, b);
        graph.add_port(b, a);
    }

    /// Ports and hops from one node to another.
    fn first(graph: &Graph, from: usize, to: usize) -> (Vec<usize>, u32) {
        let paths = graph.clone().shortest_paths();
        let first = paths.first_hops(from)[to].clone();
        assert_eq!(first, paths.first_hops_to(from, to));
        let FirstHops { hops, ports } = first;
        (ports, hops)
    }

    /// Routers 0 to 3 in a square, and the hosts 4 at router 0 and 5 at router 2.
    fn square() -> Graph {
        let mut graph = Graph::default();
        (0..6).for_each(|node| assert_eq!(graph.add_node(node < 4), node));
        for [a, b] in [[0, 1], [1, 2], [2, 3], [3, 0], [0, 4], [2, 5]] {
            join(&mut graph, a, b);
        }
        graph
    }

    #[test]
    fn all_equally_short_paths_are_found() {
        let mut square = square();
        assert_eq!(first(&square, 0, 5), (vec![0, 1], 3));
        assert_eq!(first(&square, 4, 5), (vec![0], 4));
        assert_eq!(first(&square, 1, 5), (vec![1], 2));
        assert_eq!(first(&square, 0, 4), (vec![2], 1));
        assert_eq!(first(&square, 0, 0), (vec![], 0));
        // A parallel link is a separate path; a shortcut replaces both of the longer paths.
        join(&mut square, 0, 1);
        assert_eq!(first(&square, 0, 5), (vec![0, 1, 3], 3));
        join(&mut square, 0, 2);
        assert_eq!(first(&square, 0, 5), (vec![4], 2));
    }

    #[test]
    fn no_path_leads_through_a_host() {
        let mut graph = Graph::default();
        let [a, host, b, lonely] = [true, false, true, true].map(|f| graph.add_node(f));
        join(&mut graph, a, host);
        join(&mut graph, host, b);
        assert_eq!(first(&graph, a, host), (vec![0], 1));
        assert_eq!(first(&graph, a, b), (vec![], 0));
        assert_eq!(first(&graph, host, b), (vec![1], 1));
        assert_eq!(first(&graph, host, lonely), (vec![], 0));
    }
}
