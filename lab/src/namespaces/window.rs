//! When a run takes place, on this machine's clock.

use std::time::Duration;

use weir_base::Instant;
use weir_live::clock;

/// From the common start of a run to its end, on the machine's clock. Other times here are those of the
/// run, which count from its start.
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

    /// How long it is from now to this time of the run.
    pub(super) fn until(&self, when: Instant) -> Duration {
        let when = self.start + when.since(Instant::ZERO);
        Duration::from_nanos(when.since(clock::now()).as_nanos())
    }

    /// Waits for this time of the run; up to a millisecond longer, as timers of tokio do.
    pub(super) async fn sleep_until(&self, when: Instant) {
        tokio::time::sleep(self.until(when)).await;
    }
}
