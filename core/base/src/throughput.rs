//! Counts packets or messages, and computes their recent rate.

use crate::{Instant, Rate, Span, Tally};

/// Time over which the rate is computed. Without traffic, the rate is zero after twice this time.
pub const WINDOW: Span = Span::from_millis(200);

/// A counter of packets or messages, with their recent rate.
///
/// The rate comes from two windows: the bytes of the current window, and a share of the previous window's bytes, as
/// large as its overlap with the latest [`WINDOW`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Throughput {
    total: Tally,
    /// The start of the current window.
    began: Instant,
    /// Bytes of the previous window, and of the current one.
    bytes: [u64; 2],
}

impl Throughput {
    /// Counts one packet or message of `bytes` bytes.
    pub fn count(&mut self, now: Instant, bytes: u64) {
        self.turn(now);
        self.total.count(bytes);
        self.bytes[1] += bytes;
    }

    /// All packets or messages counted so far.
    pub const fn total(&self) -> Tally {
        self.total
    }

    /// The rate at `now`.
    pub fn rate(&self, now: Instant) -> Rate {
        let mut at = *self;
        at.turn(now);
        let (window, passed) = (WINDOW.as_nanos(), now.since(at.began).as_nanos());
        let [before, under_way] = at.bytes.map(u128::from);
        let before = before * u128::from(window.saturating_sub(passed)) / u128::from(window);
        let bits = (before + under_way) * 8 * 1_000_000_000 / u128::from(window);
        Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// Starts a new window if the current one is over.
    fn turn(&mut self, now: Instant) {
        let passed = now.since(self.began);
        if passed < WINDOW {
            return;
        }
        let is_next = passed < WINDOW + WINDOW;
        self.bytes = [if is_next { self.bytes[1] } else { 0 }, 0];
        self.began = if is_next { self.began + WINDOW } else { now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_steady_flow_has_its_rate_and_nothing_has_none() {
        let mut passed = Throughput::default();
        // 1000 bytes each millisecond: 8 Mbit/s.
        for now in 5000..6000 {
            passed.count(at(now), 1000);
            if now >= 5400 {
                let rate = passed.rate(at(now)).as_bps();
                assert!((7_900_000..=8_100_000).contains(&rate), "{now}: {rate}");
            }
        }
        assert_eq!(
            (passed.total().packets, passed.total().bytes),
            (1000, 1_000_000)
        );
        let half = passed.rate(at(6100)).as_bps();
        assert!((3_900_000..=4_100_000).contains(&half), "{half}");
        for now in [6400, 6401, 60_000] {
            assert_eq!(passed.rate(at(now)), Rate::from_bps(0));
        }
    }

    #[test]
    fn the_clock_may_stand_still_or_be_late() {
        let mut passed = Throughput::default();
        passed.count(at(1000), 100);
        passed.count(at(900), 100); // an earlier stamp counts in the current window
        assert_eq!(passed.rate(at(1000)).as_bps(), 200 * 8 * 5);
        let mut much = Throughput::default();
        much.count(at(0), u64::MAX / 2);
        assert_eq!(much.rate(at(0)), Rate::from_bps(u64::MAX));
    }
}
