//! Round-trip time and retransmission timeout (RFC 6298).
//!
//! Choice: every acknowledgment of data that was never retransmitted gives a sample, as in Linux, not only one for each
//! round trip. The timeout stays backed off until there is a new sample (Karn).

use weir_base::Span;

use super::options::Options;

/// Timeout for data after the SYN was lost and no round trip is known (RFC 6298, rule 5.7).
const FALLBACK_RTO: Span = Span::from_secs(3);

/// The estimator of one sender.
#[derive(Clone, Debug)]
pub(super) struct RttEstimator {
    /// SRTT; meaningless before the first sample.
    smoothed: Span,
    /// RTTVAR.
    variation: Span,
    rto: Span,
    is_measured: bool,
    granularity: Span,
    min_rto: Span,
    max_rto: Span,
}

impl RttEstimator {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            smoothed: Span::ZERO,
            variation: Span::ZERO,
            rto: options.initial_rto,
            is_measured: false,
            granularity: options.granularity,
            min_rto: options.min_rto,
            max_rto: options.max_rto,
        }
    }

    /// SRTT; `None` before the first sample.
    pub(super) fn smoothed(&self) -> Option<Span> {
        self.is_measured.then_some(self.smoothed)
    }

    /// The timeout, doubled for each expiry since the last sample.
    pub(super) fn rto(&self) -> Span {
        self.rto
    }

    /// Adds a measured round-trip time (rules 2.2 and 2.3).
    pub(super) fn sample(&mut self, rtt: Span) {
        let r = rtt.as_nanos();
        if self.is_measured {
            let smoothed = self.smoothed.as_nanos();
            let variation = self.variation.as_nanos();
            // RTTVAR comes first, because it uses the old SRTT.
            let error = smoothed.abs_diff(r);
            self.variation = Span::from_nanos(variation - variation / 4 + error / 4);
            self.smoothed = Span::from_nanos(smoothed - smoothed / 8 + r / 8);
        } else {
            self.is_measured = true;
            self.smoothed = rtt;
            self.variation = Span::from_nanos(r / 2);
        }
        let rto = self.smoothed + self.granularity.max(self.variation.times(4));
        self.rto = rto.max(self.min_rto).min(self.max_rto);
    }

    /// Doubles the timeout after an expiry of the timer (rule 5.5).
    pub(super) fn back_off(&mut self) {
        self.rto = self.rto.times(2).min(self.max_rto);
    }

    /// Records that the handshake needed more than one SYN (rule 5.7).
    pub(super) fn fall_back(&mut self) {
        if !self.is_measured {
            self.rto = FALLBACK_RTO.min(self.max_rto);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator(granularity: Span) -> RttEstimator {
        RttEstimator::new(&Options {
            granularity,
            ..Options::default()
        })
    }

    #[test]
    fn the_numbers_of_rfc_6298_by_hand() {
        let mut rtt = estimator(Span::ZERO);
        assert_eq!((rtt.smoothed(), rtt.rto()), (None, Span::from_secs(1)));
        // First: SRTT = 400, RTTVAR = 200, RTO = 400 + 4 x 200.
        rtt.sample(Span::from_millis(400));
        assert_eq!(rtt.smoothed(), Some(Span::from_millis(400)));
        assert_eq!(rtt.rto(), Span::from_millis(1200));
        // RTTVAR = 3/4 x 200 + 1/4 x |400 - 480| = 170; SRTT = 7/8 x 400 + 1/8 x 480 = 410.
        rtt.sample(Span::from_millis(480));
        assert_eq!(rtt.smoothed(), Some(Span::from_millis(410)));
        assert_eq!(rtt.rto(), Span::from_millis(410 + 4 * 170));
        // RTTVAR = 127.5 + 1/4 x |410 - 330| = 147.5; SRTT = 358.75 + 41.25 = 400.
        rtt.sample(Span::from_millis(330));
        assert_eq!(rtt.smoothed(), Some(Span::from_millis(400)));
        assert_eq!(rtt.rto(), Span::from_millis(400 + 590));
    }

    #[test]
    fn the_timeout_has_a_floor_a_margin_and_a_ceiling() {
        let mut rtt = estimator(Span::ZERO);
        (0..200).for_each(|_| rtt.sample(Span::from_millis(100)));
        assert_eq!(rtt.rto(), Span::from_millis(200));
        let mut rtt = estimator(Span::from_millis(50));
        (0..200).for_each(|_| rtt.sample(Span::from_millis(300)));
        assert_eq!(rtt.rto(), Span::from_millis(350));
        rtt.sample(Span::from_secs(500));
        assert_eq!(rtt.rto(), Span::from_secs(60));
    }

    #[test]
    fn it_doubles_until_the_next_sample() {
        let mut rtt = estimator(Span::ZERO);
        rtt.sample(Span::from_millis(100));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), Span::from_millis(1200));
        (0..10).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(), Span::from_secs(60));
        rtt.sample(Span::from_millis(100));
        assert_eq!(rtt.rto(), Span::from_millis(250));
    }

    #[test]
    fn a_lost_syn_leaves_three_seconds() {
        let mut rtt = estimator(Span::ZERO);
        rtt.fall_back();
        assert_eq!(rtt.rto(), Span::from_secs(3));
        rtt.sample(Span::from_millis(100));
        rtt.fall_back();
        assert_eq!(rtt.rto(), Span::from_millis(300));
    }
}
