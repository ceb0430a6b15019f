//! A generated graph with the degrees of the paper's Internet (Table II), used when no file is given.
//!
//! Degrees are fixed: between the percentiles that the table prints, and from the lowest percentile down to a degree of
//! 1, the share of domains above a degree falls by a power law. Links are random: from the largest domain to the
//! smallest, each domain is linked to an earlier one, so that the graph is connected; the remaining link ends are
//! paired.
//!
//! In the real Internet, large domains prefer each other, and chains of small domains hang below. So path lengths of
//! a generated graph are shorter than the Internet's, and only its degrees match the paper's.

use std::collections::HashSet;

use rand::RngExt;
use weir_base::{Stream, Streams};

use super::graph::Graph;

/// Number of domains (Table II).
pub const DOMAINS: usize = 36_878;

/// Number of domains with at least this degree, and the degree: the steps of Table II, from the largest degree.
const STEPS: [(f64, f64); 5] = [
    (1.0, 2972.0),
    ((DOMAINS - 36_874 + 1) as f64, 2000.0),
    ((DOMAINS - 36_693 + 1) as f64, 128.0),
    ((DOMAINS - 36_509 + 1) as f64, 60.0),
    ((DOMAINS - 33_190 + 1) as f64, 6.0),
];

/// Number of links to try for two link ends that cannot be linked, before they stay without a link.
const TRIES: usize = 50;

/// The graph generated from a seed.
pub fn internet(seed: u64) -> Graph {
    join(&degrees(), &mut Streams::new(seed).stream("domains"))
}

/// The degrees of all domains, in descending order.
fn degrees() -> Vec<u32> {
    (1..=DOMAINS).map(|rank| degree(rank as f64)).collect()
}

/// The degree of the domain with this rank, 1 for the largest.
fn degree(rank: f64) -> u32 {
    let next = STEPS.iter().position(|(at, _)| *at >= rank);
    // The power law of the last step continues below it.
    let last = next.unwrap_or(STEPS.len() - 1).max(1);
    let [(from, high), (to, low)] = [STEPS[last - 1], STEPS[last]];
    let exponent = (low / high).ln() / (to / from).ln();
    (high * (rank / from).powf(exponent)).round().max(1.0) as u32
}

/// Joins domains at random. Degrees are in descending order. The last link ends of large domains, which would be linked
/// twice, replace a link between two other domains, but never a link that connects the graph.
fn join(degrees: &[u32], random: &mut Stream) -> Graph {
    let mut links = Links::default();
    let mut places: Vec<u32> = vec![0; degrees[0] as usize];
    for (domain, degree) in degrees.iter().enumerate().skip(1) {
        let domain = domain as u32;
        links.add(take(&mut places, random), domain);
        places.extend((1..*degree).map(|_| domain));
    }
    let connecting = links.all.len();
    let mut left = Vec::new();
    while places.len() > 1 {
        let [a, b] = [(); 2].map(|()| take(&mut places, random));
        if !links.add(a, b) {
            left.push((a, b));
        }
    }
    for (a, b) in left {
        for _ in 0..TRIES {
            let at = random.random_range(connecting..links.all.len());
            if links.rewire(at, a, b) {
                break;
            }
        }
    }
    links.all.sort_unstable();
    Graph::new(degrees.len(), &links.all)
}

/// Removes one of the link ends at random, and returns its domain.
fn take(places: &mut Vec<u32>, random: &mut Stream) -> u32 {
    places.swap_remove(random.random_range(0..places.len()))
}

/// Links without duplicates.
#[derive(Default)]
struct Links {
    all: Vec<(u32, u32)>,
    known: HashSet<(u32, u32)>,
}

impl Links {
    /// Whether two domains may be linked: they differ, and are not linked yet.
    fn is_new(&self, a: u32, b: u32) -> bool {
        a != b && !self.known.contains(&(a.min(b), a.max(b)))
    }

    /// Links two domains if permitted; returns whether it did.
    fn add(&mut self, a: u32, b: u32) -> bool {
        let is_new = self.is_new(a, b);
        if is_new {
            self.known.insert((a.min(b), a.max(b)));
            self.all.push((a.min(b), a.max(b)));
        }
        is_new
    }

    /// Replaces the link c - d by a - c and b - d, if both are permitted.
    fn rewire(&mut self, at: usize, a: u32, b: u32) -> bool {
        let (c, d) = self.all[at];
        // The new links differ from each other: a - c and b - d would be the same only for a = d and b = c, and then a
        // - c is the existing link c - d.
        if !(self.is_new(a, c) && self.is_new(b, d)) {
            return false;
        }
        self.known.remove(&(c, d));
        self.all.swap_remove(at);
        self.add(a, c) && self.add(b, d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_are_those_of_the_table() {
        let degrees = degrees();
        for (percentile, printed) in [
            (33_190, 6),
            (36_509, 60),
            (36_693, 128),
            (36_874, 2000),
            (36_878, 2972),
        ] {
            assert_eq!(degrees[DOMAINS - percentile], printed);
        }
        assert!(degrees.is_sorted_by(|a, b| a >= b));
        assert_eq!(degrees[DOMAINS - 1], 1);
    }

    #[test]
    fn a_seed_gives_one_graph_and_few_places_stay_empty() {
        let graph = internet(1);
        assert_eq!(graph, internet(1));
        assert_ne!(graph, internet(2));
        let wanted: u32 = degrees().iter().sum();
        let empty = f64::from(wanted) - 2.0 * graph.links() as f64;
        assert!(empty < 0.001 * f64::from(wanted), "{empty} of {wanted}");
        assert!((0..graph.domains()).all(|d| graph.degree(d) > 0));
    }
}
