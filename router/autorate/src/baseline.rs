//! The delay of a path without queues: the minimum round trip of the last minute.

use weir_base::{Instant, Span};

/// Parts of the window; each part stores its minimum.
const PARTS: usize = 6;
/// Length of a part.
const PART: Span = Span::from_secs(10);

/// The minimum round trip of a minute.
#[derive(Clone, Debug, Default)]
pub(super) struct Baseline {
    /// Minimum of each part, the current part first.
    parts: [Option<Span>; PARTS],
    /// End of the current part.
    until: Instant,
}

impl Baseline {
    /// Takes a round trip; returns the updated baseline.
    pub(super) fn take(&mut self, rtt: Span, now: Instant) -> Span {
        if now >= self.until {
            let passed = now.since(self.until).as_nanos() / PART.as_nanos();
            for _ in 0..=passed.min(PARTS as u64) {
                self.parts.rotate_right(1);
                self.parts[0] = None;
            }
            self.until = now + PART;
        }
        let least = self.parts[0].map_or(rtt, |least| least.min(rtt));
        self.parts[0] = Some(least);
        self.value().unwrap_or(rtt)
    }

    /// The baseline; `None` before the first round trip.
    pub(super) fn value(&self) -> Option<Span> {
        self.parts.iter().flatten().min().copied()
    }

    /// The path is longer now: restarts the window with `rtt`.
    pub(super) fn raise(&mut self, rtt: Span) {
        self.parts = [None; PARTS];
        self.parts[0] = Some(rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_a_minute_is_forgotten_after_it() {
        let mut baseline = Baseline::default();
        let mut take = |second, ms| {
            let at = Instant::ZERO + Span::from_secs(second);
            baseline.take(Span::from_millis(ms), at).as_nanos() / 1_000_000
        };
        assert_eq!(take(100, 30), 30);
        assert_eq!(take(101, 20), 20);
        assert_eq!(take(130, 50), 20);
        assert_eq!(take(155, 50), 20);
        assert_eq!(take(171, 45), 45, "the part of 20 ms has gone");
        assert_eq!(take(1000, 90), 90);
    }
}
