//! Finds which of the eight entries of a set has a hash.
//!
//! ```text
//!  hash --> set, byte    bytes [ 3f | 07 | a1 | 3f | .. ] == 3f ?   all eight are compared at once
//!       --> word                 |              |
//!                        words [ = ]          [ = ]                 those that may be it
//! ```
//!
//! The number of its set and 39 more bits of its keyed hash identify an entry. Some two of a thousand entries
//! are equal in these, and count as one, with a probability of less than `2^-26`. Nobody can cause that without
//! the key.

/// Entries of a set.
pub(super) const WAYS: usize = 8;

/// A byte of each entry of a set, and a word of each.
#[derive(Debug)]
pub(super) struct Places<const SETS: usize> {
    bytes: Box<[[u8; WAYS]; SETS]>,
    words: Box<[[u32; WAYS]; SETS]>,
}

impl<const SETS: usize> Places<SETS> {
    /// Empty sets.
    pub(super) fn new() -> Self {
        Self {
            bytes: Box::new([[0; WAYS]; SETS]),
            words: Box::new([[0; WAYS]; SETS]),
        }
    }

    /// The set of a hash.
    #[inline]
    pub(super) fn set(hash: u64) -> usize {
        ((hash as u32 as u64 * SETS as u64) >> 32) as usize
    }

    /// The place of the entry with this hash, among all ways of all sets.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        let set = Self::set(hash);
        let mut same =
            zero_bytes(u64::from_le_bytes(self.bytes[set]) ^ (LOW * u64::from(byte(hash))));
        while same != 0 {
            let way = same.trailing_zeros() as usize / 8;
            if self.words[set][way] == word(hash) {
                return Some(set * WAYS + way);
            }
            same &= same - 1;
        }
        None
    }

    /// Puts the entry with this hash, which must be absent, at a place of its set.
    #[inline]
    pub(super) fn put(&mut self, place: usize, hash: u64) {
        let (set, way) = (place / WAYS, place % WAYS);
        debug_assert!(set == Self::set(hash));
        self.bytes[set][way] = byte(hash);
        self.words[set][way] = word(hash);
    }

    /// Removes the entry at a place.
    #[inline]
    pub(super) fn remove(&mut self, place: usize) {
        self.words[place / WAYS][place % WAYS] = 0;
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        size_of_val(&*self.bytes) + size_of_val(&*self.words)
    }
}

/// The lowest bit of each byte.
const LOW: u64 = u64::MAX / 0xff;

/// Sets the highest bit of each byte that is zero: in any other byte, a lower bit carries into the highest bit, or the
/// highest bit is set.
#[inline]
fn zero_bytes(bytes: u64) -> u64 {
    let lower = LOW * 0x7f;
    !(((bytes & lower) + lower) | bytes | lower)
}

#[inline]
fn byte(hash: u64) -> u8 {
    hash as u8
}

/// The word of a hash; never zero, which means an empty place.
#[inline]
fn word(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares with a map, with hashes that share bytes, or words, or sets.
        #[test]
        fn an_entry_is_where_it_was_put(calls in prop::collection::vec((0_u64..3, 0_u64..3, 0_u64..2, 0_usize..8), 0..300)) {
            let mut places = Places::<2>::new();
            let mut map: BTreeMap<usize, u64> = BTreeMap::new();
            for (word, byte, set, way) in calls {
                let hash = (2 * word) << 32 | set << 31 | byte;
                let place = set as usize * WAYS + way;
                match places.find(hash) {
                    Some(found) => {
                        prop_assert_eq!(map.remove(&found), Some(hash));
                        places.remove(found);
                        prop_assert_eq!(places.find(hash), None);
                    }
                    None => {
                        prop_assert!(map.values().all(|other| *other != hash));
                        places.put(place, hash);
                        map.insert(place, hash);
                        prop_assert_eq!(places.find(hash), Some(place));
                    }
                }
            }
        }
    }
}
