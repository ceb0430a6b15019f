//! The time of a run on the machine's clock.

use std::time::Duration;

use weir_base::Instant;
use weir_live::clock;

/// The start and the end of a run on the machine's clock. Other times here count from the start of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunWindow {
    /// The common start.
    pub(super) start: Instant,
    /// The end.
    pub(super) end: Instant,
}

impl RunWindow {
    /// The time of the run; zero before its start.
    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + clock::now().since(self.start)
    }

    /// The end, as a time of the run.
    pub(super) fn last(&self) -> Instant {
        Instant::ZERO + self.end.since(self.start)
    }

    /// Time from now until this time of the run.
    pub(super) fn until(&self, when: Instant) -> Duration {
        clock::until(self.start + when.since(Instant::ZERO))
    }

    /// Waits until this time of the run; up to a millisecond longer, because of tokio's timers.
    pub(super) async fn sleep_until(&self, when: Instant) {
        tokio::time::sleep(self.until(when)).await;
    }
}
