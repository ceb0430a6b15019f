//! A map of fixed size that knows which entry was used longest ago, all in constant time.
//!
//! ```text
//!  hash --> index (open addressing, tags) --> entry 5        lists:  top  5 <-> 0 <-> 3  bottom
//!                                                                    top  1              bottom
//! ```
//!
//! Entries are in one or the other of several recency lists; the links are in an array of their own, which
//! stays small. An entry leaves only by being replaced.

use std::hint::black_box;

use crate::index::Index;

/// The map. `LISTS` recency lists order its entries.
#[derive(Debug)]
pub(crate) struct Lru<V, const LISTS: usize> {
    index: Index,
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
            index: Index::new(capacity),
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

    /// Makes sure of room for `capacity` entries in all. Entries keep their numbers.
    pub(crate) fn reserve(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        let mut new = Self::new(capacity);
        for list in 0..LISTS {
            for entry in self.upwards(list) {
                new.link_on_top(entry, list);
            }
        }
        for (number, entry) in self.entries.iter().enumerate() {
            new.index.insert(entry.hash, number);
        }
        new.entries.append(&mut self.entries);
        *self = new;
    }

    /// The entry of `hash`.
    pub(crate) fn find(&self, hash: u64) -> Option<usize> {
        let is = |entry: usize| self.entries[entry].hash == hash;
        self.index.find(hash, is)
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
        self.index.insert(hash, entry);
        self.link_on_top(entry, list);
        Ok(entry)
    }

    /// Replaces an entry by a new one on top of `list`. The new hash must be absent.
    pub(crate) fn replace(&mut self, entry: usize, hash: u64, value: V, list: usize) -> V {
        self.index.remove(self.entries[entry].hash, entry);
        self.index.insert(hash, entry);
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
        self.index.state_bytes()
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
        fn behaves_as_a_vector(mut capacity in 1_usize..10, calls in prop::collection::vec((0_u64..16, 0_usize..2, any::<u32>()), 0..400)) {
            let mut lru = Lru::<u32, 2>::new(capacity);
            let mut reference = Reference::default();
            for (n, list, value) in calls {
                let hash = hash(n);
                lru.touch(hash);
                if value % 50 == 0 && capacity < 14 {
                    capacity += 1;
                    lru.reserve(capacity);
                }
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
                prop_assert_eq!(lru.index.taken(), lru.len());
            }
        }
    }
}
