//! The delays of the way itself: a radio that waits for its turn delays packets although nothing is sent too fast.
//!
//! After a drain the port sends for a while at less than the link delivers. The greatest delay in that time is the
//! way's, unless the link has become slower meanwhile. So the median of the latest few counts.

use weir_base::Span;

/// Times that are kept.
const KEPT: usize = 5;

/// The greatest delay in each of the latest times without a queue of the port's.
#[derive(Clone, Debug, Default)]
pub(super) struct Jitter {
    greatest: [Span; KEPT],
    /// That of the time that lasts, if one does.
    current: Option<Span>,
}

impl Jitter {
    /// Such a time begins.
    pub(super) fn begin(&mut self) {
        self.current = Some(Span::ZERO);
    }

    /// Takes a delay of a packet that was sent in such a time.
    pub(super) fn take(&mut self, delay: Span) {
        if let Some(greatest) = &mut self.current {
            *greatest = delay.max(*greatest);
        }
    }

    /// The time ends, if one lasted.
    pub(super) fn end(&mut self) {
        if let Some(greatest) = self.current.take() {
            self.greatest.rotate_right(1);
            self.greatest[0] = greatest;
        }
    }

    /// The median.
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
