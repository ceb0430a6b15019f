//! The delays of the path itself: a radio that waits for its turn delays packets even if the port sends slower than
//! the link.
//!
//! After a drain the port sends for a while at less than the link's rate. The maximum delay in this interval is the
//! path's, unless the link has become slower meanwhile. So the jitter is the median of the latest maxima.

use weir_base::Span;

/// Number of stored intervals.
const KEPT: usize = 5;

/// The maximum delay in each of the latest intervals without a queue behind the port.
#[derive(Clone, Debug, Default)]
pub(super) struct Jitter {
    greatest: [Span; KEPT],
    /// Maximum of the current interval; `None` outside an interval.
    current: Option<Span>,
}

impl Jitter {
    /// Starts an interval.
    pub(super) fn begin(&mut self) {
        self.current = Some(Span::ZERO);
    }

    /// Takes the delay of a packet sent in the current interval, if any.
    pub(super) fn take(&mut self, delay: Span) {
        if let Some(greatest) = &mut self.current {
            *greatest = delay.max(*greatest);
        }
    }

    /// Ends the current interval, if any.
    pub(super) fn end(&mut self) {
        if let Some(greatest) = self.current.take() {
            self.greatest.rotate_right(1);
            self.greatest[0] = greatest;
        }
    }

    /// The median of the maxima.
    pub(super) fn value(&self) -> Span {
        let mut sorted = self.greatest;
        sorted.sort_unstable();
        sorted[KEPT / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slower_link_is_no_jitter_but_a_way_that_always_waits_is() {
        let mut jitter = Jitter::default();
        for (delay, median) in [(90, 0), (12, 0), (14, 12), (13, 13), (1, 13), (2, 12)] {
            jitter.begin();
            jitter.take(Span::from_millis(delay));
            jitter.take(Span::ZERO);
            jitter.end();
            assert_eq!(jitter.value(), Span::from_millis(median), "{delay}");
        }
        jitter.take(Span::from_secs(1));
        jitter.end();
        assert_eq!(jitter.value(), Span::from_millis(12), "none lasted");
    }
}
