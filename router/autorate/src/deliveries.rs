//! The delivery rate of the link behind the port, measured by the answered probes.
//!
//! ```text
//!   bytes sent        ╱ sent by the port
//!     |            ╱·      ·      a probe that left after S bytes, and whose delay was d above the baseline,
//!     |         ╱    ·   ·        was behind S bytes that had left the link at its time of sending + d
//!     |      ╱      · ·
//!     |   ╱       ·── delivered: the slope is the link's rate while there is a queue
//!     +───────────────────────── time
//! ```
//!
//! Times exclude the path's own delay, so probes to several reflectors lie on one line.

use std::collections::VecDeque;

use weir_base::{Instant, Span};

/// Maximum stored answers.
const KEPT: usize = 64;
/// Time over which the delivery rate is measured.
const OVER: Span = Span::from_millis(150);
/// Maximum age of the latest answer from which the bits behind the port are computed.
const OLD: Span = Span::from_secs(2);

/// An answer.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// When the link had delivered the bytes ahead of the probe.
    at: Instant,
    /// Bytes that the port had sent before the probe.
    sent: u64,
    /// Time that the probe waited.
    delay: Span,
}

/// The latest answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Deliveries {
    passed: VecDeque<Passed>,
}

impl Deliveries {
    /// Takes the answer to a probe that was sent at `at` after `sent` bytes, and waited for `delay`. Ignores answers
    /// out of order.
    pub(super) fn take(&mut self, at: Instant, sent: u64, delay: Span) {
        let at = at + delay;
        if self
            .passed
            .back()
            .is_some_and(|last| last.sent > sent || last.at >= at)
        {
            return;
        }
        if self.passed.len() == KEPT {
            self.passed.pop_front();
        }
        self.passed.push_back(Passed { at, sent, delay });
    }

    /// The recent delivery rate of the link in bit/s, while its queue delay exceeded `busy`.
    pub(super) fn delivered(&self, busy: Span) -> Option<f64> {
        let mut queued = self.passed.iter().rev().take_while(|p| p.delay > busy);
        let last = queued.next()?;
        let mut first = last;
        for passed in queued {
            first = passed;
            if last.at.since(first.at) >= OVER {
                break;
            }
        }
        let seconds = last.at.since(first.at).as_secs_f64();
        let bits = (last.sent - first.sent) as f64 * 8.0;
        (seconds > 0.0 && bits > 0.0).then(|| bits / seconds)
    }

    /// Bits still queued behind the port at `now`, if the port has sent `sent` bytes and the link delivers `rate`
    /// bit/s.
    pub(super) fn behind(&self, now: Instant, sent: u64, rate: f64) -> Option<f64> {
        let last = self.passed.back()?;
        if last.at + OLD < now {
            return None;
        }
        let since = (sent.saturating_sub(last.sent)) as f64 * 8.0;
        Some(since - rate * now.since(last.at).as_secs_f64())
    }

    /// Forgets all answers.
    pub(super) fn clear(&mut self) {
        self.passed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    #[test]
    fn the_slope_of_a_busy_link_is_its_rate() {
        // The port sends 20 Mbit/s, 2500 B/ms; the link takes 4 Mbit/s from 0 on: after t ms the queue lasts 4 t ms.
        let mut deliveries = Deliveries::default();
        for t in [0, 10, 20, 30] {
            deliveries.take(ms(t), 2500 * t, Span::from_millis(4 * t));
        }
        let rate = deliveries.delivered(Span::from_millis(1)).unwrap();
        assert!((3.99e6..4.01e6).contains(&rate), "{rate}");
        // 2500 B/ms for 160 ms less 500 B/ms for 160 ms.
        let behind = deliveries.behind(ms(160), 2500 * 160, rate).unwrap();
        assert!((behind - 2_560_000.0).abs() < 1_000.0, "{behind}");
    }

    #[test]
    fn without_a_queue_there_is_no_rate_of_the_link() {
        let mut deliveries = Deliveries::default();
        for t in [0, 10, 20, 30] {
            deliveries.take(ms(t), 2500 * t, Span::ZERO);
        }
        assert_eq!(deliveries.delivered(Span::from_millis(1)), None);
        assert!(
            deliveries.behind(ms(5000), 1, 1e6).is_none(),
            "the last answer is old"
        );
    }
}
