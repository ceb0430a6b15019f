//! A map of fixed size that knows which entry was used longest ago, all in constant time.
//!
//! ```text
//!  hash --> index (open addressing, tags) --> entry 5        lists:  top  5 <-> 0 <-> 3  bottom
//!                                                                    top  1              bottom
//! ```
//!
//! The index holds half of each hash beside the entry's number, so that a search for an absent flow
//! rarely touches an entry; at most a quarter of it is taken, so that most searches end where they
//! begin (a wrong guess of the processor costs more than the memory). Entries are in one or the other of several recency lists; the links
//! are in an array of their own, which stays small. An entry leaves only by being replaced.
//!
//! What is looked up is the 64-bit keyed hash: two of `n` flows are taken for one with a
//! probability of about `n^2 / 2^65`, and nobody without the key can bring it about.

use std::hint::black_box;

/// An empty place of the index.
const EMPTY: u64 = u64::MAX;

/// The map. `LISTS` recency lists order its entries.
#[derive(Debug)]
pub(crate) struct Lru<V, const LISTS: usize> {
    index: Box<[u64]>,
    entries: Vec<Entry<V>>,
    /// Of each entry, then of each list's anchor.
    links: Box<[Link]>,
    capacity: usize,
}

/// One entry, in a cache line of its own if the value is small enough.
#[derive(Debug)]
#[repr(align(64))]
struct Entry<V> {
    hash: u64,
    value: V,
}

/// Neighbours in a recency list: towards the bottom, towards the top.
#[derive(Clone, Copy, Debug)]
struct Link {
    below: u32,
    above: u32,
}

