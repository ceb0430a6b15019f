//! The rate of all flows together, and shares of it.
//!
//! ```text
//!   bytes  |------ window ------|------ window ------|---
//!                                ^ the sum of this one is the rate during the next
//! ```
//!
//! The rate is the sum over a whole window: as good as an exponential estimate for a threshold, at the
//! cost of one addition per packet. In the first window, and after a pause that ends two windows or more
//! after the latest window began, the rate is unknown, and no flow is above a share of it.

use weir_base::{Instant, Span};

/// The rate of all flows together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total {
    begun: Option<Instant>,
    bytes: u64,
    /// Rate in the previous window, in bit/s; infinite while unknown.
    bps: f64,
}

impl Total {
    /// No packet seen yet.
    pub(crate) const UNKNOWN: Self = Self {
        begun: None,
        bytes: 0,
        bps: f64::INFINITY,
    };

    /// Counts a packet.
    pub(crate) fn count(&mut self, window: Span, now: Instant, bytes: u64) {
        let begun = *self.begun.get_or_insert(now);
        let passed = now.since(begun);
        if passed >= window {
            self.bps = if passed < window.times(2) {
                self.bytes as f64 * 8.0 / passed.as_secs_f64()
            } else {
                f64::INFINITY
            };
            self.begun = Some(now);
            self.bytes = 0;
        }
        self.bytes += bytes;
    }

    /// This share of the rate, in bits per second.
    pub(crate) fn share(&self, share: f64) -> f64 {
        share * self.bps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // 1250 B = 10 000 bit every 10 ms is 1 Mbit/s; a tenth of it is 100 kbit/s.
        let window = Span::from_millis(100);
        let mut total = Total::UNKNOWN;
        let mut now = Instant::ZERO + Span::from_secs(7);
        for _ in 0..10 {
            total.count(window, now, 1250);
            now += Span::from_millis(10);
            assert_eq!(total.share(0.1), f64::INFINITY);
        }
        total.count(window, now, 1250); // the window is over: ten packets in 100 ms
        assert_eq!(total.share(0.1), 100_000.0);
        // After a pause the rate is unknown, and a window later it is known.
        now += Span::from_millis(200);
        total.count(window, now, 1250);
        assert_eq!(total.share(0.1), f64::INFINITY);
        now += Span::from_millis(125);
        total.count(window, now, 1250);
        assert_eq!(total.share(0.1), 8_000.0); // 10 000 bit in 125 ms
    }
}
