//! A sorted map whose copies share everything that has not changed since.
//!
//! ```text
//!  directory:   first keys |  a   |  k   |  t   |
//!                          +--|---+--|---+--|---+
//!  chunks:                  a..j   k..s   t..z        at most CHUNK_MAX entries each
//! ```
//!
//! A copy costs one reference. The first change after it copies the directory (a reference for each chunk), and
//! each changed chunk once. Chunks are split when they are full, and merged when they are nearly empty, so the
//! memory follows the number of entries whatever the order of changes.

use std::sync::Arc;

/// Maximum entries of a chunk.
const CHUNK_MAX: usize = 128;
/// A chunk with fewer entries is merged with a neighbour, if both together leave room for more.
const CHUNK_MIN: usize = CHUNK_MAX / 4;

/// The map.
#[derive(Clone, Debug)]
pub(crate) struct Sorted<K, V> {
    directory: Arc<Directory<K, V>>,
    len: usize,
}

type Chunk<K, V> = Arc<Vec<(K, V)>>;

/// The chunks, none of them empty.
#[derive(Clone, Debug)]
struct Directory<K, V> {
    /// The first key of each chunk.
    firsts: Vec<K>,
    chunks: Vec<Chunk<K, V>>,
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        let directory = Directory {
            firsts: Vec::new(),
            chunks: Vec::new(),
        };
        Self {
            directory: Arc::new(directory),
            len: 0,
        }
    }
}

impl<K: Ord + Clone, V: Clone> Sorted<K, V> {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (chunk, at) = self.find(key)?;
        Some(&self.directory.chunks[chunk][at.ok()?].1)
    }

    /// Sets the value of a key, and returns the previous value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some((chunk, at)) = self.find(&key) else {
            let directory = Arc::make_mut(&mut self.directory);
            directory.firsts.push(key.clone());
            directory.chunks.push(Arc::new(vec![(key, value)]));
            self.len = 1;
            return None;
        };
        let directory = Arc::make_mut(&mut self.directory);
        let at = match at {
            Ok(at) => {
                let entry = &mut Arc::make_mut(&mut directory.chunks[chunk])[at];
                return Some(std::mem::replace(&mut entry.1, value));
            }
            Err(at) => at,
        };
        self.len += 1;
        directory.insert(chunk, at, key, value);
        None
    }

    /// Removes a key, and returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (chunk, at) = self.find(key)?;
        let at = at.ok()?;
        self.len -= 1;
        Some(Arc::make_mut(&mut self.directory).remove(chunk, at))
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let chunks = self.directory.chunks.iter();
        chunks.flat_map(|chunk| chunk.iter()).map(|(k, v)| (k, v))
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Option<(&K, &V)> {
        let (key, value) = self.directory.chunks.last()?.last()?;
        Some((key, value))
    }

    /// The entries from `key` on, in order.
    pub(crate) fn from(&self, key: &K) -> impl Iterator<Item = (&K, &V)> {
        let (chunk, at) = self.find(key).unwrap_or((0, Ok(0)));
        let at = at.unwrap_or_else(|at| at);
        let chunks = self.directory.chunks[chunk..].iter();
        let entries = chunks.flat_map(|chunk| chunk.iter()).skip(at);
        entries.map(|(k, v)| (k, v))
    }

    /// The last entry whose key is at most `key`.
    pub(crate) fn last_to(&self, key: &K) -> Option<(&K, &V)> {
        let (chunk, at) = self.find(key)?;
        let at = match at {
            Ok(at) => at,
            Err(at) => at.checked_sub(1)?, // only the first chunk can have keys before it
        };
        let (key, value) = &self.directory.chunks[chunk][at];
        Some((key, value))
    }

    /// The chunk of a key, and its index there, or the index where it would be; `None` if the map is empty.
    fn find(&self, key: &K) -> Option<(usize, Result<usize, usize>)> {
        let Directory { firsts, chunks } = &*self.directory;
        let chunk = firsts.partition_point(|first| first <= key);
        let chunk = chunk.saturating_sub(1);
        let entries = chunks.get(chunk)?;
        Some((chunk, entries.binary_search_by(|(k, _)| k.cmp(key))))
    }
}

impl<K: Ord + Clone, V: Clone> Directory<K, V> {
    fn insert(&mut self, mut chunk: usize, mut at: usize, key: K, value: V) {
        let chunks = self.chunks.len();
        let entries = Arc::make_mut(&mut self.chunks[chunk]);
        if entries.len() >= CHUNK_MAX {
            // Keys that are inserted in order fill their chunks.
            let last = chunk + 1 == chunks && at == CHUNK_MAX;
            let middle = if last { CHUNK_MAX } else { CHUNK_MAX / 2 };
            let mut rest = Vec::with_capacity(CHUNK_MAX);
            rest.extend(entries.drain(middle..));
            if at > middle || last {
                (chunk, at) = (chunk + 1, at - middle);
                rest.insert(at, (key, value));
                self.place(chunk, rest);
                return;
            }
            self.place(chunk + 1, rest);
        }
        let entries = Arc::make_mut(&mut self.chunks[chunk]);
        entries.insert(at, (key, value));
        if at == 0 {
            self.firsts[chunk] = entries[0].0.clone();
        }
    }

