//! The LID vectors of a rule, and which of the vectors a packet gets.
//!
//! ```text
//!  by flow     hash --> the vector whose share of the weights it falls into      a flow stays in order
//!  by packet   A B A C A B A ..   in turn, by weight                             one flow over all paths
//!  copies      every vector, a copy of the packet for each: multicast
//! ```
//!
//! Source: Beben et al., sections III and III.B (multipath, multicast); the turns by packet are smooth weighted
//! round-robin, as nginx spreads requests.
//!
//! Rules that use the same vectors share them, so a million flows over a few paths find them in the cache.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use weir_path::weighted;

use crate::header::{Repr, Vector};

/// Maximum vectors of a rule.
pub const VECTORS_MAX: usize = 64;

/// How packets are spread over the vectors of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// One vector for each flow, by weight.
    ByFlow,
    /// One vector for each packet, in turn, by weight.
    ByPacket,
    /// All vectors: a copy of the packet for each.
    Copies,
}

/// The vectors of a rule: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    spread: Spread,
    /// The header with each vector, as the edge writes it.
    headers: Box<[Repr]>,
    /// Weight of each vector; at least 1.
    weights: Box<[u32]>,
}

/// Why vectors are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathsError {
    /// There are no vectors, or too many.
    #[error("the number of vectors is {0}, but must be from 1 to {VECTORS_MAX}")]
    Number(usize),
    /// A vector would never be used.
    #[error("the weight of vector {0} is 0, but must be at least 1")]
    Weight(usize),
}

impl Paths {
    /// These vectors with their weights. Weights have no meaning for [`Spread::Copies`].
    pub fn new(spread: Spread, vectors: &[(Vector, u32)]) -> Result<Self, PathsError> {
        if vectors.is_empty() || vectors.len() > VECTORS_MAX {
            return Err(PathsError::Number(vectors.len()));
        }
        if let Some(unused) = vectors.iter().position(|(_, weight)| *weight == 0) {
            return Err(PathsError::Weight(unused));
        }
        Ok(Self {
            spread,
            headers: vectors.iter().map(|(v, _)| Repr::first(*v)).collect(),
            weights: vectors.iter().map(|(_, weight)| *weight).collect(),
        })
    }

    /// One vector for all packets.
    pub fn single(vector: Vector) -> Self {
        Self {
            spread: Spread::ByFlow,
            headers: Box::new([Repr::first(vector)]),
            weights: Box::new([1]),
        }
    }

    /// How packets are spread.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// The headers with the vectors: Index is zero.
    pub fn headers(&self) -> &[Repr] {
        &self.headers
    }

    /// The weights of the vectors.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// Length of the longest header in bytes.
    pub fn header_len_max(&self) -> usize {
        let lens = self.headers.iter().map(Repr::encoded_len);
        lens.max().unwrap_or(0)
    }

    /// The headers for a packet of the flow with this hash; `turn` counts if they are spread by packet.
    #[inline]
    pub(super) fn choose(&self, flow_hash: u64, turn: usize) -> &[Repr] {
        let chosen = match self.spread {
            Spread::Copies => return &self.headers,
            _ if self.headers.len() == 1 => return &self.headers,
            Spread::ByPacket => turn,
            Spread::ByFlow => {
                weighted::choose(flow_hash, self.weights.iter().copied()).unwrap_or(0)
            }
        };
        self.headers.get(chosen..=chosen).unwrap_or(&[])
    }
}

impl Hash for Paths {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.spread.hash(state);
        self.weights.hash(state);
        for header in &self.headers {
            header.vector().hash(state);
        }
    }
}

/// Whose turn it is among the vectors of a rule: smooth weighted round-robin.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    credits: Box<[i64]>,
    turn: usize,
}

impl Turns {
    /// The start; [`Self::next`] begins the first turn.
    pub(super) fn new(paths: &Paths) -> Self {
        Self {
            credits: vec![0; paths.weights.len()].into_boxed_slice(),
            turn: 0,
        }
    }

    /// Begins the next turn: every vector gains its weight, and the vector with the most credit pays for all.
    pub(super) fn next(&mut self, paths: &Paths) {
        let mut total = 0;
        for (credit, weight) in self.credits.iter_mut().zip(&paths.weights) {
            *credit += i64::from(*weight);
            total += i64::from(*weight);
        }
        let most = self.credits.iter().copied().max().unwrap_or(0);
        if let Some(turn) = self.credits.iter().position(|credit| *credit == most) {
            self.credits[turn] -= total;
            self.turn = turn;
        }
    }

