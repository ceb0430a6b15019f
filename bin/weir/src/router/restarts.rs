//! Limits how often a supervisor restarts a router that crashed or was killed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Maximum number of restarts within [`WINDOW`]; a router that fails more often ends.
pub(super) const RESTARTS_MAX: usize = 5;
/// See [`RESTARTS_MAX`].
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// Pause before the first restart; it doubles with each further restart within the window.
const PAUSE: Duration = Duration::from_millis(100);

/// The restarts of a router.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    recent: VecDeque<Instant>,
    /// Number of all restarts so far.
    pub(super) count: u64,
}

impl Restarts {
    /// Counts a restart, and returns the pause before it; `None` after too many restarts.
    pub(super) fn next(&mut self, now: Instant) -> Option<Duration> {
        self.recent.retain(|at| now.duration_since(*at) < WINDOW);
        let before = self.recent.len();
        if before == RESTARTS_MAX {
            return None;
        }
        self.recent.push_back(now);
        self.count += 1;
        Some(PAUSE * 2_u32.pow(before as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_that_fails_again_and_again_ends() {
        let begin = Instant::now();
        let mut restarts = Restarts::default();
        let mut at = |seconds| restarts.next(begin + Duration::from_secs(seconds));
        let pauses = [0, 1, 2, 3, 4].map(|second| at(second).map(|pause| pause.as_millis()));
        assert_eq!(pauses, [100, 200, 400, 800, 1600].map(Some));
        assert_eq!(at(5), None);
        assert_eq!(at(60), Some(PAUSE * 16)); // the first one is forgotten
        assert_eq!(at(600), Some(PAUSE));
        assert_eq!(restarts.count, 7);
    }
}
