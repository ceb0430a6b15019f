//! A table of fixed size from flow keys to values that tracks which flows were used recently.
//!
//! ```text
//!  key --> index --> entry 5        order:  latest  5 <-> 0 <-> 3  oldest
//! ```
//!
//! Use of a flow only marks it: moving it to the front would touch three more entries with each packet. When a flow has
//! to leave, marked flows at the end of the order lose their mark and move to the front instead, up to a limit (the
//! second chance of page replacement).
//!
//! Both directions of a connection are one flow: the key has the lower end first. The hash is keyed, so a sender cannot
//! aim at a bucket.

use hashbrown::HashTable;
use hashbrown::hash_table::OccupiedEntry;
use weir_packet::{FlowKey, Keys};

/// No entry.
const NONE: u32 = u32::MAX;
/// Maximum number of marked entries to pass in search of an unmarked entry.
const PASSED_MAX: usize = 8;

/// The table.
#[derive(Debug)]
pub(crate) struct Table<V> {
    hasher: Keys,
    places: HashTable<u32>,
    entries: Vec<Entry<V>>,
    latest: u32,
    oldest: u32,
    capacity: usize,
}

/// A flow key without direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends(FlowKey);

impl Ends {
    /// The ends of a flow, the lower end first; and whether this reversed the key.
    pub(crate) fn of(key: &FlowKey) -> (Self, bool) {
        let source = (u128::from_be_bytes(key.source), key.source_port);
        let destination = (u128::from_be_bytes(key.destination), key.destination_port);
        if source <= destination {
            (Self(*key), false)
        } else {
            (Self(key.reversed()), true)
        }
    }

    /// The key of a flow, reversed or not.
    pub(crate) fn key(&self, is_turned: bool) -> FlowKey {
        if is_turned { self.0.reversed() } else { self.0 }
    }
}

#[derive(Debug)]
struct Entry<V> {
    ends: Ends,
    newer: u32,
    older: u32,
    /// Whether it was used since it was put in front.
    is_used: bool,
    value: V,
}

impl<V> Table<V> {
    /// An empty table for `capacity` flows, at least one.
    pub(crate) fn new(capacity: usize, secret: (u64, u64)) -> Self {
        let capacity = capacity.clamp(1, NONE as usize);
        Self {
            hasher: Keys::new(0, secret),
            places: HashTable::with_capacity(capacity),
            entries: Vec::with_capacity(capacity),
            latest: NONE,
            oldest: NONE,
            capacity,
        }
    }

    /// The number of flows.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The flow at the end of the order.
    pub(crate) fn oldest(&self) -> Option<&V> {
        self.entries.get(self.oldest as usize).map(|e| &e.value)
    }

    /// The value of a flow, which is marked as used.
    pub(crate) fn get(&mut self, ends: &Ends) -> Option<&mut V> {
        let hash = self.hasher.hash_key(&ends.0);
        let entries = &self.entries;
        let is_it = |place: &u32| entries[*place as usize].ends == *ends;
        let place = *self.places.find(hash, is_it)?;
        let entry = &mut self.entries[place as usize];
        entry.is_used = true;
        Some(&mut entry.value)
    }

    /// Adds a flow that is absent; returns the evicted flow if the table was full.
    pub(crate) fn insert(&mut self, ends: Ends, value: V) -> Option<(Ends, V)> {
        let gone = if self.entries.len() == self.capacity {
            let _ = (0..PASSED_MAX).find(|_| !self.pass_used());
            self.remove_oldest()
        } else {
            None
        };
        let place = self.entries.len() as u32;
        self.entries.push(Entry {
            ends,
            newer: NONE,
            older: NONE,
            is_used: false,
            value,
        });
        let (hasher, entries) = (&self.hasher, &self.entries);
        let hash_of = |place: &u32| hasher.hash_key(&entries[*place as usize].ends.0);
        self.places.insert_unique(hash_of(&place), place, hash_of);
        self.link(place);
        gone
    }

    /// Moves the flow at the end of the order to the front if it was used; returns whether it was.
    pub(crate) fn pass_used(&mut self) -> bool {
        let place = self.oldest;
        let Some(entry) = self.entries.get_mut(place as usize) else {
            return false;
        };
        let was_used = std::mem::take(&mut entry.is_used);
        if was_used {
            self.unlink(place);
            self.link(place);
        }
        was_used
    }