impl<V, const LISTS: usize> Lru<V, LISTS> {
    /// An empty map with room for `capacity` entries, taken now.
    pub(crate) fn new(capacity: usize) -> Self {
        let anchor = |list| Link {
            below: (capacity + list) as u32,
            above: (capacity + list) as u32,
        };
        let mut links = vec![Link { below: 0, above: 0 }; capacity];
        links.extend((0..LISTS).map(anchor));
        Self {
            index: vec![EMPTY; (4 * capacity).next_power_of_two()].into_boxed_slice(),
            entries: Vec::with_capacity(capacity),
            links: links.into_boxed_slice(),
            capacity,
        }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the next entry must replace one.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// The entry of `hash`.
    pub(crate) fn find(&self, hash: u64) -> Option<usize> {
        let mask = self.index.len() - 1;
        let mut at = tag(hash) as usize & mask;
        while self.index[at] != EMPTY {
            let (found, entry) = unpack(self.index[at]);
            if found == tag(hash) && self.entries[entry].hash == hash {
                return Some(entry);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Loads what `find` and `raise` will need.
    pub(crate) fn touch(&self, hash: u64) {
        if let Some(entry) = self.find(hash) {
            let Link { below, above } = self.links[entry];
            black_box((
                self.links[below as usize].above,
                self.links[above as usize].below,
            ));
        }
    }

    /// The value of an entry.
    pub(crate) fn get(&self, entry: usize) -> &V {
        &self.entries[entry].value
    }

    /// The value of an entry, to change.
    pub(crate) fn get_mut(&mut self, entry: usize) -> &mut V {
        &mut self.entries[entry].value
    }

    /// The hash of an entry.
    pub(crate) fn hash(&self, entry: usize) -> u64 {
        self.entries[entry].hash
    }

    /// Adds an entry on top of `list`; gives the value back if the map is full. The hash must be absent.
    pub(crate) fn insert(&mut self, hash: u64, value: V, list: usize) -> Result<usize, V> {
        if self.is_full() {
            return Err(value);
        }
        let entry = self.entries.len();
        self.entries.push(Entry { hash, value });
        self.index_insert(hash, entry);
        self.link_on_top(entry, list);
        Ok(entry)
    }

    /// Replaces an entry by a new one on top of `list`. The new hash must be absent.
    pub(crate) fn replace(&mut self, entry: usize, hash: u64, value: V, list: usize) -> V {
        self.index_remove(self.entries[entry].hash, entry);
        self.index_insert(hash, entry);
        self.raise(entry, list);
        self.entries[entry].hash = hash;
        std::mem::replace(&mut self.entries[entry].value, value)
    }

    /// Moves an entry, from whichever list it is in, to the top of `list`.
    pub(crate) fn raise(&mut self, entry: usize, list: usize) {
        let Link { below, above } = self.links[entry];
        self.links[below as usize].above = above;
        self.links[above as usize].below = below;
        self.link_on_top(entry, list);
    }

    /// The entry at the bottom of `list`.
    pub(crate) fn bottom(&self, list: usize) -> Option<usize> {
        let anchor = self.capacity + list;
        let entry = self.links[anchor].above as usize;
        (entry != anchor).then_some(entry)
    }

    /// The entries of `list`, from the bottom to the top.
    pub(crate) fn upwards(&self, list: usize) -> impl Iterator<Item = usize> {
        let anchor = self.capacity + list;
        let start = self.links[anchor].above as usize;
        std::iter::successors(Some(start), |at| Some(self.links[*at].above as usize))
            .take_while(move |at| *at != anchor)
    }

    /// Bytes of memory taken.
    pub(crate) fn state_bytes(&self) -> usize {
        size_of_val(&*self.index)
            + size_of_val(&*self.links)
            + self.entries.capacity() * size_of::<Entry<V>>()
    }

    fn link_on_top(&mut self, entry: usize, list: usize) {
        let anchor = self.capacity + list;
        let top = self.links[anchor].below;
        self.links[entry] = Link {
            below: top,
            above: anchor as u32,
        };
        self.links[top as usize].above = entry as u32;
        self.links[anchor].below = entry as u32;
    }

    fn index_insert(&mut self, hash: u64, entry: usize) {
        let mask = self.index.len() - 1;
        let mut at = tag(hash) as usize & mask;
        while self.index[at] != EMPTY {
            at = (at + 1) & mask; // ends: at most a quarter of the places are taken
        }
        self.index[at] = u64::from(tag(hash)) << 32 | entry as u64;
    }

    /// Removes a place and moves later ones back over the hole, so that no search ends early.
    fn index_remove(&mut self, hash: u64, entry: usize) {
        let mask = self.index.len() - 1;
        let mut hole = tag(hash) as usize & mask;
        while unpack(self.index[hole]).1 != entry {
            hole = (hole + 1) & mask;
        }
        let mut at = (hole + 1) & mask;
        while self.index[at] != EMPTY {
            let home = unpack(self.index[at]).0 as usize & mask;
            // It may move back to the hole unless its home lies between the two.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.index[hole] = self.index[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.index[hole] = EMPTY;
    }
}

/// The half of a hash that the index holds; its low bits are the home place.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Tag and entry of a place of the index.
fn unpack(place: u64) -> (u32, usize) {
    ((place >> 32) as u32, place as u32 as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow, obvious one: a vector from bottom to top for each list.
    #[derive(Default)]
    struct Reference {
        lists: [Vec<(u64, u32)>; 2],
    }

    impl Reference {
        fn take(&mut self, hash: u64) -> Option<(u64, u32)> {
            self.lists.iter_mut().find_map(|list| {
                let at = list.iter().position(|e| e.0 == hash)?;
                Some(list.remove(at))
            })
        }
    }

    fn contents(lru: &Lru<u32, 2>) -> [Vec<(u64, u32)>; 2] {
        [0, 1].map(|list| {
            let entries = lru.upwards(list);
            entries.map(|e| (lru.hash(e), *lru.get(e))).collect()
        })
    }

    /// Hashes that share tags and homes, to make long runs in the index.
    fn hash(n: u64) -> u64 {
        (n % 3) << 32 | n
    }

    proptest! {
        #[test]
        fn behaves_as_a_vector(capacity in 1_usize..10, calls in prop::collection::vec((0_u64..16, 0_usize..2, any::<u32>()), 0..400)) {
            let mut lru = Lru::<u32, 2>::new(capacity);
            let mut reference = Reference::default();
            for (n, list, value) in calls {
                let hash = hash(n);
                lru.touch(hash);
                match (lru.find(hash), reference.take(hash)) {
                    (Some(entry), Some((_, value))) => {
                        prop_assert_eq!(*lru.get(entry), value);
                        lru.raise(entry, list);
                        reference.lists[list].push((hash, value));
                    }
                    (None, None) => {
                        if lru.insert(hash, value, list).is_ok() {
                            reference.lists[list].push((hash, value));
                        } else if let Some(entry) = lru.bottom(0) {
                            let old = lru.replace(entry, hash, value, list);
                            prop_assert_eq!(old, reference.lists[0].remove(0).1);
                            reference.lists[list].push((hash, value));
                        } else {
                            prop_assert!(reference.lists[0].is_empty());
                        }
                    }
                    (found, expected) => prop_assert!(false, "{found:?} but {expected:?}"),
                }
                prop_assert_eq!(&contents(&lru), &reference.lists);
                prop_assert_eq!(lru.len(), reference.lists.iter().map(Vec::len).sum::<usize>());
                prop_assert!(lru.len() <= capacity);
                prop_assert_eq!(lru.index.iter().filter(|p| **p != EMPTY).count(), lru.len());
            }
        }
    }
}
