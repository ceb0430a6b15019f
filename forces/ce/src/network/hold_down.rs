//! Hold-down of recovering links and elements: a failure counts at once, a recovery only if it lasts.
//!
//! ```text
//!   works   ────┐        ┌──┐  ┌───────────────────
//!   fails       └────────┘  └──┘
//!   used    ────┐                   ┌──────────────
//!   not used    └───────────────────┘
//!                              <1 s>                 the hold-down, which is longer after each failure
//! ```
//!
//! Without hold-down, a flapping link would move its paths with every flap. The first hold-down is one second. It
//! doubles, up to 64 seconds, with every failure, unless the link was in use for a minute plus twice its hold-down
//! before the failure. So a link that flaps for an hour moves paths 7 times in the first two minutes, and then about
//! once a minute.

use weir_base::{Instant, Span};

/// Shortest hold-down.
pub(super) const HOLD_MIN: Span = Span::from_secs(1);
/// Longest hold-down.
const HOLD_MAX: Span = Span::from_secs(64);
/// The hold-down resets after this time in use without a failure, plus twice the last hold-down.
const CALM: Span = Span::from_secs(60);

/// The state of a link, or of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In use since this time.
    Used(Instant),
    /// Failed.
    Failed,
    /// Working again; in use from this time.
    Held(Instant),
}

/// A link or an element that fails and comes back.
#[derive(Clone, Debug)]
pub(super) struct HoldDown {
    state: State,
    hold: Span,
    failures: u64,
}

impl HoldDown {
    /// A link or element that is in use from `now`.
    pub(super) fn used(now: Instant) -> Self {
        Self {
            state: State::Used(now),
            hold: Span::ZERO,
            failures: 0,
        }
    }

    /// A link or element that has never worked: in use as soon as it works.
    pub(super) fn away() -> Self {
        Self {
            state: State::Failed,
            hold: Span::ZERO,
            failures: 0,
        }
    }

    /// Current state.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Number of failures.
    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    /// Handles a failure. Returns whether the link or element was in use.
    pub(super) fn fail(&mut self, now: Instant) -> bool {
        let State::Used(since) = self.state else {
            self.state = State::Failed;
            return false;
        };
        let is_calm = now.since(since) >= CALM + self.hold + self.hold;
        self.hold = if is_calm || self.hold == Span::ZERO {
            HOLD_MIN
        } else {
            (self.hold + self.hold).min(HOLD_MAX)
        };
        self.state = State::Failed;
        self.failures += 1;
        true
    }

    /// Handles a recovery.
    pub(super) fn come_back(&mut self, now: Instant) {
        if self.state == State::Failed {
            self.state = State::Held(now + self.hold);
        }
    }

    /// Returns whether the link or element enters service now.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_due = matches!(self.state, State::Held(until) if until <= now);
        if is_due {
            self.state = State::Used(now);
        }
        is_due
    }

    /// End of the hold-down.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Held(until) => Some(until),
            State::Used(_) | State::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Span::from_secs(secs)
    }

    #[test]
    fn a_return_counts_when_it_lasts_and_a_calm_link_begins_anew() {
        let mut link = HoldDown::used(at(0));
        assert!(link.fail(at(100)));
        link.come_back(at(101));
        assert!(!link.handle_timeout(at(101)));
        assert!(!link.fail(at(101)), "it was not used");
        link.come_back(at(103));
        link.come_back(at(104)); // no change
        assert_eq!(link.poll_timeout(), Some(at(104)));
        assert!(link.handle_timeout(at(104)) && !link.handle_timeout(at(105)));
        assert!(link.fail(at(105)));
        link.come_back(at(106));
        assert_eq!(link.poll_timeout(), Some(at(108)), "twice as long");
        assert!(link.handle_timeout(at(108)));
        assert!(link.fail(at(108 + 60 + 4)));
        link.come_back(at(200));
        assert_eq!(link.poll_timeout(), Some(at(201)), "as at first");
        assert_eq!(link.failures(), 3);
        let mut new = HoldDown::away();
        new.come_back(at(7));
        assert!(new.handle_timeout(at(7)), "it has never failed");
    }

    #[test]
    fn a_link_that_flaps_for_an_hour_is_used_about_once_a_minute() {
        let mut link = HoldDown::used(at(0));
        let mut moved = Vec::new();
        for millis in (0..3_600_000).step_by(50) {
            let now = Instant::ZERO + Span::from_millis(millis);
            moved.extend(link.handle_timeout(now).then_some(now));
            // The link fails as soon as it is in use, and for a moment every five minutes.
            if matches!(link.state(), State::Used(_)) || millis % 300_000 == 0 {
                link.fail(now);
            } else {
                link.come_back(now);
            }
        }
        let first = moved
            .iter()
            .filter(|at| **at < Instant::ZERO + Span::from_secs(127));
        assert!((50..=70).contains(&moved.len()), "{}", moved.len());
        assert_eq!(first.count(), 6);
    }
}
