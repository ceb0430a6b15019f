//! Reno: one more segment for each round trip, half after a loss (RFC 5681, section 3.1).

use super::Acked;

/// State of congestion avoidance.
#[derive(Clone, Debug, Default)]
pub(super) struct Reno {
    /// Bytes acknowledged since the window last grew (RFC 3465, section 2.1).
    acked: u64,
}

impl Reno {
    /// The window after an acknowledgment: it grows by one segment for each window of acknowledged bytes.
    pub(super) fn increase(&mut self, window: u64, mss: u64, acked: Acked) -> u64 {
        if !acked.is_window_limited {
            return window;
        }
        self.acked += acked.bytes;
        if self.acked < window {
            return window;
        }
        self.acked -= window;
        window + mss
    }

    /// Half of the data in flight.
    pub(super) fn reduce(&mut self, flight: u64) -> u64 {
        self.acked = 0;
        flight / 2
    }
}
