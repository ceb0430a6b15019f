//! Finds the entry of a table by a keyed hash, and grows by small steps: extendible hashing.
//!
//! ```text
//!  hash --first bits--> directory --> segment of 512 places: [ tag | entry ] [ empty ] [ tag | entry ] ..
//!                                              ^ home: the tag's last bits; then the places after it
//! ```
//!
//! Source: Fagin et al., "Extendible hashing: a fast access method for dynamic files", ACM TODS 1979; the places
//! of a segment are filled by open addressing.
//!
//! A segment that is half full is split into two, which moves at most 256 places. So no insertion takes long, and a
//! table of few entries stays small and compact. Memory never shrinks: its size is that of the peak.
//!
//! A place holds half of the hash, so a search for an absent entry rarely touches an entry. The caller compares keys.

/// Places of a segment.
const PLACES: usize = 512;
/// Maximum places taken before a segment is split: so most searches end where they begin.
const TAKEN_MAX: u16 = 256;
/// Maximum bits of the hash that choose a segment. With a keyed hash, tables stay far below this bound.
const DEPTH_MAX: u32 = 22;
/// An empty place.
const EMPTY: u64 = 0;

/// The index.
#[derive(Debug)]
pub(super) struct Index {
    /// The segment for the first `depth` bits of a hash.
    directory: Vec<u32>,
    depth: u32,
    segments: Vec<Segment>,
    /// The places of all segments, in the order of their numbers.
    places: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The number of bits that the hashes of its entries share.
    depth: u32,
    taken: u16,
}

impl Index {
    /// An empty index; `capacity` entries are expected at most.
    pub(super) fn new(capacity: usize) -> Self {
        // Segments are between a quarter and half full, three eighths on average; memory is used when written.
        let segments = 1 + capacity.div_ceil(usize::from(TAKEN_MAX) / 2);
        let mut places = Vec::with_capacity(segments * PLACES);
        places.resize(PLACES, EMPTY);
        Self {
            directory: vec![0],
            depth: 0,
            segments: vec![Segment { depth: 0, taken: 0 }],
            places,
        }
    }

    /// The first entry that has the tag of `hash`; almost always the entry of that hash, if it exists. This touches no
    /// entry.
    #[inline]
    pub(super) fn candidate(&self, hash: u64) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// Where a search for `hash` begins, for [`Self::touch`]. This depends on the directory only, which is small.
    #[inline]
    pub(super) fn begin(&self, hash: u64) -> usize {
        let tag = tag(hash);
        self.segment_of(tag) * PLACES + home(tag)
    }

    /// Loads the memory of a place.
    #[inline]
    pub(super) fn touch(&self, place: usize) -> u64 {
        self.places.get(place).copied().unwrap_or(EMPTY)
    }

    /// The entry with the tag of `hash` for which `is` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = tag(hash);
        let places = self.segment(self.segment_of(tag));
        let mut at = home(tag);
        for _ in 0..PLACES {
            let place = places[at];
            if place == EMPTY {
                return None;
            }
            if (place >> 32) as u32 == tag && is(entry(place)) {
                return Some(entry(place));
            }
            at = (at + 1) % PLACES;
        }
        None
    }

    /// Adds an entry, which must be absent. Returns whether there was room; there is room unless very many hashes
    /// collide.
    pub(super) fn insert(&mut self, hash: u64, entry: u32) -> bool {
        let tag = tag(hash);
        let mut segment = self.segment_of(tag);
        while self.segments[segment].taken >= TAKEN_MAX && self.segments[segment].depth < DEPTH_MAX
        {
            self.split(segment);
            segment = self.segment_of(tag);
        }
        if usize::from(self.segments[segment].taken) + 1 >= PLACES {
            return false;
        }
        self.put(segment, packed(tag, entry));
        true
    }

    /// Removes an entry that was inserted with this hash, and moves later entries back over the hole, so that no search
    /// ends early.
    pub(super) fn remove(&mut self, hash: u64, entry: u32) {
        let (tag, segment) = (tag(hash), self.segment_of(tag(hash)));
        let places = self.segment_mut(segment);
        let mut hole = home(tag);
        while places[hole] != packed(tag, entry) {
            if places[hole] == EMPTY {
                return;
            }
            hole = (hole + 1) % PLACES;
        }
        let mut at = (hole + 1) % PLACES;
        while places[at] != EMPTY {
            let home = home((places[at] >> 32) as u32);
            // It may move back to the hole unless its home lies between the two.
            if at.wrapping_sub(home) % PLACES >= at.wrapping_sub(hole) % PLACES {
                places[hole] = places[at];
                hole = at;
            }
            at = (at + 1) % PLACES;
        }
        places[hole] = EMPTY;
        self.segments[segment].taken -= 1;
    }

    /// Bytes of memory in use.
    pub(super) fn state_bytes(&self) -> usize {
        size_of_val(&*self.directory) + size_of_val(&*self.places)
    }

    /// Divides the entries of a segment between it and a new segment, by the next bit of their hashes.
    fn split(&mut self, old: usize) {
        let depth = self.segments[old].depth + 1;
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|n| [*n, *n]).collect();
            self.depth = depth;
        }
        let new = self.segments.len();
        self.segments[old] = Segment { depth, taken: 0 };
        self.segments.push(Segment { depth, taken: 0 });
        let mut moved = [EMPTY; PLACES];
        moved.copy_from_slice(self.segment(old));
        self.segment_mut(old).fill(EMPTY);
        self.places.resize(self.places.len() + PLACES, EMPTY);
        let of_old = |number: &&mut u32| **number as usize == old;
        let names = self
            .directory
            .iter()
            .filter(|n| **n as usize == old)
            .count();
        // The directory entries of a segment are adjacent; the second half has the next bit set.
        for number in self.directory.iter_mut().filter(of_old).skip(names / 2) {
            *number = new as u32;
        }
        for place in moved.into_iter().filter(|place| *place != EMPTY) {
            let segment = self.segment_of((place >> 32) as u32);
            self.put(segment, place);
        }
    }

    /// Writes a place into a segment that has room.
    fn put(&mut self, segment: usize, place: u64) {
        let places = self.segment_mut(segment);
        let mut at = home((place >> 32) as u32);
        while places[at] != EMPTY {
            at = (at + 1) % PLACES; // ends: at least one place is empty
        }
        places[at] = place;
        self.segments[segment].taken += 1;
    }

    #[inline]
    fn segment_of(&self, tag: u32) -> usize {
        self.directory[(u64::from(tag) >> (32 - self.depth)) as usize] as usize
    }

    #[inline]
    fn segment(&self, number: usize) -> &[u64; PLACES] {
        match self.places.as_chunks().0.get(number) {
            Some(places) => places,
            None => unreachable!("the directory names segments that are there"),
        }
    }

    #[inline]
    fn segment_mut(&mut self, number: usize) -> &mut [u64; PLACES] {
        match self.places.as_chunks_mut().0.get_mut(number) {
            Some(places) => places,
            None => unreachable!("the directory names segments that are there"),
        }
    }

    /// The places in use.
    #[cfg(test)]
    fn taken(&self) -> usize {
        let counted: usize = self.segments.iter().map(|s| usize::from(s.taken)).sum();
        assert_eq!(counted, self.places.iter().filter(|p| **p != EMPTY).count());
        counted
    }
}