    /// The vector whose turn it is.
    pub(super) fn turn(&self) -> usize {
        self.turn
    }
}

/// The vectors of all rules, each set of them once.
#[derive(Debug, Default)]
pub(super) struct Shared {
    sets: Vec<Set>,
    numbers: HashMap<Paths, u32>,
    spare: Vec<u32>,
}

#[derive(Debug)]
struct Set {
    paths: Paths,
    /// Number of rules that use the set.
    users: usize,
}

impl Shared {
    /// Returns the number of a set, for one more rule that uses it.
    pub(super) fn add(&mut self, paths: &Paths) -> u32 {
        if let Some(number) = self.numbers.get(paths) {
            self.sets[*number as usize].users += 1;
            return *number;
        }
        let set = Set {
            paths: paths.clone(),
            users: 1,
        };
        let number = match self.spare.pop() {
            Some(number) => {
                self.sets[number as usize] = set;
                number
            }
            None => {
                self.sets.push(set);
                self.sets.len() as u32 - 1
            }
        };
        self.numbers.insert(paths.clone(), number);
        number
    }

    /// Forgets one rule that uses a set.
    pub(super) fn remove(&mut self, number: u32) {
        let set = &mut self.sets[number as usize];
        set.users -= 1;
        if set.users == 0 {
            self.numbers.remove(&set.paths);
            self.spare.push(number);
        }
    }

    /// The set with this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Paths {
        &self.sets[number as usize].paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(lid: u8) -> Vector {
        Vector::new(&[lid]).unwrap()
    }

    fn weighted(spread: Spread, weights: &[u32]) -> Paths {
        let lids = (0..).map(vector);
        let vectors: Vec<_> = lids.zip(weights.iter().copied()).collect();
        Paths::new(spread, &vectors).unwrap()
    }

    #[test]
    fn flows_spread_by_weight_and_stay() {
        let paths = weighted(Spread::ByFlow, &[1, 3]);
        let step = u64::MAX / 1000 + 1;
        let of = |n: u64| *paths.choose((n * step).rotate_left(32), 0)[0].vector();
        assert_eq!((0..1000).filter(|n| of(*n) == vector(0)).count(), 250);
        assert!((0..1000).all(|n| of(n) == of(n)));
        assert_eq!(paths.choose(u64::MAX, 0), [Repr::first(vector(1))]);
    }

    #[test]
    fn packets_take_turns_by_hand() {
        // Weights 5, 1, 1: credits 5 1 1 -> A pays 7; 3 2 2 -> A; 1 3 3 -> B; 6 -3 4 -> A; 4 -2 5 -> C; 9 -1 -1 -> A.
        let paths = weighted(Spread::ByPacket, &[5, 1, 1]);
        let mut turns = Turns::new(&paths);
        let order: Vec<_> = (0..14)
            .map(|_| {
                turns.next(&paths);
                turns.turn()
            })
            .collect();
        assert_eq!(order[..7], [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(order[7..], order[..7]);
        assert_eq!(paths.choose(9, 2), [Repr::first(vector(2))]);
    }

    #[test]
    fn copies_go_to_every_leaf() {
        let paths = weighted(Spread::Copies, &[1, 1, 1]);
        let all = [0, 1, 2].map(|lid| Repr::first(vector(lid)));
        assert_eq!(paths.choose(9, 1), all);
    }

    #[test]
    fn a_vector_that_is_never_used_is_refused() {
        let error = |vectors: &[(Vector, u32)]| {
            let error = Paths::new(Spread::ByFlow, vectors).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            error(&[]),
            "the number of vectors is 0, but must be from 1 to 64"
        );
        assert_eq!(
            error(&[(vector(1), 1); 65]),
            "the number of vectors is 65, but must be from 1 to 64"
        );
        assert_eq!(
            error(&[(vector(1), 1), (vector(2), 0)]),
            "the weight of vector 1 is 0, but must be at least 1"
        );
    }

    #[test]
    fn equal_sets_are_stored_once() {
        let (a, b) = (Paths::single(vector(1)), Paths::single(vector(2)));
        let mut shared = Shared::default();
        assert_eq!([&a, &b, &a].map(|paths| shared.add(paths)), [0, 1, 0]);
        shared.remove(0);
        assert_eq!(shared.add(&a), 0);
        shared.remove(0);
        shared.remove(0);
        let c = weighted(Spread::ByFlow, &[1, 2]);
        assert_eq!(shared.add(&c), 0); // the place is reused
        assert_eq!((shared.get(0), shared.get(1)), (&c, &b));
        assert_eq!(shared.add(&a), 2);
    }
}
