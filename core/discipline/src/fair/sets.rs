//! Set-associative places: finds the place of a key among a few.
//!
//! ```text
//!  hash --> set [ a | b | - | c | - | - | - | d ]      found: its own place, else a free one of its set,
//!                       ^ starts here                  else the one where it started, with another key
//! ```
//!
//! Two keys share a place only if all eight places of their set are taken, which is rare while the table
//! is far from full. With a single place for each hash, two of forty keys would probably share one of 1024.

use crate::parts::bins::Bins;

/// Places of a set.
const WAYS: usize = 8;

/// The keys of a fixed number of places.
#[derive(Debug)]
pub(crate) struct Sets {
    /// The hash of the key that last had each place.
    tags: Box<[u64]>,
}

/// The place of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The key had this place before, and no other key has had it since.
    Own(usize),
    /// This place is free.
    Free(usize),
    /// All places of the set are taken; this is the one where the search started.
    Taken(usize),
}

impl Sets {
    /// This many places, without keys.
    pub(crate) fn new(places: usize) -> Self {
        Self {
            tags: vec![0; places].into_boxed_slice(),
        }
    }

    /// The place where the search for a key begins.
    pub(crate) fn first(&self, hash: u64) -> usize {
        Bins::place(hash, self.tags.len())
    }

    /// The place of a key; `is_free` returns whether a place is free.
    pub(crate) fn find(&self, hash: u64, is_free: impl Fn(usize) -> bool) -> Place {
        let first = self.first(hash);
        let start = first - first % WAYS;
        let ways = WAYS.min(self.tags.len() - start);
        let places = (0..ways).map(|n| start + (first - start + n) % ways);
        let mut free = None;
        for place in places {
            if self.tags[place] == hash {
                return Place::Own(place);
            }
            if free.is_none() && is_free(place) {
                free = Some(place);
            }
        }
        free.map_or(Place::Taken(first), Place::Free)
    }

    /// Gives the place to this key.
    pub(crate) fn claim(&mut self, place: usize, hash: u64) {
        self.tags[place] = hash;
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        size_of_val(&*self.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash that starts at this place of 20, and differs from others by `n`.
    fn hash(place: u64, n: u64) -> u64 {
        place * (u64::MAX / 20) + (1 << 40) + n
    }

    #[test]
    fn a_set_fills_before_keys_meet() {
        // Set 1 of 20 places is 8..16. Nine keys start at place 13: 13, 14, 15, 8, 9, 10, 11, 12, and
        // the ninth finds none.
        let mut sets = Sets::new(20);
        let mut taken = [false; 20];
        let mut places = Vec::new();
        for n in 0..8 {
            let Place::Free(place) = sets.find(hash(13, n), |p| !taken[p]) else {
                panic!("no place for key {n}");
            };
            sets.claim(place, hash(13, n));
            taken[place] = true;
            places.push(place);
        }
        assert_eq!(places, [13, 14, 15, 8, 9, 10, 11, 12]);
        let find = |n| sets.find(hash(13, n), |p| !taken[p]);
        assert_eq!(find(8), Place::Taken(13));
        assert_eq!(find(3), Place::Own(8));
    }

    #[test]
    fn the_last_set_may_be_short() {
        // Set 2 is 16..20.
        let sets = Sets::new(20);
        assert_eq!(sets.find(hash(18, 0), |p| p == 17), Place::Free(17));
        assert_eq!(sets.find(hash(18, 0), |p| p == 15), Place::Taken(18));
    }
}
