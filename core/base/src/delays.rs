//! A histogram of times, in logarithmic buckets: four for each doubling.
//!
//! ```text
//!   bucket   0    1    2    3    4 ..  7    8 .. 11    12 ..  15    ..        79
//!   from     0    4    8   12   16 .. 28   32 .. 56    64 .. 112    ..    7.5 s       (rounded, microseconds)
//! ```
//!
//! From bucket 4 on, a bucket is at most a quarter wider than its lower bound. The last bucket also holds all longer
//! times. The histogram only counts; the times of an interval are the difference between two histograms
//! ([`Delays::since`]).

use crate::Span;

/// Width of the first buckets: 2 to this power, in nanoseconds.
const UNIT_BITS: u32 = 12;
/// Buckets per doubling: 2 to this power.
const PART_BITS: u32 = 2;
/// Number of buckets.
pub const BUCKETS: usize = 80;

/// Times, counted by their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    counts: [u64; BUCKETS],
    nanos: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            nanos: 0,
        }
    }
}

impl Delays {
    /// Counts one time.
    #[inline]
    pub fn count(&mut self, span: Span) {
        self.counts[bucket(span.as_nanos())] += 1;
        self.nanos = self.nanos.wrapping_add(span.as_nanos());
    }

    /// Counts `zeros` times of zero length at once.
    pub fn count_zeros(&mut self, zeros: u64) {
        self.counts[0] += zeros;
    }

    /// Adds the times that `other` has counted.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.nanos = self.nanos.wrapping_add(other.nanos);
    }

    /// Number of counted times.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all times.
    pub fn sum(&self) -> Span {
        Span::from_nanos(self.nanos)
    }

    /// The times counted since `earlier`. All times if a bucket of `earlier` holds more, because then this is a new
    /// histogram.
    pub fn since(&self, earlier: &Self) -> Self {
        if self.counts.iter().zip(&earlier.counts).any(|(a, b)| a < b) {
            return *self; // a new histogram has begun
        }
        let mut since = *self;
        for (count, before) in since.counts.iter_mut().zip(&earlier.counts) {
            *count -= before;
        }
        since.nanos = self.nanos.wrapping_sub(earlier.nanos);
        since
    }

    /// The time below which this share (0 to 1) of the counted times lies, if times are evenly spread within their
    /// bucket; `None` if nothing was counted.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = share.clamp(0.0, 1.0) * total as f64;
        let mut below = 0;
        for (at, count) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            if (below + count) as f64 >= rank {
                let part = (rank - below as f64) / *count as f64;
                let [from, to] = [beginning(at), beginning(at + 1)];
                return Some(Span::from_nanos(from + ((to - from) as f64 * part) as u64));
            }
            below += count;
        }
        Some(Span::from_nanos(beginning(BUCKETS)))
    }

    /// For each doubling from the first bucket on: its upper bound, and the number of counted times below it. Times
    /// beyond the last bound are only in [`Self::total`].
    pub fn cumulative(&self) -> impl Iterator<Item = (Span, u64)> {
        const STEP: usize = 1 << PART_BITS;
        let mut below = 0;
        let ends = (STEP..BUCKETS).step_by(STEP);
        ends.map(move |end| {
            below += self.counts[end - STEP..end].iter().sum::<u64>();
            (Span::from_nanos(beginning(end)), below)
        })
    }
}

/// The bucket of a time.
#[inline]
const fn bucket(nanos: u64) -> usize {
    let units = nanos >> UNIT_BITS;
    // Below eight units, buckets are one unit wide and `doublings` is zero.
    let doublings = (units | 1 << PART_BITS).ilog2() - PART_BITS;
    let at = ((doublings as u64) << PART_BITS) + (units >> doublings);
    if at < BUCKETS as u64 {
        at as usize
    } else {
        BUCKETS - 1
    }
}

/// The lower bound of a bucket, in nanoseconds.
const fn beginning(bucket: usize) -> u64 {
    let parts = 1_u64 << PART_BITS;
    let bucket = bucket as u64;
    let doublings = (bucket >> PART_BITS).saturating_sub(1);
    let units = if bucket < parts {
        bucket
    } else {
        (bucket - (doublings << PART_BITS)) << doublings
    };
    units << UNIT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_begins_where_the_one_before_ends() {
        for at in 0..BUCKETS {
            let from = beginning(at);
            assert_eq!(bucket(from), at, "{from}");
            assert_eq!(bucket(beginning(at + 1) - 1), at);
            if at >= 4 {
                let width = beginning(at + 1) - from;
                assert!(4 * width <= from, "{at}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!([1, 4, 8].map(beginning), [4096, 16_384, 32_768]);
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let mut delays = Delays::default();
        assert_eq!(delays.quantile(0.5), None);
        // 99 of 5 ms, and one of a second.
        (0..99).for_each(|_| delays.count(Span::from_millis(5)));
        delays.count(Span::from_secs(1));
        let millis = |share| {
            delays
                .quantile(share)
                .map(|s| s.as_secs_f64() * 1e3)
                .unwrap()
        };
        for share in [0.01, 0.5, 0.98] {
            assert!((4.1..=6.3).contains(&millis(share)), "{}", millis(share));
        }
        assert!((800.0..=1250.0).contains(&millis(1.0)), "{}", millis(1.0));
        assert_eq!(delays.total(), 100);
        assert_eq!(delays.sum(), Span::from_millis(99 * 5 + 1000));
    }

    #[test]
    fn a_difference_is_what_happened_in_between() {
        let mut delays = Delays::default();
        delays.count(Span::from_millis(1));
        let before = delays;
        delays.count(Span::from_millis(30));
        delays.count_zeros(2);
        let since = delays.since(&before);
        assert_eq!((since.total(), since.sum()), (3, Span::from_millis(30)));
        assert_eq!(before.since(&delays), before); // it has restarted
    }

    #[test]
    fn cumulative_counts_end_with_all_that_are_short_enough() {
        let mut delays = Delays::default();
        for micros in [0, 3, 20, 1000, 60_000_000] {
            delays.count(Span::from_micros(micros));
        }
        let rows: Vec<_> = delays.cumulative().collect();
        assert_eq!(rows[0], (Span::from_nanos(16_384), 2));
        assert_eq!(rows[1], (Span::from_nanos(32_768), 3));
        assert_eq!(rows.last().unwrap().1, 4);
        assert!(rows.is_sorted());
    }
}
