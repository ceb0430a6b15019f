//! Finds the entry of a table that has a flow hash, by open addressing with tags.
//!
//! ```text
//!  hash --> home place --> [ tag | entry ] [ tag | entry ] [ empty ]
//! ```
//!
//! A place holds half of a hash and the entry's number, so that a search for an absent flow rarely touches
//! an entry. At most a quarter of the places are taken, so that most searches end where they begin (a
//! branch misprediction costs more than the memory).
//!
//! The lookup uses the 64-bit keyed hash: some two of `n` flows have equal hashes, and count as one
//! flow, with a probability of about `n^2 / 2^65`. Nobody can cause that without the key.

/// An empty place.
const EMPTY: u64 = u64::MAX;

/// The places.
#[derive(Debug)]
pub(crate) struct Index(Box<[u64]>);

impl Index {
    /// An index for a table of `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self(vec![EMPTY; (4 * capacity).next_power_of_two()].into_boxed_slice())
    }

    /// The entry of `hash`; `is` returns whether an entry has this hash.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.0.len() - 1;
        let mut at = tag(hash) as usize & mask;
        while self.0[at] != EMPTY {
            let (found, entry) = unpack(self.0[at]);
            if found == tag(hash) && is(entry) {
                return Some(entry);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Adds an entry, whose hash must be absent.
    pub(crate) fn insert(&mut self, hash: u64, entry: usize) {
        let mask = self.0.len() - 1;
        let mut at = tag(hash) as usize & mask;
        while self.0[at] != EMPTY {
            at = (at + 1) & mask; // ends: at most a quarter of the places are taken
        }
        self.0[at] = u64::from(tag(hash)) << 32 | entry as u64;
    }

    /// Removes an entry and moves later ones back over the hole, so that no search ends early.
    pub(crate) fn remove(&mut self, hash: u64, entry: usize) {
        let mask = self.0.len() - 1;
        let mut hole = tag(hash) as usize & mask;
        while unpack(self.0[hole]).1 != entry {
            hole = (hole + 1) & mask;
        }
        let mut at = (hole + 1) & mask;
        while self.0[at] != EMPTY {
            let home = unpack(self.0[at]).0 as usize & mask;
            // The entry may move back to the hole unless its home is between the two.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.0[hole] = self.0[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.0[hole] = EMPTY;
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// The places in use.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.0.iter().filter(|place| **place != EMPTY).count()
    }
}

/// The half of a hash that a place holds; its low bits are the home place.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Tag and entry of a place.
fn unpack(place: u64) -> (u32, usize) {
    ((place >> 32) as u32, place as u32 as usize)
}