/// The half of a hash that a place holds. Its first bits choose the segment, its last bits the home place.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[inline]
fn home(tag: u32) -> usize {
    tag as usize % PLACES
}

#[inline]
fn packed(tag: u32, entry: u32) -> u64 {
    let entry = u64::from(entry) + 1; // so that no place in use is EMPTY; entries are below 2^32 - 1
    u64::from(tag) << 32 | entry
}

#[inline]
fn entry(place: u64) -> u32 {
    place as u32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Spreads numbers as a keyed hash does.
    fn spread(n: u64) -> u64 {
        n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn segments_are_split_one_by_one() {
        let (mut index, count) = (Index::new(100_000), 100_000);
        for n in 0..count {
            assert!(index.insert(spread(n), n as u32));
        }
        assert!(index.segments.len() > 100_000 / 256);
        assert_eq!(index.taken(), 100_000);
        assert!((0..count).all(|n| index.candidate(spread(n)) == Some(n as u32)));
        assert!((count..2 * count).all(|n| index.find(spread(n), |e| u64::from(e) == n).is_none()));
        for n in 0..count {
            index.remove(spread(n), n as u32);
            index.remove(spread(n), n as u32); // it is absent now
        }
        assert_eq!(index.taken(), 0);
    }

    #[test]
    fn hashes_that_collide_fill_one_segment_and_no_more() {
        let mut index = Index::new(1000);
        let inserted = (0..1000).take_while(|n| index.insert(7 << 32, *n)).count();
        assert_eq!(inserted, PLACES - 1);
        assert!((0..511).all(|n| index.find(7 << 32, |entry| entry == n) == Some(n)));
        assert_eq!(index.find(7 << 32, |_| false), None);
        (0..511).for_each(|n| index.remove(7 << 32, n));
        assert_eq!(index.taken(), 0);
    }

    proptest! {
        /// Compares with a map of the standard library, with hashes that share tags and homes.
        #[test]
        fn behaves_as_a_map(calls in prop::collection::vec((0_u64..1500, any::<bool>()), 0..3000)) {
            let (mut index, mut map) = (Index::new(16), BTreeMap::new());
            for (n, remove) in calls {
                let hash = spread(n % 50) & !(511 << 32) | (n % 3) << 32;
                let hash = hash ^ spread(n / 50) << 40;
                match map.get(&n) {
                    Some(_) if remove => {
                        index.remove(hash, n as u32);
                        map.remove(&n);
                    }
                    Some(_) => {}
                    None => {
                        prop_assert!(index.insert(hash, n as u32));
                        map.insert(n, hash);
                    }
                }
            }
            for (n, hash) in &map {
                prop_assert_eq!(index.find(*hash, |entry| u64::from(entry) == *n), Some(*n as u32));
            }
            prop_assert_eq!(index.taken(), map.len());
        }
    }
}
