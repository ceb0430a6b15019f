//! Shortest paths between all domains, 512 sources at a time.
//!
//! ```text
//!            sources 0 .. 511: one bit each
//!   seen     which sources have reached a domain
//!   front    which of them reached it with the last step, by the surplus of their path
//! ```
//!
//! A step goes over every link of the front once, for all sources together (Then et al., "The More the Merrier:
//! Efficient Multi-Source Graph Traversal", VLDB 2014). Every domain has a *surplus*; the surplus of a path is the sum
//! over its domains, both ends included. Of equally short paths the path with the largest surplus counts. So results
//! that follow from the surplus are upper bounds, whichever of these paths a control plane chooses.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::graph::Graph;

const WORDS: usize = 8;
/// Number of sources per batch.
const SOURCES: usize = 64 * WORDS;

/// One bit for each source of a batch.
type Bits = [u64; WORDS];

/// The number of ordered pairs of domains by their path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Counts by number of links of the path, then by its surplus.
    counts: Vec<Vec<u64>>,
}

impl Paths {
    fn add(&mut self, links: usize, surplus: usize, paths: u64) {
        if self.counts.len() <= links {
            self.counts.resize(links + 1, Vec::new());
        }
        let row = &mut self.counts[links];
        if row.len() <= surplus {
            row.resize(surplus + 1, 0);
        }
        row[surplus] += paths;
    }

    /// Links, surplus, and the number of ordered pairs with such a path.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let rows = self.counts.iter().enumerate();
        rows.flat_map(|(links, row)| {
            let cells = row.iter().enumerate();
            cells.map(move |(surplus, paths)| (links, surplus, *paths))
        })
    }

    /// Number of ordered pairs that have a path.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }
}

/// Measures the paths between all pairs of domains on `jobs` threads. `surplus` has a value for each domain. After each
/// batch `progress` receives the number of finished sources. `None` if `interrupt` became true.
pub fn measure(
    graph: &Graph,
    surplus: &[u8],
    jobs: usize,
    interrupt: &AtomicBool,
    progress: &(dyn Fn(usize) + Sync),
) -> Option<Paths> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut search = Search::new(graph, surplus);
        loop {
            let first = next.fetch_add(SOURCES, Ordering::Relaxed);
            if first >= graph.domains() || interrupt.load(Ordering::Relaxed) {
                return search.paths;
            }
            let sources = first..graph.domains().min(first + SOURCES);
            let count = sources.len();
            search.run(sources);
            progress(done.fetch_add(count, Ordering::Relaxed) + count);
        }
    };
    let mut all = Paths::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let paths = worker
                .join()
                .unwrap_or_else(|e| std::panic::resume_unwind(e));
            paths.iter().for_each(|(l, s, n)| all.add(l, s, n));
        }
    });
    (!interrupt.load(Ordering::Relaxed)).then_some(all)
}

/// The memory of one thread.
struct Search<'a> {
    graph: &'a Graph,
    surplus: &'a [u8],
    seen: Vec<Bits>,
    /// Sources that reach a domain from the current class of the front; zero between two steps.
    reached: Vec<Bits>,
    /// Domains that all sources have reached. For most links, late steps read nothing else, and this fits in the
    /// caches.
    is_done: Vec<bool>,
    /// A set bit for each source of the batch.
    all: Bits,
    paths: Paths,
}

