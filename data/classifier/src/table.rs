//! A table of fixed size from flow keys to values, that knows which flow was seen longest ago.
//!
//! ```text
//!  key --> map --> entry 5        order:  latest  5 <-> 0 <-> 3  oldest
//! ```
//!
//! Both directions of a connection are one flow: the key has the lower end first. The hash is keyed, so a
//! sender cannot aim at a bucket.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use siphasher::sip::SipHasher13;
use weir_packet::FlowKey;

/// No entry.
const NONE: u32 = u32::MAX;

/// The table.
#[derive(Debug)]
pub(crate) struct Table<V> {
    places: HashMap<Ends, u32, Secret>,
    entries: Vec<Entry<V>>,
    latest: u32,
    oldest: u32,
    capacity: usize,
}

/// A flow key without direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends(FlowKey);

impl Ends {
    /// The ends of a flow, the lower one first.
    pub(crate) fn of(key: &FlowKey) -> Self {
        let source = (key.source, key.source_port);
        let destination = (key.destination, key.destination_port);
        Self(match source <= destination {
            true => *key,
            false => reversed(key),
        })
    }
}

/// The key of the other direction.
pub(crate) fn reversed(key: &FlowKey) -> FlowKey {
    FlowKey {
        source: key.destination,
        destination: key.source,
        source_port: key.destination_port,
        destination_port: key.source_port,
        ..*key
    }
}

#[derive(Debug)]
struct Secret(u64, u64);

impl BuildHasher for Secret {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

#[derive(Debug)]
struct Entry<V> {
    ends: Ends,
    newer: u32,
    older: u32,
    value: V,
}

impl<V> Table<V> {
    /// An empty table for `capacity` flows, at least one.
    pub(crate) fn new(capacity: usize, secret: (u64, u64)) -> Self {
        let capacity = capacity.clamp(1, NONE as usize);
        Self {
            places: HashMap::with_capacity_and_hasher(capacity, Secret(secret.0, secret.1)),
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

    /// The flow that was used longest ago.
    pub(crate) fn oldest(&self) -> Option<&V> {
        self.entries.get(self.oldest as usize).map(|e| &e.value)
    }

    /// The value of a flow, which becomes the latest.
    pub(crate) fn get(&mut self, key: &FlowKey) -> Option<&mut V> {
        let place = *self.places.get(&Ends::of(key))?;
        if self.latest != place {
            self.unlink(place);
            self.link(place);
        }
        Some(&mut self.entries[place as usize].value)
    }

    /// Adds a flow that is absent; returns the oldest one if that had to leave.
    pub(crate) fn insert(&mut self, key: &FlowKey, value: V) -> Option<V> {
        let gone = match self.entries.len() == self.capacity {
            true => self.remove_oldest(),
            false => None,
        };
        let place = self.entries.len() as u32;
        let ends = Ends::of(key);
        self.entries.push(Entry {
            ends,
            newer: NONE,
            older: NONE,
            value,
        });
        self.places.insert(ends, place);
        self.link(place);
        gone
    }

    /// Removes the flow that was used longest ago.
    pub(crate) fn remove_oldest(&mut self) -> Option<V> {
        let place = self.oldest;
        let ends = self.entries.get(place as usize)?.ends;
        self.unlink(place);
        self.places.remove(&ends);
        let gone = self.entries.swap_remove(place as usize);
        // The last entry has moved to the free place.
        if let Some(moved) = self.entries.get(place as usize) {
            let (ends, newer, older) = (moved.ends, moved.newer, moved.older);
            self.places.insert(ends, place);
            self.set_newer(older, place);
            self.set_older(newer, place);
        }
        Some(gone.value)
    }

    /// Takes an entry out of the order.
    fn unlink(&mut self, place: u32) {
        let (newer, older) = {
            let entry = &self.entries[place as usize];
            (entry.newer, entry.older)
        };
        self.set_newer(older, newer);
        self.set_older(newer, older);
    }

    /// Puts an entry in front.
    fn link(&mut self, place: u32) {
        let second = self.latest;
        let entry = &mut self.entries[place as usize];
        (entry.newer, entry.older) = (NONE, second);
        self.set_newer(second, place);
        self.latest = place;
    }

    /// The entry before `place`, or the end of the order.
    fn set_newer(&mut self, place: u32, newer: u32) {
        match self.entries.get_mut(place as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// The entry behind `place`, or the front of the order.
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

    #[test]
    fn both_directions_are_one_flow() {
        let mut table = Table::new(2, (1, 2));
        table.insert(&key(1, 2), 'a');
        assert_eq!(table.get(&reversed(&key(1, 2))), Some(&mut 'a'));
        assert_eq!(table.get(&key(2, 1)), None, "the ports belong to the ends");
    }

    proptest! {
        /// The slow, obvious reference: a vector, oldest first.
        #[test]
        fn behaves_as_a_vector(capacity in 1_usize..6, calls in prop::collection::vec((0_u8..9, 0_u8..8), 0..200)) {
            let mut table = Table::new(capacity, (1, 2));
            let mut reference: Vec<u8> = Vec::new();
            for (flow, call) in calls {
                if call == 0 {
                    let expected = (!reference.is_empty()).then(|| reference.remove(0));
                    prop_assert_eq!(table.remove_oldest(), expected);
                } else if let Some(at) = reference.iter().position(|f| *f == flow) {
                    reference.remove(at);
                    reference.push(flow);
                    prop_assert_eq!(table.get(&key(flow, 99)), Some(&mut { flow }));
                } else {
                    prop_assert_eq!(table.get(&key(flow, 99)), None);
                    let expected = (reference.len() == capacity).then(|| reference.remove(0));
                    reference.push(flow);
                    prop_assert_eq!(table.insert(&key(flow, 99), flow), expected);
                }
                prop_assert_eq!(table.len(), reference.len());
                prop_assert_eq!(table.oldest(), reference.first());
                prop_assert_eq!(table.places.len(), reference.len());
            }
        }
    }
}
