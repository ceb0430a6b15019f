//! The period in which the frames of a ring belong to the router; the kernel forwards earlier and later frames.

use weir_base::{Instant, Span};

use crate::clock::UnixTime;

/// A period of time. Frames that the kernel stamped within it belong to the router. Earlier and later frames belong to
/// the kernel, which forwards them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnershipWindow {
    /// The first instant of the period.
    pub from: UnixTime,
    /// The first instant after the period.
    pub until: UnixTime,
}

impl OwnershipWindow {
    /// Every frame is the router's.
    pub const ALWAYS: Self = Self {
        from: UnixTime::FIRST,
        until: UnixTime::NEVER,
    };
    /// No frame is the router's.
    pub const NEVER: Self = Self {
        from: UnixTime::NEVER,
        until: UnixTime::NEVER,
    };

    /// An ownership window from this instant on.
    pub const fn from(from: UnixTime) -> Self {
        Self {
            from,
            until: UnixTime::NEVER,
        }
    }
}

/// An ownership window begins within this time after it was set, unless it never begins.
const BEGINS_WITHIN: Span = Span::from_secs(1);
/// Longest time from the stamping of a frame until the frame is in the ring.
const ON_ITS_WAY: Span = Span::from_millis(1);

/// The progress of a ring through its ownership. It uses the wall clock only until the ownership window has begun: a clock that is
/// set back later, or at that moment, must not silence a port.
#[derive(Debug)]
pub(super) struct Progress {
    ownership: OwnershipWindow,
    /// The time from which the ownership window counts as begun, even if the wall clock disagrees.
    begun_at: Instant,
    is_over: bool,
}

impl Progress {
    /// The progress through an ownership window that is set at `now`.
    pub(super) fn new(ownership: OwnershipWindow, now: Instant) -> Self {
        Self {
            ownership,
            begun_at: match ownership.from {
                UnixTime::NEVER => Instant::FAR_FUTURE,
                _ => now + BEGINS_WITHIN,
            },
            is_over: false,
        }
    }

    /// Moves the start of the ownership window to `from`, if that is later.
    pub(super) fn begin_again(&mut self, from: UnixTime, now: Instant) {
        if self.ownership.from < from {
            self.ownership.from = from;
            self.begun_at = now + BEGINS_WITHIN;
        }
    }

    /// Whether the next frame of the ring is the router's.
    pub(super) fn admits(&mut self, stamp: UnixTime) -> bool {
        if stamp < self.ownership.from {
            return false;
        }
        self.ownership.from = UnixTime::FIRST; // all frames after it in the ring are later
        self.is_over |= stamp >= self.ownership.until;
        stamp < self.ownership.until
    }

    /// Records that the ring was empty at this time, by both clocks.
    pub(super) fn nothing_before(&mut self, wall_clock: UnixTime, now: Instant) {
        if wall_clock >= self.ownership.from || now >= self.begun_at {
            self.ownership.from = UnixTime::FIRST;
        }
        self.is_over |= wall_clock >= self.ownership.until.after(ON_ITS_WAY);
    }

    /// Whether every frame of the ownership window has arrived.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(seconds: u32) -> UnixTime {
        UnixTime::from_stamp(seconds, 0)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_tenure_is_from_its_first_instant_to_its_last() {
        let ownership = OwnershipWindow {
            from: wall(10),
            until: wall(20),
        };
        let mut progress = Progress::new(ownership, at(0));
        let admitted = [9, 10, 19, 20, 21].map(|s| progress.admits(wall(s)));
        assert_eq!(admitted, [false, true, true, false, false]);
        assert!(progress.is_over());
    }

    #[test]
    fn an_empty_ring_ends_a_tenure_when_nothing_can_be_on_its_way() {
        let until = wall(20);
        let ownership = OwnershipWindow {
            until,
            ..OwnershipWindow::ALWAYS
        };
        let mut progress = Progress::new(ownership, at(0));
        progress.nothing_before(until, at(1));
        assert!(!progress.is_over());
        progress.nothing_before(until.after(ON_ITS_WAY), at(2));
        assert!(progress.is_over());
    }

    #[test]
    fn a_tenure_that_begins_again_keeps_its_end() {
        let until = wall(30);
        let ownership = OwnershipWindow {
            until,
            ..OwnershipWindow::ALWAYS
        };
        let mut progress = Progress::new(ownership, at(0));
        assert!(progress.admits(wall(10)));
        progress.begin_again(wall(20), at(1));
        assert_eq!(
            [11, 20, 29, 30].map(|s| progress.admits(wall(s))),
            [false, true, true, false]
        );
        // A port whose frames are all the kernel's, or will be the router's later, stays as it is.
        for from in [wall(40), UnixTime::NEVER] {
            let mut progress = Progress::new(OwnershipWindow::from(from), at(0));
            progress.begin_again(wall(20), at(1));
            assert!(!progress.admits(wall(30)));
        }
    }

    #[test]
    fn a_wall_clock_that_is_set_back_keeps_no_port_silent() {
        let begin = |progress: &mut Progress| progress.admits(wall(10));
        let mut progress = Progress::new(OwnershipWindow::from(wall(10)), at(0));
        assert!(begin(&mut progress) && progress.admits(wall(3)));
        // With an empty ring, and at exactly that moment.
        let mut progress = Progress::new(OwnershipWindow::from(wall(10)), at(0));
        progress.nothing_before(wall(10), at(1));
        assert!(progress.admits(wall(3)));
        let mut progress = Progress::new(OwnershipWindow::from(wall(10)), at(0));
        progress.nothing_before(wall(3), at(999));
        assert!(!progress.admits(wall(4)));
        progress.nothing_before(wall(4), at(1000));
        assert!(progress.admits(wall(5)));
        let mut never = Progress::new(OwnershipWindow::NEVER, at(0));
        never.nothing_before(wall(10), at(10_000));
        assert!(!never.admits(wall(11)));
    }
}
