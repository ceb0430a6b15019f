//! A map by flow hash: entries are found, added and removed in constant time.
//!
//! ```text
//!  hash --> index (open addressing, tags) --> entry 5      spare entries: 2 -> 7, the latest first
//! ```
//!
//! An entry keeps its number until it is removed, so that a queued packet can carry it. The entry that
//! became spare last is used next, so that it is warm in the cache.

use std::hint::black_box;

use crate::parts::index::Index;

/// No entry.
const NONE: u32 = u32::MAX;

/// The map.
#[derive(Debug)]
pub(crate) struct Table<V> {
    index: Index,
    entries: Vec<Entry<V>>,
    spare: u32,
    len: usize,
    capacity: usize,
}

/// One entry; `next` links the spare entries.
#[derive(Debug)]
struct Entry<V> {
    hash: u64,
    next: u32,
    value: V,
}

impl<V> Table<V> {
    /// An empty map with room for `capacity` entries, which is allocated now.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            index: Index::new(capacity),
            entries: Vec::with_capacity(capacity),
            spare: NONE,
            len: 0,
            capacity,
        }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The entry of `hash`.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> Option<usize> {
        let is = |entry: usize| self.entries[entry].hash == hash;
        self.index.find(hash, is)
    }

    /// Loads the memory that `find` will need.
    pub(crate) fn touch(&self, hash: u64) {
        black_box(self.find(hash));
    }

    /// The value of an entry.
    #[inline]
    pub(crate) fn get(&self, entry: usize) -> &V {
        &self.entries[entry].value
    }

    /// The value of an entry, to change.
    #[inline]
    pub(crate) fn get_mut(&mut self, entry: usize) -> &mut V {
        &mut self.entries[entry].value
    }

    /// Adds an entry. The hash must be absent, and there must be room.
    pub(crate) fn insert(&mut self, hash: u64, value: V) -> usize {
        debug_assert!(self.len < self.capacity);
        let new = Entry {
            hash,
            next: NONE,
            value,
        };
        let entry = if self.spare == NONE {
            self.entries.push(new);
            self.entries.len() - 1
        } else {
            let entry = self.spare as usize;
            self.spare = self.entries[entry].next;
            self.entries[entry] = new;
            entry
        };
        self.index.insert(hash, entry);
        self.len += 1;
        entry
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, entry: usize) {
        self.index.remove(self.entries[entry].hash, entry);
        self.entries[entry].next = self.spare;
        self.spare = entry as u32;
        self.len -= 1;
    }

    /// Ensures room for `capacity` entries in total.
    pub(crate) fn reserve(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        self.entries.reserve(capacity - self.entries.len());
        let mut spare = vec![false; self.entries.len()];
        let mut at = self.spare;
        while at != NONE {
            spare[at as usize] = true;
            at = self.entries[at as usize].next;
        }
        self.index = Index::new(capacity);
        self.capacity = capacity;
        for (entry, spare) in spare.into_iter().enumerate() {
            if !spare {
                self.index.insert(self.entries[entry].hash, entry);
            }
        }
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        self.index.state_bytes() + self.entries.capacity() * size_of::<Entry<V>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares with a map of the standard library, with hashes that share tags and homes.
        #[test]
        fn behaves_as_a_map(calls in prop::collection::vec((0_u64..16, any::<u32>(), 0_u8..20), 0..400)) {
            let mut table = Table::new(16);
            let mut map = BTreeMap::new();
            for (n, value, call) in calls {
                let hash = (n % 3) << 32 | n;
                table.touch(hash);
                let found = table.find(hash);
                prop_assert_eq!(found.map(|entry| *table.get(entry)), map.get(&hash).copied());
                match found {
                    _ if call == 0 => table.reserve(16 + value as usize % 100),
                    Some(entry) if call % 2 == 0 => {
                        table.remove(entry);
                        map.remove(&hash);
                    }
                    Some(entry) => {
                        *table.get_mut(entry) = value;
                        map.insert(hash, value);
                    }
                    None => {
                        table.insert(hash, value);
                        map.insert(hash, value);
                    }
                }
                prop_assert_eq!(table.len(), map.len());
                prop_assert_eq!(table.index.taken(), map.len());
                prop_assert!(table.entries.len() <= 16);
            }
        }
    }
}
