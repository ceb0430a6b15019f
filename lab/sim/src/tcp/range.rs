//! Ranges of sequence numbers, and sorted sets of them.

use std::collections::VecDeque;

/// A range of sequence numbers; `end` is the first number after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first sequence number.
    pub start: u64,
    /// The number after the last one.
    pub end: u64,
}

impl Range {
    /// The range from `start` to `end`, excluding `end`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// Number of sequence numbers in the range.
    pub const fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Number of its sequence numbers below `limit`.
    pub(super) fn below(self, limit: u64) -> u64 {
        self.end.min(limit).saturating_sub(self.start)
    }

    /// Whether all of `other` lies in this range.
    pub(super) const fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Disjoint ranges in ascending order; adjacent ranges are merged.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet {
    ranges: VecDeque<Range>,
}

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest range.
    pub(super) fn first(&self) -> Option<Range> {
        self.ranges.front().copied()
    }

    /// The highest range.
    pub(super) fn last(&self) -> Option<Range> {
        self.ranges.back().copied()
    }

    /// The ranges in descending order.
    pub(super) fn descending(&self) -> impl Iterator<Item = Range> {
        self.ranges.iter().rev().copied()
    }

    /// Adds `new`, calls `fresh` for each part that was not in the set, and returns the range that now contains all of
    /// `new`.
    pub(super) fn insert(&mut self, new: Range, mut fresh: impl FnMut(Range)) -> Range {
        let first = self.first_reaching(new.start);
        let mut merged = new;
        let mut cursor = new.start;
        let mut after = first;
        while let Some(&range) = self.ranges.get(after) {
            if range.start > new.end {
                break;
            }
            if cursor < range.start {
                fresh(Range::new(cursor, range.start));
            }
            cursor = cursor.max(range.end);
            merged.start = merged.start.min(range.start);
            merged.end = merged.end.max(range.end);
            after += 1;
        }
        if cursor < new.end {
            fresh(Range::new(cursor, new.end));
        }
        if after == first {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            if after > first + 1 {
                self.ranges.drain(first + 1..after);
            }
        }
        merged
    }

    /// Removes everything below `limit`; returns the number of sequence numbers removed.
    pub(super) fn remove_below(&mut self, limit: u64) -> u64 {
        let mut removed = 0;
        while let Some(range) = self.ranges.front_mut() {
            removed += range.below(limit);
            if range.end > limit {
                range.start = range.start.max(limit);
                break;
            }
            self.ranges.pop_front();
        }
        removed
    }

    /// The first gap at or above `from`, cut at `limit`.
    pub(super) fn gap(&self, from: u64, limit: u64) -> Option<Range> {
        let mut index = self.first_reaching(from + 1);
        let mut start = from;
        if let Some(range) = self.ranges.get(index).filter(|r| r.start <= from) {
            start = range.end;
            index += 1;
        }
        let end = self.ranges.get(index).map_or(limit, |r| r.start.min(limit));
        (start < end).then_some(Range::new(start, end))
    }

    /// The index of the lowest range that ends at or above `sequence`.
    fn first_reaching(&self, sequence: u64) -> usize {
        // Most arriving ranges touch the highest range, or are above it.
        match self.ranges.back() {
            None => 0,
            Some(last) if last.end < sequence => self.ranges.len(),
            Some(last) if last.start < sequence => self.ranges.len() - 1,
            Some(_) => self.ranges.partition_point(|r| r.end < sequence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(ranges: &[(u64, u64)]) -> RangeSet {
        let mut set = RangeSet::default();
        for &(start, end) in ranges {
            set.insert(Range::new(start, end), |_| {});
        }
        set
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let mut ranges = set(&[(10, 20), (30, 40)]);
        let mut fresh = Vec::new();
        let merged = ranges.insert(Range::new(15, 30), |r| fresh.push(r));
        assert_eq!(merged, Range::new(10, 40));
        assert_eq!(fresh, [Range::new(20, 30)]);
        assert_eq!(ranges.descending().count(), 1);
    }

    #[test]
    fn gaps_are_found_from_inside_and_outside_a_range() {
        let ranges = set(&[(10, 20), (30, 40)]);
        assert_eq!(ranges.gap(5, 100), Some(Range::new(5, 10)));
        assert_eq!(ranges.gap(10, 100), Some(Range::new(20, 30)));
        assert_eq!(ranges.gap(19, 25), Some(Range::new(20, 25)));
        assert_eq!(ranges.gap(20, 100), Some(Range::new(20, 30)));
        assert_eq!(ranges.gap(35, 40), None);
        assert_eq!(ranges.gap(35, 50), Some(Range::new(40, 50)));
    }

    proptest! {
        #[test]
        fn a_range_set_is_a_set(
            inserts in prop::collection::vec((0_u64..60, 1_u64..12), 0..20),
            cut in 0_u64..70,
        ) {
            let mut ranges = RangeSet::default();
            let mut model = [false; 80];
            for (start, length) in inserts {
                let new = Range::new(start, start + length);
                let mut fresh = Vec::new();
                let merged = ranges.insert(new, |r| fresh.extend(r.start..r.end));
                prop_assert!(merged.covers(new));
                let expected: Vec<u64> = (new.start..new.end).filter(|&s| !model[s as usize]).collect();
                prop_assert_eq!(fresh, expected);
                (new.start..new.end).for_each(|s| model[s as usize] = true);
            }
            let below = model.iter().take(cut as usize).filter(|&&held| held).count() as u64;
            prop_assert_eq!(ranges.remove_below(cut), below);
            model.iter_mut().take(cut as usize).for_each(|held| *held = false);
            let mut held: Vec<Range> = ranges.descending().collect();
            held.reverse();
            prop_assert!(held.windows(2).all(|w| w[0].end < w[1].start));
            let members: Vec<u64> = held.iter().flat_map(|r| r.start..r.end).collect();
            let expected: Vec<u64> = (0..80).filter(|&s| model[s as usize]).collect();
            prop_assert_eq!(members, expected);
        }
    }
}
