//! BLUE: a drop probability that rises while a queue overflows, and falls while it is empty.
//!
//! ```text
//!  p   overflow overflow            empty
//!  ^      ____--""|       kept       |
//!  |  _--"        |__________________|""--__          +1/256 and -1/4096, at most once in each step
//!  +--------------------------------------------> time
//! ```
//!
//! Source: Feng, Shin, Kandlur, Saha, "The BLUE Active Queue Management Algorithms", IEEE/ACM ToN 2002; the
//! steps are those of Linux `sch_cake`. CoDel drops ever faster, but never fast enough for an unresponsive
//! sender; BLUE does.

use weir_base::{Instant, Span};

use crate::parts::chance::Chance;

/// The number of parts into which the probability is divided.
const PARTS: u32 = 4096;
/// The parts that an overflow adds.
const RISE: u32 = PARTS / 256;

/// The probability of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Blue {
    parts: u32,
    /// When the probability last changed; while the queue is empty, the time since which the probability falls.
    moved: Instant,
}

impl Blue {
    /// Notes that the queue lost a packet to make room.
    pub(crate) fn overflow(&mut self, step: Span, now: Instant) {
        if self.parts == 0 || now.since(self.moved) > step {
            self.parts = (self.parts + RISE).min(PARTS);
            self.moved = now;
        }
    }

    /// Notes that the queue became empty.
    pub(crate) fn empty(&mut self, now: Instant) {
        self.moved = now;
    }

    /// The remaining parts of the probability, if the queue was empty up to now.
    fn left(&self, step: Span, now: Instant) -> u32 {
        let steps = now.since(self.moved).as_nanos() / step.as_nanos().max(1);
        u32::try_from(steps).map_or(0, |steps| self.parts.saturating_sub(steps))
    }

    /// Whether the probability is zero, if the queue was empty up to now.
    pub(crate) fn rests(&self, step: Span, now: Instant) -> bool {
        self.parts == 0 || self.left(step, now) == 0
    }

    /// Notes that the queue, which was empty, holds a packet again.
    pub(crate) fn resume(&mut self, step: Span, now: Instant) {
        self.parts = self.left(step, now);
        self.moved = now;
    }

    /// The probability; `None` for zero.
    pub(crate) fn chance(&self) -> Option<Chance> {
        let probability = f64::from(self.parts) / f64::from(PARTS);
        (self.parts > 0).then(|| Chance::new(probability))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Span = Span::from_millis(5);

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn rises_by_a_256th_once_in_a_step() {
        let mut blue = Blue::default();
        for n in 0..100 {
            blue.overflow(STEP, ms(n)); // at 0, 6, 12, ..., 96: 17 times
        }
        assert_eq!(blue.parts, 17 * 16);
        assert_eq!(blue.chance(), Some(Chance::new(17.0 / 256.0)));
        for n in 0..300 {
            blue.overflow(STEP, ms(100 + 6 * n));
        }
        assert_eq!(blue.chance(), Some(Chance::new(1.0)));
    }

    #[test]
    fn falls_by_a_4096th_in_each_step_of_emptiness() {
        // 1/256 = 16/4096 falls to zero in 16 steps of 5 ms.
        let mut blue = Blue::default();
        blue.overflow(STEP, ms(0));
        blue.empty(ms(1000));
        assert!(!blue.rests(STEP, ms(1079)));
        assert!(blue.rests(STEP, ms(1080)));
        blue.resume(STEP, ms(1025));
        assert_eq!(blue.parts, 11);
        blue.empty(ms(2000));
        blue.resume(STEP, ms(3000));
        assert_eq!(blue.chance(), None);
    }
}