/// The domains that a step has reached, by the surplus of the paths.
type Front = Vec<Vec<(u32, Bits)>>;

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, surplus: &'a [u8]) -> Self {
        let none = vec![[0; WORDS]; graph.domains()];
        Self {
            graph,
            surplus,
            seen: none.clone(),
            reached: none,
            is_done: vec![false; graph.domains()],
            all: [0; WORDS],
            paths: Paths::default(),
        }
    }

    /// Adds the paths from these sources, at most [`SOURCES`].
    fn run(&mut self, sources: std::ops::Range<usize>) {
        self.seen.fill([0; WORDS]);
        self.is_done.fill(false);
        self.all = [0; WORDS];
        let mut front = Front::new();
        for (bit, source) in sources.enumerate() {
            let mut own = [0; WORDS];
            own[bit / 64] = 1 << (bit % 64);
            self.all[bit / 64] |= own[bit / 64];
            self.seen[source] = own;
            class(&mut front, self.surplus[source].into()).push((source as u32, own));
        }
        let mut links = 0;
        while front.iter().any(|class| !class.is_empty()) {
            links += 1;
            front = self.step(links, &front);
        }
    }

    /// One step of all sources. The largest surplus is processed first, so a domain is first reached with its largest
    /// surplus.
    fn step(&mut self, links: usize, front: &Front) -> Front {
        let mut next = Front::new();
        let mut touched = Vec::new();
        for (surplus, domains) in front.iter().enumerate().rev() {
            for (domain, bits) in domains {
                let peers = self.graph.peers(*domain as usize).iter();
                for peer in peers.filter(|peer| !self.is_done[**peer as usize]) {
                    let seen = &self.seen[*peer as usize];
                    let fresh: Bits = std::array::from_fn(|w| bits[w] & !seen[w]);
                    if fresh == [0; WORDS] {
                        continue;
                    }
                    let reached = &mut self.reached[*peer as usize];
                    if *reached == [0; WORDS] {
                        touched.push(*peer);
                    }
                    reached.iter_mut().zip(fresh).for_each(|(r, f)| *r |= f);
                }
            }
            for domain in touched.drain(..) {
                let at = domain as usize;
                let bits = std::mem::take(&mut self.reached[at]);
                self.seen[at]
                    .iter_mut()
                    .zip(bits)
                    .for_each(|(s, b)| *s |= b);
                self.is_done[at] = self.seen[at] == self.all;
                let surplus = surplus + usize::from(self.surplus[at]);
                let count = bits.iter().map(|word| u64::from(word.count_ones())).sum();
                self.paths.add(links, surplus, count);
                class(&mut next, surplus).push((domain, bits));
            }
        }
        next
    }
}

fn class(front: &mut Front, surplus: usize) -> &mut Vec<(u32, Bits)> {
    if front.len() <= surplus {
        front.resize(surplus + 1, Vec::new());
    }
    &mut front[surplus]
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use weir_base::Streams;

    use super::*;

    fn measured(graph: &Graph, surplus: &[u8], jobs: usize) -> Paths {
        measure(graph, surplus, jobs, &AtomicBool::new(false), &|_| {}).unwrap()
    }

    /// The same result computed one pair of domains after another, by relaxation until nothing changes.
    fn simple(graph: &Graph, surplus: &[u8]) -> Paths {
        let mut paths = Paths::default();
        for source in 0..graph.domains() {
            let mut best: Vec<Option<(usize, usize)>> = vec![None; graph.domains()];
            best[source] = Some((0, surplus[source].into()));
            let mut changed = true;
            while std::mem::take(&mut changed) {
                for from in 0..graph.domains() {
                    let Some((links, sum)) = best[from] else {
                        continue;
                    };
                    for to in graph.peers(from).iter().map(|to| *to as usize) {
                        let new = (links + 1, sum + usize::from(surplus[to]));
                        let is_better = best[to]
                            .is_none_or(|old| new.0 < old.0 || new.0 == old.0 && new.1 > old.1);
                        if is_better {
                            best[to] = Some(new);
                            changed = true;
                        }
                    }
                }
            }
            for (links, sum) in best.into_iter().flatten().filter(|(links, _)| *links > 0) {
                paths.add(links, sum, 1);
            }
        }
        paths
    }

    #[test]
    fn a_square_by_hand() {
        // 0 - 1 - 3 and 0 - 2 - 3: the path through 2 has the greater surplus.
        let graph = Graph::new(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        let paths = measured(&graph, &[0, 0, 1, 0], 1);
        let found: Vec<_> = paths.iter().filter(|(.., n)| *n > 0).collect();
        // Four links in both directions, two of them with domain 2 at an end; 0 to 3 through 2, and 1 to 2.
        assert_eq!(found, [(1, 0, 4), (1, 1, 4), (2, 1, 4)]);
        assert_eq!(paths.total(), 12);
    }

    #[test]
    fn random_graphs_agree_with_a_simple_search() {
        let mut random = Streams::new(1).stream("graphs");
        for (domains, links) in [(30, 25), (60, 90), (700, 800)] {
            let mut drawn = std::collections::BTreeSet::new();
            while drawn.len() < links {
                let [a, b] = [(); 2].map(|()| random.random_range(0..domains as u32));
                if a != b {
                    drawn.insert((a.min(b), a.max(b)));
                }
            }
            let graph = Graph::new(domains, &drawn.into_iter().collect::<Vec<_>>());
            let surplus: Vec<u8> = (0..domains).map(|_| random.random_range(0..3)).collect();
            let expected = simple(&graph, &surplus);
            assert_eq!(measured(&graph, &surplus, 2), expected);
        }
    }

    #[test]
    fn an_interrupted_search_has_no_result() {
        let graph = Graph::new(2, &[(0, 1)]);
        let interrupt = AtomicBool::new(true);
        assert_eq!(measure(&graph, &[0, 0], 1, &interrupt, &|_| {}), None);
    }
}
