//! Finds the longest queue in constant time.
//!
//! ```text
//!  level   bins of that level          bitmap of levels in use
//!   4095   -                           0
//!      :                               :
//!      7   bin 3 <-> bin 90            1  <- highest bit: the longest
//!      2   bin 12                      1
//! ```
//!
//! Bins of about equal length are linked into one list per level, and a two-level bitmap finds the
//! highest level in use. Finding the longest by a walk over all queues, as kernels do, lets a
//! sender of many short flows choose how long the walk takes.

/// The number of levels; longer queues all count as equally long.
const LEVELS: usize = 64 * 64;
/// No bin.
const NONE: u32 = u32::MAX;

/// The lengths of a fixed number of bins, ordered by level.
#[derive(Debug)]
pub(crate) struct Longest {
    /// A level is a length shifted right by this.
    shift: u32,
    heads: Box<[u32]>,
    places: Box<[Place]>,
    words: [u64; 64],
    summary: u64,
}

/// The links of a bin; level zero means that it is in no list.
#[derive(Clone, Copy, Debug)]
struct Place {
    level: u32,
    next: u32,
    previous: u32,
}

impl Place {
    const NOWHERE: Self = Self {
        level: 0,
        next: NONE,
        previous: NONE,
    };
}

impl Longest {
    /// All `bins` bins are empty. Lengths that differ by less than `2^shift` may count as equal.
    pub(crate) fn new(bins: usize, shift: u32) -> Self {
        Self {
            shift,
            heads: vec![NONE; LEVELS].into_boxed_slice(),
            places: vec![Place::NOWHERE; bins].into_boxed_slice(),
            words: [0; 64],
            summary: 0,
        }
    }

    /// Ensures `bins` bins in total; new ones are empty.
    pub(crate) fn reserve(&mut self, bins: usize) {
        let mut places = std::mem::take(&mut self.places).into_vec();
        places.resize(bins.max(places.len()), Place::NOWHERE);
        self.places = places.into_boxed_slice();
    }

    /// Sets the length of `bin`.
    pub(crate) fn set(&mut self, bin: usize, length: u64) {
        let level = match length {
            0 => 0,
            n => (1 + (n >> self.shift)).min(LEVELS as u64 - 1) as u32,
        };
        let old = self.places[bin].level;
        if level != old {
            if old != 0 {
                self.unlink(bin);
            }
            self.places[bin].level = level;
            if level != 0 {
                self.link(bin);
            }
        }
    }

    /// The longest bin, up to a difference of less than `2^shift`; `None` if all are empty.
    pub(crate) fn get(&self) -> Option<usize> {
        if self.summary == 0 {
            return None;
        }
        let word = self.summary.ilog2() as usize;
        let level = word * 64 + self.words[word].ilog2() as usize;
        Some(self.heads[level] as usize)
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.places)
    }

    fn link(&mut self, bin: usize) {
        let level = self.places[bin].level as usize;
        let head = std::mem::replace(&mut self.heads[level], bin as u32);
        self.places[bin].next = head;
        self.places[bin].previous = NONE;
        if head == NONE {
            self.words[level / 64] |= 1 << (level % 64);
            self.summary |= 1 << (level / 64);
        } else {
            self.places[head as usize].previous = bin as u32;
        }
    }

    fn unlink(&mut self, bin: usize) {
        let Place {
            level,
            next,
            previous,
        } = self.places[bin];
        let level = level as usize;
        if next != NONE {
            self.places[next as usize].previous = previous;
        }
        if previous != NONE {
            self.places[previous as usize].next = next;
            return;
        }
        self.heads[level] = next;
        if next == NONE {
            self.words[level / 64] &= !(1 << (level % 64));
            if self.words[level / 64] == 0 {
                self.summary &= !(1 << (level / 64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a walk over all bins.
        #[test]
        fn the_longest_is_found(shift in 0_u32..9, calls in prop::collection::vec((0_usize..9, 0_u64..400_000), 1..200)) {
            let mut longest = Longest::new(4, shift);
            longest.reserve(9);
            let mut lengths = [0_u64; 9];
            for (bin, length) in calls {
                let length = if length % 3 == 0 { 0 } else { length % (1 << (length % 20)) };
                longest.set(bin, length);
                lengths[bin] = length;
                let most = lengths.into_iter().max().unwrap_or(0);
                match longest.get() {
                    None => prop_assert_eq!(most, 0),
                    Some(found) => {
                        let top = (LEVELS as u64 - 2) << shift;
                        prop_assert!(most > 0);
                        prop_assert!(lengths[found].min(top) + (1 << shift) > most.min(top));
                    }
                }
            }
        }
    }
}