    /// Removes the flow at the end of the order.
    pub(crate) fn remove_oldest(&mut self) -> Option<(Ends, V)> {
        let place = self.oldest;
        let ends = self.entries.get(place as usize)?.ends;
        self.unlink(place);
        if let Some(held) = self.held(&ends, place) {
            held.remove();
        }
        let gone = self.entries.swap_remove(place as usize);
        // The last entry has moved into the free slot.
        if let Some(moved) = self.entries.get(place as usize) {
            let (ends, newer, older) = (moved.ends, moved.newer, moved.older);
            let from = self.entries.len() as u32;
            if let Some(mut held) = self.held(&ends, from) {
                *held.get_mut() = place;
            }
            self.set_newer(older, place);
            self.set_older(newer, place);
        }
        Some((ends, gone.value))
    }

    /// The slot of a flow in the index.
    fn held(&mut self, ends: &Ends, place: u32) -> Option<OccupiedEntry<'_, u32>> {
        let hash = self.hasher.hash_key(&ends.0);
        self.places.find_entry(hash, |held| *held == place).ok()
    }

    /// Removes an entry from the order.
    fn unlink(&mut self, place: u32) {
        let (newer, older) = {
            let entry = &self.entries[place as usize];
            (entry.newer, entry.older)
        };
        self.set_newer(older, newer);
        self.set_older(newer, older);
    }

    /// Inserts an entry at the front.
    fn link(&mut self, place: u32) {
        let second = self.latest;
        let entry = &mut self.entries[place as usize];
        (entry.newer, entry.older) = (NONE, second);
        self.set_newer(second, place);
        self.latest = place;
    }

    /// Sets the newer neighbour of an entry; for [`NONE`], the end of the order.
    fn set_newer(&mut self, place: u32, newer: u32) {
        match self.entries.get_mut(place as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Sets the older neighbour of an entry; for [`NONE`], the front of the order.
    fn set_older(&mut self, place: u32, older: u32) {
        match self.entries.get_mut(place as usize) {
            Some(entry) => entry.older = older,
            None => self.latest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(from: u8, to: u8) -> FlowKey {
        FlowKey::ip([10, 0, 0, from].into(), [10, 0, 0, to].into(), 17, 1000, 53)
    }

    fn ends(from: u8, to: u8) -> Ends {
        Ends::of(&key(from, to)).0
    }

    #[test]
    fn both_directions_are_one_flow() {
        let mut table = Table::new(2, (1, 2));
        for key in [key(1, 2), key(4, 3)] {
            let (ends, is_turned) = Ends::of(&key);
            assert_eq!(ends.key(is_turned), key);
            assert_eq!(Ends::of(&key.reversed()), (ends, !is_turned));
            table.insert(ends, key);
            assert_eq!(table.get(&ends), Some(&mut { key }));
        }
        assert_eq!(table.get(&ends(2, 1)), None, "the ports belong to the ends");
    }

    proptest! {
        /// The slow, obvious reference: a vector of flows and their marks, oldest first.
        #[test]
        fn behaves_as_a_vector(capacity in 1_usize..14, calls in prop::collection::vec((0_u8..20, 0_u8..8), 0..300)) {
            let mut table = Table::new(capacity, (1, 2));
            let mut reference: Vec<(u8, bool)> = Vec::new();
            fn pass(reference: &mut Vec<(u8, bool)>) -> bool {
                let was_used = reference.first().is_some_and(|(_, is_used)| *is_used);
                if was_used {
                    let (flow, _) = reference.remove(0);
                    reference.push((flow, false));
                }
                was_used
            }
            for (flow, call) in calls {
                if call == 0 {
                    let expected = (!reference.is_empty()).then(|| reference.remove(0).0);
                    prop_assert_eq!(table.remove_oldest().map(|(_, flow)| flow), expected);
                } else if call == 1 {
                    prop_assert_eq!(table.pass_used(), pass(&mut reference));
                } else if let Some(known) = reference.iter_mut().find(|known| known.0 == flow) {
                    known.1 = true;
                    prop_assert_eq!(table.get(&ends(flow, 99)), Some(&mut { flow }));
                } else {
                    prop_assert_eq!(table.get(&ends(flow, 99)), None);
                    let expected = (reference.len() == capacity).then(|| {
                        let _ = (0..PASSED_MAX).find(|_| !pass(&mut reference));
                        let gone = reference.remove(0).0;
                        (ends(gone, 99), gone)
                    });
                    reference.push((flow, false));
                    prop_assert_eq!(table.insert(ends(flow, 99), flow), expected);
                }
                prop_assert_eq!(table.len(), reference.len());
                prop_assert_eq!(table.oldest(), reference.first().map(|(flow, _)| flow));
                prop_assert_eq!(table.places.len(), reference.len());
            }
        }
    }
}
