//! The congestion window: slow start and reductions are here, congestion avoidance in one file for each algorithm.
//!
//! Source: RFC 5681 for the window, RFC 3465 for counting bytes, RFC 9438 for CUBIC.
//!
//! Choices. Slow start adds the bytes acknowledged, at most 2 SMSS for each acknowledgment (RFC 3465 with L = 2), and 1
//! SMSS after a timeout, because then one acknowledgment may cover much data that had arrived long ago. The window
//! grows only while it limits the sender. There is no HyStart: slow start ends with a loss or a mark.

mod cubic;
mod reno;

use weir_base::{Instant, Span};

use super::options::{Options, Variant};
use cubic::Cubic;
use reno::Reno;

/// The congestion window of one sender, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    window: u64,
    threshold: u64,
    mss: u64,
    /// Maximum bytes that count for one acknowledgment.
    counted_max: u64,
    algorithm: Algorithm,
}

/// The algorithm of congestion avoidance.
#[derive(Clone, Debug)]
enum Algorithm {
    Reno(Reno),
    Cubic(Cubic),
}

/// The properties of an acknowledgment of new data that affect the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    /// Bytes newly acknowledged.
    pub(super) bytes: u64,
    /// Whether the congestion window, rather than the application or the receiver, stopped the sender.
    pub(super) is_window_limited: bool,
    /// Whether losses of a timeout are still being repaired.
    pub(super) is_after_timeout: bool,
    /// Smoothed round-trip time.
    pub(super) rtt: Span,
    /// Time of the acknowledgment.
    pub(super) now: Instant,
}

impl Congestion {
    pub(super) fn new(options: &Options) -> Self {
        let mss = u64::from(options.mss);
        Self {
            window: u64::from(options.initial_window) * mss,
            threshold: u64::MAX,
            mss,
            counted_max: if options.byte_counting { u64::MAX } else { mss },
            algorithm: match options.variant {
                Variant::NewReno | Variant::Sack => Algorithm::Reno(Reno::default()),
                Variant::Cubic => Algorithm::Cubic(Cubic::default()),
            },
        }
    }

