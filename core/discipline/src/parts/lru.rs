//! A map of fixed size that finds the least recently used entry, all in constant time.
//!
//! ```text
//!  hash --> index --> entry 5        lists:  top  5 <-> 0 <-> 3  bottom
//!                                            top  1              bottom
//! ```
//!
//! Each entry is in one of several recency lists. An entry leaves when it is replaced or removed; the
//! place of a removed entry is used before new memory.
//!
//! The lookup uses the 64-bit keyed hash: some two of `n` flows have equal hashes, and count as one
//! flow, with a probability of about `n^2 / 2^65`. Nobody can cause that without the key.

use std::hint::black_box;

use crate::parts::index::Index;
use crate::parts::lists::Lists;

/// The map. `LISTS` recency lists order its entries.
#[derive(Debug)]
pub(crate) struct Lru<V, const LISTS: usize> {
    index: Index,
    entries: Vec<Entry<V>>,
    /// The recency lists, and a list of removed entries.
    lists: Lists,
    len: usize,
    capacity: usize,
}

/// One entry, in a cache line of its own if the value is small enough.
#[derive(Debug)]
#[repr(align(64))]
struct Entry<V> {
    hash: u64,
    value: V,
}

impl<V, const LISTS: usize> Lru<V, LISTS> {
    /// An empty map with room for `capacity` entries, which is allocated now.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            index: Index::new(capacity),
            entries: Vec::with_capacity(capacity),
            lists: Lists::new(capacity, LISTS + 1),
            len: 0,
            capacity,
        }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether a new entry must replace another.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    /// Ensures room for `capacity` entries in total. Entries keep their numbers.
    pub(crate) fn reserve(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        let mut new = Self::new(capacity);
        for list in 0..=LISTS {
            for entry in self.lists.upwards(list) {
                new.lists.put(entry, list);
                if list < LISTS {
                    new.index.insert(self.entries[entry].hash, entry);
                }
            }
        }
        new.entries.append(&mut self.entries);
        new.len = self.len;
        *self = new;
    }

    /// The entry of `hash`.
    pub(crate) fn find(&self, hash: u64) -> Option<usize> {
        self.index
            .find(hash, |entry| self.entries[entry].hash == hash)
    }

    /// Loads the memory that `find` and `raise` will need.
    #[inline]
    pub(crate) fn touch(&self, hash: u64) {
        if let Some(entry) = self.find(hash) {
            black_box(self.lists.neighbours(entry));
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

    /// Adds an entry on top of `list`; returns the value if the map is full. The hash must be absent.
    pub(crate) fn insert(&mut self, hash: u64, value: V, list: usize) -> Result<usize, V> {
        if self.is_full() {
            return Err(value);
        }
        let entry = match self.lists.bottom(LISTS) {
            Some(spare) => {
                self.entries[spare] = Entry { hash, value };
                self.lists.raise(spare, list);
                spare
            }
            None => {
                self.entries.push(Entry { hash, value });
                self.lists.put(self.entries.len() - 1, list);
                self.entries.len() - 1
            }
        };
        self.index.insert(hash, entry);
        self.len += 1;
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

    /// Removes an entry. Its value stays readable under its number until the place is used again.
    pub(crate) fn remove(&mut self, entry: usize) {
        self.index.remove(self.entries[entry].hash, entry);
        self.lists.raise(entry, LISTS);
        self.len -= 1;
    }

    /// Moves an entry, from whichever list it is in, to the top of `list`.
    pub(crate) fn raise(&mut self, entry: usize, list: usize) {
        self.lists.raise(entry, list);
    }

    /// The entry at the bottom of `list`.
    pub(crate) fn bottom(&self, list: usize) -> Option<usize> {
        self.lists.bottom(list)
    }

    /// The entry on top of `list`.
    pub(crate) fn top(&self, list: usize) -> Option<usize> {
        self.lists.top(list)
    }

    /// The entries of `list`, from the bottom to the top.
    pub(crate) fn upwards(&self, list: usize) -> impl Iterator<Item = usize> {
        self.lists.upwards(list)
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        self.index.state_bytes()
            + self.lists.state_bytes()
            + self.entries.capacity() * size_of::<Entry<V>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow, obvious reference: a vector from bottom to top for each list.
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
        fn behaves_as_a_vector(mut capacity in 1_usize..10, calls in prop::collection::vec((0_u64..16, 0_usize..2, any::<u32>(), 0_u8..4), 0..400)) {
            let mut lru = Lru::<u32, 2>::new(capacity);
            let mut reference = Reference::default();
            for (n, list, value, remove) in calls {
                let hash = hash(n);
                lru.touch(hash);
                if value % 50 == 0 && capacity < 14 {
                    capacity += 1;
                    lru.reserve(capacity);
                }
                match (lru.find(hash), reference.take(hash)) {
                    (Some(entry), Some((_, value))) if remove == 0 => {
                        prop_assert_eq!(*lru.get(entry), value);
                        lru.remove(entry);
                    }
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