    /// Adds a chunk.
    fn place(&mut self, at: usize, entries: Vec<(K, V)>) {
        if let Some((first, _)) = entries.first() {
            self.firsts.insert(at, first.clone());
            self.chunks.insert(at, Arc::new(entries));
        }
    }

    fn remove(&mut self, chunk: usize, at: usize) -> V {
        let entries = Arc::make_mut(&mut self.chunks[chunk]);
        let (_, removed) = entries.remove(at);
        match entries.first() {
            None => {
                self.firsts.remove(chunk);
                self.chunks.remove(chunk);
            }
            Some((first, _)) => {
                if at == 0 {
                    self.firsts[chunk] = first.clone();
                }
                if entries.len() < CHUNK_MIN {
                    self.merge(chunk);
                }
            }
        }
        removed
    }

    /// Merges a chunk with the next one, or the one before, if that leaves room for more.
    fn merge(&mut self, chunk: usize) {
        let len = |at: usize| self.chunks.get(at).map_or(CHUNK_MAX, |c| c.len());
        let fits = |at: usize| len(at) + len(at + 1) <= CHUNK_MAX * 3 / 4;
        let first = match chunk.checked_sub(1) {
            _ if fits(chunk) => chunk,
            Some(before) if fits(before) => before,
            _ => return,
        };
        self.firsts.remove(first + 1);
        let rest = self.chunks.remove(first + 1);
        let rest = Arc::try_unwrap(rest).unwrap_or_else(|shared| (*shared).clone());
        Arc::make_mut(&mut self.chunks[first]).extend(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn check(map: &Sorted<u16, u32>, reference: &BTreeMap<u16, u32>) {
        assert!(map.iter().eq(reference.iter()));
        assert_eq!(map.len(), reference.len());
        assert_eq!(map.last(), reference.last_key_value());
        let Directory { firsts, chunks } = &*map.directory;
        assert_eq!(firsts.len(), chunks.len());
        for (first, chunk) in firsts.iter().zip(chunks) {
            assert_eq!(*first, chunk[0].0);
            assert!(chunk.len() <= CHUNK_MAX);
        }
    }

    proptest! {
        /// Two thirds of the changes insert; then two thirds remove.
        #[test]
        fn it_is_a_sorted_map_and_copies_do_not_change(
            changes in proptest::collection::vec((0_u16..2000, 0_u8..3), 1..3000), bound in 0_u16..2000,
        ) {
            let (mut map, mut reference) = (Sorted::default(), BTreeMap::new());
            let mut copies = Vec::new();
            let half = changes.len() / 2;
            for (n, (key, kind)) in changes.into_iter().enumerate() {
                if (kind < 2) == (n < half) {
                    prop_assert_eq!(map.insert(key, n as u32), reference.insert(key, n as u32));
                } else {
                    prop_assert_eq!(map.remove(&key), reference.remove(&key));
                }
                prop_assert_eq!(map.get(&key), reference.get(&key));
                if n % 701 == 0 {
                    copies.push((map.clone(), reference.clone()));
                }
            }
            copies.push((map, reference));
            for (map, reference) in copies {
                check(&map, &reference);
                prop_assert!(map.from(&bound).eq(reference.range(bound..)));
                prop_assert_eq!(map.last_to(&bound), reference.range(..=bound).next_back());
            }
        }
    }

    #[test]
    fn the_number_of_chunks_follows_the_number_of_entries() {
        let mut map = Sorted::default();
        (0..10_000_u16).for_each(|key| _ = map.insert(key, 0_u32));
        let chunks = |map: &Sorted<u16, u32>| map.directory.chunks.len();
        assert_eq!(chunks(&map), 10_000_usize.div_ceil(CHUNK_MAX));
        // One in a hundred stays.
        (0..10_000)
            .filter(|key| key % 100 != 0)
            .for_each(|key| _ = map.remove(&key));
        assert_eq!(map.len(), 100);
        assert!(chunks(&map) <= 100 / CHUNK_MIN + 1, "{}", chunks(&map));
        (0..10_000).for_each(|key| _ = map.remove(&key));
        assert_eq!(chunks(&map), 0);
        assert_eq!(map.last_to(&5), None);
        assert_eq!(map.from(&5).next(), None);
    }
}
