//! Finds the entry with the lowest tag: a binary heap whose entries can move and leave.
//!
//! ```text
//!            (3, e7)                  places:  e7 -> 0, e2 -> 1, e5 -> 2
//!         (4, e2) (9, e5)
//! ```
//!
//! The heap of the standard library cannot remove an entry from its middle, which is necessary when a flow
//! loses its last packet.

/// Not in the heap.
const ABSENT: u32 = u32::MAX;

/// The heap.
#[derive(Debug)]
pub(crate) struct Ranking {
    /// Tag and entry; no tag is lower than that of its parent.
    heap: Vec<(u64, u32)>,
    /// The place of each entry in the heap.
    places: Vec<u32>,
}

impl Ranking {
    /// An empty heap for entries below `entries`.
    pub(crate) fn new(entries: usize) -> Self {
        Self {
            heap: Vec::with_capacity(entries),
            places: vec![ABSENT; entries],
        }
    }

    /// Ensures room for entries below `entries`.
    pub(crate) fn reserve(&mut self, entries: usize) {
        self.heap.reserve(entries.saturating_sub(self.heap.len()));
        let entries = entries.max(self.places.len());
        self.places.resize(entries, ABSENT);
    }

    /// The lowest tag and its entry; among equal tags, the lowest entry.
    pub(crate) fn first(&self) -> Option<(u64, usize)> {
        self.heap
            .first()
            .map(|(tag, entry)| (*tag, *entry as usize))
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Gives an entry this tag, and adds it if it is absent.
    pub(crate) fn set(&mut self, entry: usize, tag: u64) {
        let new = (tag, entry as u32);
        match self.places[entry] {
            ABSENT => {
                self.heap.push(new);
                self.rise(self.heap.len() - 1, new);
            }
            place => self.settle(place as usize, new),
        }
    }

    /// Removes an entry, if it is present.
    pub(crate) fn remove(&mut self, entry: usize) {
        let place = std::mem::replace(&mut self.places[entry], ABSENT) as usize;
        if place < self.heap.len()
            && let Some(last) = self.heap.pop()
            && place < self.heap.len()
        {
            self.settle(place, last);
        }
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(u64, u32)>() + self.places.capacity() * size_of::<u32>()
    }

    /// Inserts `item` at `place`, and moves it up or down from there to its right place.
    fn settle(&mut self, place: usize, item: (u64, u32)) {
        if place > 0 && item < self.heap[(place - 1) / 2] {
            self.rise(place, item);
        } else {
            self.sink(place, item);
        }
    }

    fn rise(&mut self, mut place: usize, item: (u64, u32)) {
        while place > 0 && item < self.heap[(place - 1) / 2] {
            self.put(place, self.heap[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        self.put(place, item);
    }

    fn sink(&mut self, mut place: usize, item: (u64, u32)) {
        loop {
            let mut below = 2 * place + 1;
            if below + 1 < self.heap.len() && self.heap[below + 1] < self.heap[below] {
                below += 1;
            }
            if below >= self.heap.len() || item <= self.heap[below] {
                break;
            }
            self.put(place, self.heap[below]);
            place = below;
        }
        self.put(place, item);
    }

    fn put(&mut self, place: usize, item: (u64, u32)) {
        self.heap[place] = item;
        self.places[item.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares with a map that is searched for the lowest tag.
        #[test]
        fn the_least_is_first(calls in prop::collection::vec((0_usize..20, 0_u64..30, 0_u8..3), 0..300)) {
            let mut ranking = Ranking::new(10);
            ranking.reserve(20);
            let mut tags = BTreeMap::new();
            for (entry, tag, call) in calls {
                if call == 0 {
                    ranking.remove(entry);
                    tags.remove(&entry);
                } else {
                    ranking.set(entry, tag);
                    tags.insert(entry, tag);
                }
                let least = tags.iter().map(|(entry, tag)| (*tag, *entry)).min();
                prop_assert_eq!(ranking.first(), least);
                prop_assert_eq!(ranking.len(), tags.len());
            }
        }
    }
}
