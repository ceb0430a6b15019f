//! The times at which an application that offers traffic at a rate has its next piece ready.
//!
//! ```text
//!   even       | | | | | |      exact: piece n is ready when the integral of the rate reaches it
//!   poisson    ||  |    | |     exponential gaps
//!   jittered   | |  | |  ||     each gap evenly from (1 - j) to (1 + j) of its length
//!   on / off   ||||       ||    pieces only while on
//! ```
//!
//! The simulator's applications and the lab's tools use the same schedules.

use crate::distribution::Times;
use crate::offered::Offered;
use crate::random::Stream;
use crate::spacing::Spacing;
use crate::time::{Instant, Span};

/// Alternating on and off times, on first.
#[derive(Clone, Debug, PartialEq)]
pub struct OnOff {
    /// How long the application offers its rate.
    pub on: Times,
    /// How long it is silent.
    pub off: Times,
}

/// Traffic that an application offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The rate; with on and off times, the rate while on.
    pub rate: Offered,
    /// Bytes of a piece: the payload of a packet, a write of a TCP application.
    pub piece: u32,
    /// How the pieces are spaced.
    pub spacing: Spacing,
    /// On and off times; `None` if the application is always on.
    pub on_off: Option<OnOff>,
}

/// The schedule of one application.
#[derive(Debug)]
pub struct Pace {
    load: Load,
    stream: Stream,
    until: Instant,
    /// Time from which the rate is integrated, in seconds.
    origin: f64,
    /// Number of pieces from the origin to the next one; a real number because of the spacing.
    place: f64,
    /// The end of the current on time, in seconds; infinite without on and off times.
    off_at: f64,
}

impl Pace {
    /// A schedule from `start` to `until`.
    pub fn new(load: Load, stream: Stream, start: Instant, until: Instant) -> Self {
        let mut pace = Self {
            load,
            stream,
            until,
            origin: seconds(start),
            place: 0.0,
            off_at: f64::INFINITY,
        };
        pace.switch_on(pace.origin);
        pace.place = pace.gap();
        pace
    }

    /// The same schedule with its first piece at `place`, counted in pieces, so that flows that start together do not
    /// send in lockstep.
    pub fn first_at(mut self, place: f64) -> Self {
        self.place = place;
        self
    }

    /// Bytes of a piece.
    pub fn piece(&self) -> u32 {
        self.load.piece
    }

    /// The time at which the next piece is ready; `None` if that is not before the end.
    pub fn next_piece(&mut self) -> Option<Instant> {
        let bits = f64::from(self.load.piece) * 8.0;
        loop {
            let next = self.load.rate.time_of(self.origin, self.place * bits)?;
            if next < self.off_at {
                self.place += self.gap();
                let next = Instant::ZERO + Span::from_secs_f64(next);
                return (next < self.until).then_some(next);
            }
            // The part of the piece that was offered before the off time counts after it.
            self.place -= self.load.rate.bits_between(self.origin, self.off_at) / bits;
            let off = self.load.on_off.as_ref()?.off.sample(&mut self.stream);
            let on_at = self.off_at + off.as_secs_f64();
            if on_at >= seconds(self.until) {
                return None;
            }
            self.switch_on(on_at);
        }
    }

    fn gap(&mut self) -> f64 {
        self.load.spacing.gap(&mut self.stream)
    }

    fn switch_on(&mut self, at: f64) {
        if let Some(on_off) = &self.load.on_off {
            let on = on_off.on.sample(&mut self.stream);
            self.off_at = at + on.as_secs_f64();
            self.origin = at;
        }
    }
}

fn seconds(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::random::Streams;
    use crate::units::Rate;

    fn times(spacing: Spacing, on_off: Option<OnOff>, seconds: u64) -> Vec<f64> {
        let load = Load {
            rate: Offered::constant(Rate::from_bps(8_000)),
            piece: 10,
            spacing,
            on_off,
        };
        let stream = Streams::new(3).stream("pace");
        let until = Instant::ZERO + Span::from_secs(seconds);
        let mut pace = Pace::new(load, stream, Instant::ZERO, until);
        std::iter::from_fn(|| pace.next_piece())
            .map(super::seconds)
            .collect()
    }

    #[test]
    fn even_pieces_keep_the_rate() {
        // 10 bytes are 80 bits: at 8 kbit/s, one piece every 10 ms; the one at the end does not count.
        let times = times(Spacing::Even, None, 1);
        assert_eq!(times.len(), 99);
        assert_eq!(times[..3], [0.01, 0.02, 0.03]);
    }

    #[test]
    fn the_first_piece_may_have_a_place_of_its_own() {
        let load = Load {
            rate: Offered::constant(Rate::from_bps(8_000)),
            piece: 10,
            spacing: Spacing::Even,
            on_off: None,
        };
        let start = Instant::ZERO + Span::from_secs(2);
        let stream = Streams::new(3).stream("pace");
        let pace = Pace::new(load, stream, start, start + Span::from_millis(20));
        let mut pace = pace.first_at(0.5);
        let times = std::iter::from_fn(|| pace.next_piece());
        assert_eq!(
            times.map(super::seconds).collect::<Vec<_>>(),
            [2.005, 2.015]
        );
    }

    #[test]
    fn random_gaps_keep_the_mean_rate() {
        for spacing in [Spacing::Poisson, Spacing::Jittered(0.5)] {
            let times = times(spacing, None, 200);
            // 20 000 pieces; three standard deviations of a Poisson count are 424.
            assert!(times.len().abs_diff(20_000) < 424, "{}", times.len());
            let gaps = times.windows(2).map(|w| w[1] - w[0]);
            let squares = gaps.map(|gap| (gap / 0.01 - 1.0).powi(2)).sum::<f64>();
            let variance = squares / times.len() as f64;
            // Exponential: 1. Uniform from 0.5 to 1.5: 1/12.
            let expected = if spacing == Spacing::Poisson {
                1.0
            } else {
                1.0 / 12.0
            };
            // Three standard deviations of an exponential's sample variance: 3 sqrt(8 / n).
            assert!((variance / expected - 1.0).abs() < 0.06, "{variance}");
        }
    }

    #[test]
    fn half_of_the_time_off_is_half_of_the_rate() {
        let on_off = OnOff {
            on: Times(Distribution::Fixed(0.5)),
            off: Times(Distribution::Fixed(0.5)),
        };
        let times = times(Spacing::Even, Some(on_off), 10);
        // On for 5 s of the 10: 500 pieces of 10 ms each; the last would come as it goes off.
        assert!(times.len().abs_diff(500) <= 1, "{}", times.len());
        assert!(times.iter().all(|t| t.fract() < 0.5 + 1e-9));
    }

    #[test]
    fn a_piece_may_take_several_times_of_being_on() {
        let on_off = OnOff {
            on: Times(Distribution::Fixed(0.004)),
            off: Times(Distribution::Fixed(0.006)),
        };
        // On for 4 ms of every 10 ms: a piece of 10 ms every 25 ms.
        let times = times(Spacing::Even, Some(on_off), 10);
        assert!(times.len().abs_diff(400) <= 1, "{}", times.len());
    }
}