    /// The congestion window (cwnd).
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// The slow start threshold (ssthresh).
    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Sets the window at the end of a recovery without SACK (RFC 6582), and after a SYN that was lost twice.
    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window.max(self.mss);
    }

    /// Sets the window for the first transmission, or for a transmission after idling.
    pub(super) fn restart(&mut self, window: u64) {
        self.window = self.window.min(window);
        if let Algorithm::Cubic(cubic) = &mut self.algorithm {
            cubic.end_epoch();
        }
    }

    /// Handles an acknowledgment of new data outside of fast recovery.
    #[inline]
    pub(super) fn on_ack(&mut self, acked: Acked) {
        let acked = Acked {
            bytes: acked.bytes.min(self.counted_max),
            ..acked
        };
        if self.window < self.threshold {
            if acked.is_window_limited {
                let limit = if acked.is_after_timeout { 1 } else { 2 };
                self.window += acked.bytes.min(limit * self.mss);
            }
            return;
        }
        self.window = match &mut self.algorithm {
            Algorithm::Reno(reno) => reno.increase(self.window, self.mss, acked),
            Algorithm::Cubic(cubic) => cubic.increase(self.window, self.mss, acked),
        };
    }

    /// Handles a loss that duplicate acknowledgments revealed while `flight` bytes were outstanding.
    pub(super) fn on_loss(&mut self, flight: u64) {
        self.reduce(flight);
        self.window = self.threshold;
    }

    /// Handles an echoed mark (RFC 3168, section 6.1.2; RFC 9438, section 4.6). Unlike a loss, it may reduce the window
    /// to one segment.
    pub(super) fn on_mark(&mut self, flight: u64) {
        let reduced = self.reduce(flight);
        self.window = reduced.max(self.mss);
    }

    /// Handles an expiry of the retransmission timer. `again` means for the same data as before; then the threshold
    /// stays (RFC 5681, section 3.1).
    pub(super) fn on_timeout(&mut self, flight: u64, again: bool) {
        if !again {
            self.reduce(flight);
        }
        if let Algorithm::Cubic(cubic) = &mut self.algorithm {
            cubic.on_timeout();
        }
        self.window = self.mss;
    }

    /// Sets the threshold; returns its value without the lower bound.
    fn reduce(&mut self, flight: u64) -> u64 {
        let reduced = match &mut self.algorithm {
            Algorithm::Reno(reno) => reno.reduce(flight),
            Algorithm::Cubic(cubic) => cubic.reduce(flight, self.window, self.mss),
        };
        self.threshold = reduced.max(2 * self.mss);
        reduced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn congestion(variant: Variant) -> Congestion {
        Congestion::new(&Options {
            variant,
            mss: MSS as u32,
            ..Options::default()
        })
    }

    fn acked(bytes: u64) -> Acked {
        Acked {
            bytes,
            is_window_limited: true,
            is_after_timeout: false,
            rtt: Span::from_millis(100),
            now: Instant::ZERO,
        }
    }

    #[test]
    fn slow_start_counts_bytes_up_to_two_segments() {
        let mut congestion = congestion(Variant::Sack);
        congestion.on_ack(acked(1500));
        assert_eq!(congestion.window(), 11_500);
        congestion.on_ack(acked(5000));
        assert_eq!(congestion.window(), 13_500);
        congestion.on_ack(Acked {
            is_after_timeout: true,
            ..acked(5000)
        });
        assert_eq!(congestion.window(), 14_500);
    }

    #[test]
    fn reno_adds_one_segment_for_each_window() {
        let mut congestion = congestion(Variant::Sack);
        congestion.on_loss(10_000);
        assert_eq!((congestion.window(), congestion.threshold()), (5000, 5000));
        (0..4).for_each(|_| congestion.on_ack(acked(MSS)));
        assert_eq!(congestion.window(), 5000);
        congestion.on_ack(acked(MSS));
        assert_eq!(congestion.window(), 6000);
        (0..3).for_each(|_| congestion.on_ack(acked(2 * MSS)));
        assert_eq!(congestion.window(), 7000);
    }

    #[test]
    fn without_byte_counting_an_acknowledgment_is_a_segment() {
        let mut congestion = Congestion::new(&Options {
            variant: Variant::NewReno,
            mss: MSS as u32,
            initial_window: 4,
            byte_counting: false,
            ..Options::default()
        });
        congestion.on_ack(acked(2 * MSS)); // slow start: one segment, not two
        assert_eq!(congestion.window(), 5 * MSS);
        congestion.on_loss(8 * MSS);
        (0..3).for_each(|_| congestion.on_ack(acked(2 * MSS)));
        assert_eq!(congestion.window(), 4 * MSS);
        congestion.on_ack(acked(2 * MSS)); // avoidance: the fourth makes a window
        assert_eq!(congestion.window(), 5 * MSS);
    }

    #[test]
    fn a_window_that_is_not_full_does_not_grow() {
        for variant in [Variant::Sack, Variant::Cubic] {
            let mut congestion = congestion(variant);
            let idle = Acked {
                is_window_limited: false,
                ..acked(MSS)
            };
            congestion.on_ack(idle);
            assert_eq!(congestion.window(), 10_000);
            congestion.on_loss(10_000);
            let window = congestion.window();
            (0..100).for_each(|_| congestion.on_ack(idle));
            assert_eq!(congestion.window(), window);
        }
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_the_threshold_only_falls_once() {
        let mut congestion = congestion(Variant::NewReno);
        congestion.on_timeout(10_000, false);
        assert_eq!((congestion.window(), congestion.threshold()), (1000, 5000));
        congestion.on_timeout(1000, true);
        assert_eq!((congestion.window(), congestion.threshold()), (1000, 5000));
    }

    #[test]
    fn no_loss_goes_below_two_segments_but_a_mark_does() {
        for variant in [Variant::Sack, Variant::Cubic] {
            let mut congestion = congestion(variant);
            congestion.on_loss(1000);
            assert_eq!((congestion.window(), congestion.threshold()), (2000, 2000));
            congestion.on_mark(1000);
            assert_eq!((congestion.window(), congestion.threshold()), (1000, 2000));
        }
    }
}
